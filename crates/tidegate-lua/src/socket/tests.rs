//! The bundled clients against servers that break off, lie or fall silent.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::phase::Phase;
use crate::testing::{TestHost, launch, vm_with};
use crate::vm::VmConfig;

/// What a server does when it has answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Close,
    /// Stays, and says nothing more.
    FallSilent,
}

/// Runs `code` beside a server that gives each connection the next of `answers` for its first request. What `ask(client)`
/// returns is written for each answer, and whether the connection went into the pool.
#[track_caller]
fn check(answers: Vec<Vec<u8>>, then: Then, client: &str, ask: &str, expected: impl Fn(usize) -> String) {
    let vm = vm_with(VmConfig::default());
    let host = TestHost::new();
    let count = answers.len();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::task::spawn_local(async move {
            for answer in answers {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                let mut heard = [0; 4096];
                if stream.read(&mut heard).await.is_err() || stream.write_all(&answer).await.is_err() {
                    continue;
                }
                if then == Then::FallSilent {
                    // Until the client leaves.
                    while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
                }
            }
        });
        let limit = if then == Then::FallSilent { 1 } else { 60000 };
        let code = format!(
            "local new = require('{client}').new
            for _ = 1, {count} do
                local client = new()
                client:set_timeouts(60000, 60000, {limit})
                assert(client:connect('127.0.0.1', {port}))
                local function show(...)
                    local kept = client:set_keepalive()
                    client:close()
                    local all = {{ n = select('#', ...), ... }}
                    for index = 1, all.n do all[index] = tostring(all[index]) end
                    out(table.concat(all, ' '), kept and 'kept' or 'closed')
                end
                show({ask})
            end"
        );
        let ended = tokio::time::timeout(Duration::from_secs(60), launch(&vm, &host, Phase::Content, &code)).await;
        assert!(ended.is_ok(), "the script hangs");
    });
    let seen = host.out.take();
    for (index, line) in seen.iter().enumerate() {
        assert_eq!(*line, expected(index), "answer {index}");
    }
    assert_eq!(seen.len(), count);
}

/// Cuts `answer` at every byte: each time `failure` is the result, and the connection is not kept.
#[track_caller]
fn cut(client: &str, ask: &str, answer: &[u8], failure: &str) {
    let cuts = || (0..answer.len()).map(|len| answer[..len].to_vec()).collect();
    check(cuts(), Then::Close, client, ask, |_| format!("{failure} closed closed"));
    check(cuts(), Then::FallSilent, client, ask, |_| format!("{failure} timeout closed"));
}

#[test]
fn a_reply_of_redis_that_is_cut() {
    for answer in ["+OK\r\n", "$5\r\nhello\r\n", "*2\r\n$1\r\na\r\n:5\r\n", "-ERR no\r\n", "*1\r\n*1\r\n$0\r\n\r\n"] {
        cut("resty.redis", "client:get('a')", answer.as_bytes(), "nil");
    }
}

#[test]
fn replies_that_are_none_of_redis() {
    let deep = "*1\r\n".repeat(100_000);
    let answers = [
        ("", "nil closed closed"),
        ("\r\n", "nil unknown prefix: \"nil\" closed"),
        ("HTTP/1.1 400\r\n", "nil unknown prefix: \"72\" closed"),
        ("$x\r\n", "nil bad number in a reply: \"$x\" closed"),
        (":\r\n", "nil bad number in a reply: \":\" closed"),
        ("$99999999999999\r\nabc", "nil closed closed"),
        ("*4000000000\r\n", "nil closed closed"),
        (&deep, "nil a reply is nested too deeply closed"),
    ];
    let said = answers.iter().map(|(answer, _)| answer.as_bytes().to_vec()).collect();
    check(said, Then::Close, "resty.redis", "client:get('a')", |index| answers[index].1.to_owned());
}

#[test]
fn an_answer_of_memcached_that_is_cut() {
    cut("resty.memcached", "client:get('a')", b"VALUE a 0 5\r\nhello\r\nEND\r\n", "nil nil");
    cut("resty.memcached", "client:gets('a')", b"VALUE a 0 5 7\r\nhello\r\nEND\r\n", "nil nil nil");
    cut("resty.memcached", "client:get({ 'a', 'b' })", b"VALUE a 0 1\r\nx\r\nVALUE b 0 0\r\n\r\nEND\r\n", "nil");
    cut("resty.memcached", "client:set('a', 1)", b"STORED\r\n", "nil");
    cut("resty.memcached", "client:stats()", b"STAT a 1\r\nEND\r\n", "nil");
}

#[test]
fn answers_that_are_none_of_memcached() {
    let answers = [
        ("HTTP/1.1 400\r\n", "nil nil HTTP/1.1 400 closed"),
        ("VALUE a 0 99999999999\r\nx", "nil nil closed closed"),
        ("VALUE a 0 -1\r\n", "nil nil VALUE a 0 -1 closed"),
        ("VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\n", "nil nil VALUE b 0 1 closed"),
    ];
    let said = answers.iter().map(|(answer, _)| answer.as_bytes().to_vec()).collect();
    check(said, Then::Close, "resty.memcached", "client:get('a')", |index| answers[index].1.to_owned());
    check(
        vec![b"SERVER_ERROR out of memory\r\n".to_vec()],
        Then::FallSilent,
        "resty.memcached",
        "client:get('a')",
        |_| "nil nil SERVER_ERROR out of memory kept".to_owned(),
    );
}
