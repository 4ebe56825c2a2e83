//! `cargo xtask seeds`: inputs for the fuzz targets to start from, made of the end-to-end cases, the corpus of the SQL
//! dialect, and a few messages of each binary protocol: `fuzz/corpus/TARGET/`.

use crate::sections::{self, Block};
use crate::{paths, terminal};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the seeds. True, unless nothing was found.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn run() -> Result<bool, String> {
    let root = paths::repository();
    let mut seeds = Seeds::default();
    for file in files(&root.join("tests/cases"), "t")? {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        for block in sections::parse(&text).map_err(|e| format!("{}: {e}", file.display()))? {
            seeds.of_case(&block);
        }
    }
    for file in files(&root.join("crates/tidegate-sql/tests/differential/corpus"), "sql")? {
        let text = fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        text.split(|&byte| byte == b';').for_each(|statement| seeds.add("sql_dialect", statement.trim_ascii()));
    }
    seeds.of_protocols();
    seeds.write(&root.join("fuzz/corpus"))
}

/// Inputs by target.
#[derive(Default)]
struct Seeds(HashMap<&'static str, Vec<Vec<u8>>>);

impl Seeds {
    fn add(&mut self, target: &'static str, input: &[u8]) {
        if !input.is_empty() {
            self.0.entry(target).or_default().push(input.to_vec());
        }
    }

    fn of_case(&mut self, block: &Block) {
        for name in ["config", "http_config", "main_config", "conf_file"] {
            self.add("conf", block.value(name).unwrap_or_default().as_bytes());
        }
        if let Some(files) = block.value("user_files").filter(|files| files.contains("<!--#")) {
            self.add("ssi_pages", files.as_bytes());
        }
        if let Some(raw) = block.value("raw_request") {
            self.add("http1", &sections::unescape(&raw.replace('\n', "")));
        }
        if let Some(reply) = block.value("tcp_reply").filter(|_| block.value("tcp_request_end").is_some()) {
            for piece in sections::pieces(reply) {
                let bytes = sections::unescape(&piece.text.replace('\n', ""));
                self.add("fastcgi_records", &bytes);
                self.add("store_answers", &bytes);
            }
        }
        for name in ["request", "requests", "pipelined_requests"] {
            for line in block.value(name).unwrap_or_default().lines().filter(|line| line.contains(' ')) {
                let fields = block.value("more_headers").unwrap_or_default().replace('\n', "\r\n");
                self.add("http1", format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
            }
        }
    }

    fn of_protocols(&mut self) {
        self.add("handlersocket", b"P\t1\thn\tt\tPRIMARY\ta,b\tc\n1\t=\t1\ta\t1\t0\t@\t0\t2\tx\t\x01@\tF\t>=\t0\t5\tU?\ty\t\0\n1\t+\t2\ta\tb\r\n");
        let proxy: [&[u8]; 4] = [
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nGET / HTTP/1.0\r\n\r\n",
            b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n",
            b"PROXY UNKNOWN\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x1d\xc0\0\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb\x02\0\x05a.org\x20\0\x06\x01\0\0\0\0\x21",
        ];
        let dns: [&[u8]; 3] = [
            b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01",
            b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x0c",
            b"\x01\x01\x81\x83\0\x01\0\0\0\0\0\0",
        ];
        let http2: [&[u8]; 4] = [
            // SETTINGS, then HEADERS of a GET that ends its stream.
            b"\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a",
            // A file with all the windows there are.
            b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0\
              \0\0\x09\x01\x05\0\0\0\x03\x82\x86\x44\x02/f\x41\x01a",
            // A body in two frames, and trailers.
            b"\0\0\x09\x01\x04\0\0\0\x01\x83\x86\x44\x02/u\x41\x01a\0\0\x02\0\0\0\0\0\x01ab\0\0\x03\0\x08\0\0\0\x01\x01c\0\
              \0\0\x05\x01\x05\0\0\0\x01\0\x01x\x01y",
            // CONTINUATION, PRIORITY, PING, RST_STREAM, GOAWAY.
            b"\0\0\x02\x01\x01\0\0\0\x05\x82\x86\0\0\x06\x09\x04\0\0\0\x05\x44\x02/p\x41\0\
              \0\0\x05\x02\0\0\0\0\x07\0\0\0\0\x01\0\0\x08\x06\0\0\0\0\0pingpong\0\0\x04\x03\0\0\0\0\x05\0\0\0\x08\
              \0\0\x08\x07\0\0\0\0\0\0\0\0\x05\0\0\0\0",
        ];
        let frames: [&[u8]; 4] = [
            b"h\x01\0\0\0\x02",
            b"Q\x08\0\0\0select 1",
            b"r\x09\0\0\0\x01\x01\0\0\0\0\0\0\0",
            b"e\x0b\0\0\0\x16\x0442S02none",
        ];
        let patterns: [&[u8]; 4] = [
            b"\0\0\0a line\r\nand more",
            b"\x01\0\x05hello",
            b"\x02\x05\0--abchello--ab--abc",
            b"\x03\x02\x03--hello--",
        ];
        let memcached: [&[u8]; 4] = [
            b"set a 5 100 3 noreply\r\nabc\r\ngats 10 a b\r\ncas a 0 0 1 7\r\nx\r\n",
            b"ms YQ== 2 b c k O1 F7 T30 MA I C5\r\nab\r\nmg a v f t s h l k N30 R10 q\r\n",
            b"ma a N0 J5 D2 MD v\r\nmd a I T5 q\r\nmn\r\nme a\r\nstats items\r\n",
            b"incr a 1\r\ndecr a 2 noreply\r\ntouch a 0\r\ndelete a 0\r\nflush_all 10\r\nverbosity 1\r\nquit\r\n",
        ];
        let beanstalk: [&[u8]; 3] = [
            b"use a\r\nput 1 0 60 3\r\na\r\n\r\nput 1 0 60 9999\r\nreserve\r\nreserve-with-timeout 0\r\nreserve-job 1\r\n",
            b"delete 1\r\nrelease 1 2 3\r\nbury 1 2\r\ntouch 1\r\nwatch b\r\nignore b\r\npeek 1\r\npeek-ready\r\nkick 9\r\nkick-job 1\r\n",
            b"stats\r\nstats-job 1\r\nstats-tube a\r\nlist-tubes\r\nlist-tube-used\r\nlist-tubes-watched\r\npause-tube a 1\r\nquit\r\n",
        ];
        for (target, inputs) in [
            ("memcached_requests", &memcached[..]),
            ("beanstalk_commands", &beanstalk),
            ("proxy_protocol", &proxy),
            ("dns_replies", &dns),
            ("control_frames", &frames),
            ("http2_connection", &http2),
            ("cosocket_patterns", &patterns),
        ] {
            inputs.iter().for_each(|input| self.add(target, input));
        }
        // Three bytes choose the form; the packets behind them stand each behind its length.
        for form in 0..16 {
            let packets: [&[u8]; 4] = [b"\xa2id", b"\x18name", b"\x0212\x03bob", b"\0\0\x01\0\0\0\x03bob"];
            let mut input = vec![form, 2, 1];
            packets.iter().for_each(|packet| input.extend([&[packet.len() as u8], *packet].concat()));
            self.add("resty_mysql", &input);
        }
        for kind in 0..4 {
            self.add("mysql_server", &[&[kind, 9][..], b"\x09\0\0\0\x16select ?\x01\0\0\0\x0e"].concat());
        }
        // The first byte chooses what the rest is taken for, the second how it is cut.
        for kind in 0..8 {
            let packet = [kind, 3, 5, 0, 0, 0, 3, b'd', b'e', b'f', 0, 1, 0, 0, 1, 1];
            self.add("mysql_packets", &packet);
        }
    }

    fn write(self, root: &Path) -> Result<bool, String> {
        let mut targets: Vec<_> = self.0.into_iter().collect();
        targets.sort();
        for (target, inputs) in &targets {
            let dir = root.join(target);
            let problem = |e| format!("{}: {e}", dir.display());
            fs::create_dir_all(&dir).map_err(problem)?;
            for (number, input) in inputs.iter().enumerate() {
                fs::write(dir.join(format!("seed-{number}")), input).map_err(problem)?;
            }
            terminal::heading(&format!("{}: {} inputs", dir.display(), inputs.len()));
        }
        Ok(!targets.is_empty())
    }
}

/// The files below `dir` whose names end so.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", dir.display()))?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
