//! A MySQL server that lies about what it sends: it cuts its answers at every byte, counts wrongly, ends too early or not at
//! all. `drizzle_pass` and `resty.mysql` must answer each with an error, soon, and send nothing more on that connection: the
//! server notes it when they do. Between the lies, other statements get their own rows.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::{PATIENCE, Site, get};

const CLIENTS: usize = 8;

/// An answer that is wrong.
struct Lie {
    name: String,
    bytes: Vec<u8>,
    /// Whether the server closes the connection behind it, or stays and says nothing.
    closes: bool,
}

/// Payloads as packets, numbered from `sequence` on.
fn framed(mut sequence: u8, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in payloads {
        out.extend([payload.len() as u8, 0, 0, sequence]);
        out.extend(payload);
        sequence += 1;
    }
    out
}

fn text(bytes: &str) -> Vec<u8> {
    [&[bytes.len() as u8], bytes.as_bytes()].concat()
}

fn column(name: &str, kind: u8) -> Vec<u8> {
    let texts: Vec<u8> = ["def", "", "t", "t", name, name].into_iter().flat_map(text).collect();
    [&texts[..], &[12, 45, 0, 0, 0, 0, 0, kind, 0, 0, 0, 0, 0]].concat()
}

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const END: &[u8] = b"\xfe\0\0\x02\0\0\0";

/// A row `{"id": number, "name": "number"}`.
fn row(number: usize) -> Vec<u8> {
    [text(&number.to_string()), text(&number.to_string())].concat()
}

/// The packets of a result with one row.
fn result(number: usize) -> Vec<Vec<u8>> {
    vec![vec![2], column("id", 3), column("name", 253), row(number), END.to_vec()]
}

fn lies() -> Vec<Lie> {
    let mut lies = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>| {
        for closes in [true, false] {
            lies.push(Lie { name: name.clone(), bytes: bytes.clone(), closes });
        }
    };
    let honest = framed(1, &result(7));
    for len in 0..honest.len() {
        add(format!("{len} bytes"), honest[..len].to_vec());
    }
    for at in 0..result(7).len() {
        let changed = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let mut packets = result(7);
            change(&mut packets);
            framed(1, &packets)
        };
        // Without its row a result is empty, and honest.
        if at != 3 {
            add(format!("without packet {at}"), changed(&|packets| drop(packets.remove(at))));
        }
        add(format!("the end in front of packet {at}"), changed(&|packets| packets.insert(at, END.to_vec())));
        add(format!("a row in front of packet {at}"), changed(&|packets| packets.insert(at, vec![0; 3])));
        let short = result(7)[at].len().saturating_sub(3);
        add(format!("packet {at} without its last bytes"), changed(&|packets| packets[at].truncate(short)));
        let head: usize = result(7)[..at].iter().map(|packet| packet.len() + 4).sum();
        for (what, byte, change) in [("sequence", 3, 1u8), ("sequence", 3, 0xff), ("length", 0, 1), ("length", 0, 0xff)]
        {
            let mut bytes = honest.clone();
            bytes[head + byte] = bytes[head + byte].wrapping_add(change);
            add(format!("{what} of packet {at}"), bytes);
        }
    }
    for (name, packet, value) in [("a column less", 0, 1), ("a column more", 0, 3), ("a longer value", 3, 2)] {
        let mut packets = result(7);
        packets[packet][0] = value;
        add(name.to_owned(), framed(1, &packets));
    }
    add("a row behind the end".to_owned(), framed(1, &[result(7), vec![row(8)]].concat()));
    add("two results".to_owned(), [honest.clone(), honest].concat());
    add("two OKs".to_owned(), framed(1, &[OK.to_vec(), OK.to_vec()]));
    add("an error without its number".to_owned(), framed(1, &[vec![0xff, 1]]));
    add("a second result that does not come".to_owned(), framed(1, &[b"\0\0\0\x0a\0\0\0".to_vec()]));
    lies
}

/// What the server has seen that it must not see.
type Faults = Arc<Mutex<Vec<String>>>;

/// The payload of the next packet; `None` at the end.
fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut payload).ok().map(|()| payload)
}

