//! Frames of a client of HTTP/2 to a worker that serves them, with requests that are answered at once, from a file and by
//! another server: nothing panics, the worker goes on, and it sends whole frames.

#![no_main]

use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::LazyLock,
    time::Duration,
};

use libfuzzer_sys::fuzz_target;
use tidegate_core::{
    conf::{LoadOptions, load},
    registry::Registry,
    worker,
};
use tidegate_http::http2::{FrameHeader, HEADER_BYTES, PREFACE};
use tidegate_net::{
    generations::{Ready, WorkerStart, spawn_agent},
    listeners::{Provided, Purpose, Sockets},
    log,
    places::Place,
};
use tokio::sync::mpsc;

static ADDRESS: LazyLock<PathBuf> = LazyLock::new(serve);

/// Starts a worker; gives the address that it listens on.
fn serve() -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tidegate-fuzz-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    fs::write(dir.join("file"), vec![b'f'; 200_000]).expect("written");
    let [path, socket] = [dir.display().to_string(), dir.join("socket").display().to_string()];
    let text = format!(
        "error_log /dev/null crit; events {{ worker_connections 64; }}
         http {{
             access_log off; client_body_temp_path {path}; lingering_close off; http2 on;
             server {{
                 listen unix:{socket};
                 http2_max_concurrent_streams 8; http2_chunk_size 100; large_client_header_buffers 2 1k;
                 location / {{ return 200 ok; }}
                 location /f {{ alias {path}/file; }}
                 location /p {{ proxy_pass http://unix:{socket}:/f; proxy_temp_path {path}; }}
                 location /u {{ proxy_pass http://unix:{socket}:/; proxy_request_buffering off; proxy_http_version 1.1; }}
             }}
         }}"
    );
    let options = LoadOptions {
        prefix: dir.clone(),
        conf_path: dir.join("nginx.conf"),
        text: Some(text.into_bytes()),
        globals: None,
        testing: false,
        registry: Registry::install(&[tidegate_modules::MODULES, tidegate_modules::FILTERS]),
    };
    let config = load(&options).unwrap_or_else(|error| panic!("{}", error.render()));
    log::start_writer().expect("a thread");
    let opened =
        Sockets::open(&config.listen_specs(), 1, &Sockets::default(), &mut Provided::default(), Purpose::Serve);
    let listeners = opened.expect("sockets").for_worker(0, 1);
    let (control, receiver) = mpsc::unbounded_channel();
    // It is never told to end.
    std::mem::forget(control);
    let start = WorkerStart {
        id: 0,
        worker_count: 1,
        listeners,
        place: Place::alone(),
        control: receiver,
        ready: Ready::nobody(),
    };
    spawn_agent(worker::body(config), start, || panic!("the worker has ended")).expect("a thread");
    PathBuf::from(socket)
}

fuzz_target!(|input: &[u8]| {
    let mut client = UnixStream::connect(&*ADDRESS).expect("the worker accepts");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    client.set_write_timeout(Some(Duration::from_secs(20))).expect("set");
    // The server may have heard enough.
    let _ = client
        .write_all(PREFACE)
        .and_then(|()| client.write_all(input))
        .and_then(|()| client.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    if client.read_to_end(&mut answer).is_err() {
        // A reset may take anything along.
        return;
    }
    let mut rest = &answer[..];
    while let Some(header) = FrameHeader::parse(rest) {
        rest = rest.get(HEADER_BYTES + header.len..).expect("a whole frame");
    }
    assert!(rest.is_empty(), "{rest:?}");
});
