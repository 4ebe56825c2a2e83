//! `docs/limits.md` says what is so: directives have the defaults that the table gives, constants their values, and each case
//! exists. Beside that, bounds that need more than a case to meet.

mod support;

use std::path::Path;

use support::{Site, binary, connect, eventually, output};

const LIMITS: &str = include_str!("../../../docs/limits.md");

/// The rows of all tables: what grows, bound, default, what happens, case.
fn rows() -> Vec<Vec<&'static str>> {
    let cells =
        |line: &'static str| -> Vec<&'static str> { line.trim_matches('|').split('|').map(str::trim).collect() };
    let rows = LIMITS.lines().filter(|line| line.starts_with("| ")).map(cells);
    rows.filter(|cells| !cells[0].starts_with("---") && cells[0] != "what grows").collect()
}

/// The value of a constant's expression: numbers, `<<` and `*`, or a time in seconds.
fn value(expression: &str) -> Option<u64> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    if let Some(seconds) = expression.strip_prefix("Duration::from_secs(") {
        return number(seconds.strip_suffix(')')?);
    }
    if let Some((base, shift)) = expression.split_once("<<") {
        return Some(number(base)? << number(shift)?);
    }
    expression.split('*').map(number).try_fold(1u64, |product, factor| Some(product * factor?))
}

/// `512 KB` or `30 s` as a number.
fn amount(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let shift = match unit {
        "" | "s" => 0,
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? << shift)
}

#[test]
fn the_table_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rows = rows();
    assert!(rows.len() > 40, "the tables are read");
    let mut wrong = Vec::new();
    for row in &rows {
        let [_, bound, default, _, case] = row[..] else { panic!("five columns: {row:?}") };
        let name = bound.split('`').nth(1).unwrap_or_default();
        let text = std::fs::read_to_string(root.join(case)).unwrap_or_default();
        if text.is_empty() {
            wrong.push(format!("{name}: no case {case}"));
        }
        if let Some((_, source)) = bound.split_once(" in ") {
            let source = std::fs::read_to_string(root.join(source)).unwrap_or_default();
            let expression = source.lines().find_map(|line| {
                let (_, rest) = line.split_once(&format!("const {name}: "))?;
                rest.split_once(" = ")?.1.strip_suffix(';')
            });
            if expression.and_then(value).is_none_or(|value| amount(default) != Some(value)) {
                wrong.push(format!("{name}: {default:?} is not {expression:?}"));
            }
        } else {
            if !text.contains(name) {
                wrong.push(format!("{name}: nothing of it in {case}"));
            }
            let shown = output(binary().args(["directives", name]));
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            let default = default.trim_matches('`');
            let expected =
                if default == "-" { "Default: -\n".to_owned() } else { format!("Default: {name} {default};\n") };
            if !shown.contains(&expected) {
                wrong.push(format!("{name}: {default:?} is not in {shown:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn copies_of_a_mirror_do_not_pile_up() {
    const COPIES_MAX: usize = 1024;
    // Nobody accepts, and the copies wait for an answer.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new("worker_processes 1; worker_rlimit_nofile 4096;", "");
    site.write_conf(&format!(
        "worker_processes 1; worker_rlimit_nofile 4096; error_log logs/error.log notice; pid logs/nginx.pid;\n\
         events {{ worker_connections 4000; }}\n\
         http {{ server {{\n\
             listen 127.0.0.1:{};\n\
             location / {{ mirror /copy; mirror_request_body off; content_by_lua_block {{ ngx.print('ok') }} }}\n\
             location /copy {{ proxy_connect_timeout 300s; proxy_read_timeout 300s; proxy_pass http://{}; }}\n\
         }} }}\n",
        site.port,
        silent.local_addr().expect("bound"),
    ));
    site.start();
    let mut client = connect(site.port).expect("the server accepts");
    use std::io::{Read as _, Write as _};
    for _ in 0..COPIES_MAX + 8 {
        // A connection brings a thousand requests.
        if client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_err()
            || client.read(&mut [0; 4096]).unwrap_or(0) == 0
        {
            client = connect(site.port).expect("the server accepts");
        }
    }
    site.wait_for_log("1024 copies are under way: \"/copy\" gets none of this request");
    drop(silent);
    eventually("the server answers on", || support::get(site.port, "/").ok());
    site.signal(nix::sys::signal::Signal::SIGTERM);
    site.wait();
}

#[test]
fn one_receive_of_a_cosocket_keeps_so_much() {
    let endless = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = endless.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut peer, _) = endless.accept().expect("the script connects");
        while peer.write_all(&[b'x'; 64 << 10]).is_ok() {}
    });
    let mut site = Site::new(
        "",
        &format!(
            "location = /endless {{ content_by_lua_block {{
                 local sock = ngx.socket.tcp()
                 assert(sock:connect('127.0.0.1', {port}))
                 local data, err, partial = sock:receive('*a')
                 ngx.print(tostring(data), ' ', err, ' ', #partial > 256 * 1048576)
             }} }}"
        ),
    );
    site.start();
    let answer = support::get(site.port, "/endless").expect("an answer");
    assert!(answer.contains("nil too much data true"), "{answer}\n{}", site.log());
}

#[test]
fn one_read_of_a_process_keeps_so_much() {
    let mut site = Site::new(
        "",
        "location = /endless { content_by_lua_block {
             local process = require('ngx.pipe').spawn({'cat', '/dev/zero'})
             local data, err, partial = process:stdout_read_line()
             process:kill(9)
             ngx.print(tostring(data), ' ', err, ' ', #partial > 256 * 1048576)
         } }",
    );
    site.start();
    let answer = support::get(site.port, "/endless").expect("an answer");
    assert!(answer.contains("nil too much data true"), "{answer}\n{}", site.log());
}