/// Logs a client in and answers its statements until it has lied.
fn serve(mut stream: TcpStream, lies: &[Lie], faults: &Faults) -> Option<()> {
    // Protocol 4.1, plugins, results of the newer form; the nonce has 8 and 12 bytes.
    let greeting =
        b"\x0a8.0.0\0\x01\0\0\0abcdefgh\0\x0f\xa2\x2d\x02\0\x0b\x01\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(&framed(0, &[greeting.to_vec()])).ok()?;
    read(&mut stream)?;
    stream.write_all(&framed(2, &[OK.to_vec()])).ok()?;
    loop {
        let command = read(&mut stream)?;
        let sql = String::from_utf8_lossy(&command).into_owned();
        let number = |text: &str| text.trim().parse::<usize>().ok();
        if let Some(number) = sql.strip_prefix("\u{3}select truth ").and_then(number) {
            stream.write_all(&framed(1, &result(number))).ok()?;
        } else if let Some(lie) = sql.strip_prefix("\u{3}select lie ").and_then(number) {
            let lie = &lies[lie];
            stream.write_all(&lie.bytes).ok()?;
            if lie.closes {
                return None;
            }
            // The lied to may say goodbye.
            while let Some(command) = read(&mut stream) {
                if command != [1] {
                    let what = String::from_utf8_lossy(&command).into_owned();
                    faults.lock().expect("nobody panics with it").push(format!("{}: then {what:?}", lie.name));
                }
            }
            return None;
        } else {
            // Whatever is asked to end statements that nobody waits for.
            stream.write_all(&framed(1, &[b"\xff\x28\x04#42000no".to_vec()])).ok()?;
        }
    }
}

const LUA: &str = r#"
    local db = assert(require("resty.mysql"):new())
    assert(db:connect({ host = "127.0.0.1", port = PORT, user = "u", password = "p" }))
    if ngx.var.arg_truth then
        local rows = assert(db:query("select truth " .. ngx.var.arg_truth))
        ngx.print(rows[1].id, " ", rows[1].name)
    else
        db:set_timeout(100)
        local rows, problem = db:query("select lie " .. ngx.var.arg_lie)
        if problem == "again" then
            rows, problem = db:read_result()
        end
        local more, problem_more = db:query("select lie " .. ngx.var.arg_lie)
        ngx.status = (rows or more) and 200 or 500
        ngx.print(problem, "\n", problem_more)
    end
    db:set_keepalive()
"#;

fn start(address: &std::net::SocketAddr) -> Site {
    let mut site = Site::new("", "");
    let lua = LUA.replace("PORT", &address.port().to_string());
    site.write_conf(&format!(
        "worker_processes 1; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}\n\
         http {{\n\
             upstream db {{\n\
                 drizzle_server {address} user=u password=p max_fails=0;\n\
                 drizzle_keepalive max=30 overflow=ignore;\n\
             }}\n\
             server {{\n\
                 listen 127.0.0.1:{};\n\
                 location = / {{ return 200 ok; }}\n\
                 location = /lua {{ content_by_lua_block {{ {lua} }} }}\n\
                 location = /truth {{ rds_json on; drizzle_query \"select truth $arg_truth\"; drizzle_pass db; }}\n\
                 location = /drizzle {{\n\
                     drizzle_send_query_timeout 100ms; drizzle_recv_cols_timeout 100ms; drizzle_recv_rows_timeout 100ms;\n\
                     rds_json on; drizzle_query \"select lie $arg_lie\"; drizzle_pass db;\n\
                 }}\n\
             }}\n\
         }}\n",
        site.port
    ));
    site.start();
    site
}

/// Asks for a lie, which must be an error, then for the truth, by both ways.
fn ask(port: u16, number: usize, name: &str, faults: &Faults) {
    let fault = |text: String| faults.lock().expect("nobody panics with it").push(text);
    for path in ["drizzle", "lua"] {
        let response = get(port, &format!("/{path}?lie={number}")).unwrap_or_default();
        if !response.starts_with("HTTP/1.1 5") {
            fault(format!("{name} by /{path}: {response}"));
        }
    }
    let truths =
        [("truth", format!("[{{\"id\":{number},\"name\":\"{number}\"}}]")), ("lua", format!("{number} {number}"))];
    for (path, expected) in truths {
        let response = get(port, &format!("/{path}?truth={number}")).unwrap_or_default();
        if !response.starts_with("HTTP/1.1 200") || !response.contains(&expected) {
            fault(format!("after {name}, /{path}: {response}"));
        }
    }
}

#[test]
fn lies_are_errors() {
    let (lies, faults) = (Arc::new(lies()), Faults::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let over = Arc::new(AtomicBool::new(false));
    let server = {
        let (lies, faults, over) = (lies.clone(), faults.clone(), over.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (stream, lies, faults) = (stream.expect("accepted"), lies.clone(), faults.clone());
                std::thread::spawn(move || serve(stream, &lies, &faults));
            }
        })
    };
    let mut site = start(&address);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while let Some((number, lie)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    lies.get(number).map(|lie| (number, lie))
                } {
                    ask(site.port, number, &lie.name, &faults);
                }
            });
        }
    });
    let found = std::mem::take(&mut *faults.lock().expect("all have ended"));
    assert!(found.is_empty(), "{} faults\n{}", found.len(), found.join("\n"));
    over.store(true, Ordering::Relaxed);
    drop(TcpStream::connect(address));
    server.join().expect("no panic");
    site.quit();
}
