//! What the README tells a newcomer to do works: its configurations, its commands and the answers that it promises.

mod support;

use std::io::{Read, Write};
use std::process::Command;

use support::{Site, connect};

const README: &str = include_str!("../../../README.md");

/// The blocks of code in a language, in their order.
fn blocks(language: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut rest = README;
    while let Some((_, after)) = rest.split_once(&format!("```{language}\n")) {
        let (block, after) = after.split_once("```").expect("a block ends");
        found.push(block);
        rest = after;
    }
    found
}

fn get(port: u16, target: &str) -> String {
    let mut stream = connect(port).expect("the server accepts");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("an answer");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    // A body without a length comes in one chunk.
    match head.contains("Transfer-Encoding: chunked") {
        true => body.split("\r\n").nth(1).expect("a chunk").to_owned(),
        false => body.to_owned(),
    }
}

#[test]
fn the_site_on_the_internet() {
    let site = Site::new("", "");
    let configuration = blocks("nginx").remove(2);
    // The machine's own ports are somebody else's; nobody asks for a certificate here.
    let port = support::free_port();
    site.write_conf(&configuration.replace("listen 443 ssl;", &format!("listen 127.0.0.1:{port} ssl;")));
    let output = site.run(&["-t"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("[warn]") && !said.contains("[emerg]"), "{said}");
}

#[test]
fn the_first_endpoints() {
    let (configurations, commands) = (blocks("nginx"), blocks("console"));
    // The last one is not for a newcomer's machine.
    assert_eq!((configurations.len(), commands.len()), (3, 2));
    for (configuration, commands) in configurations.iter().zip(commands) {
        let mut site = Site::new("", "");
        site.write_conf(&format!(
            "pid logs/nginx.pid;\n{}",
            configuration
                .replace("daemon off;", "")
                .replace("listen 8080;", &format!("listen 127.0.0.1:{};", site.port))
        ));
        let mut lines = commands.lines();
        let mut served = false;
        while let Some(line) = lines.next() {
            let command = line.strip_prefix("$ ").expect("a command");
            if ["cargo ", "kill "].iter().any(|word| command.starts_with(word)) || command.contains("/tidegate ") {
                continue;
            }
            let Some(target) = command.strip_prefix("curl 'http://localhost:8080").and_then(|t| t.strip_suffix('\''))
            else {
                let status = Command::new("sh").args(["-c", command]).current_dir(&site.dir).status().expect("a shell");
                assert!(status.success(), "{command}");
                continue;
            };
            if !served {
                site.start();
                served = true;
            }
            assert_eq!(get(site.port, target).trim_end(), lines.next().expect("an answer"), "{command}");
        }
        assert!(served);
        site.quit();
    }
}
