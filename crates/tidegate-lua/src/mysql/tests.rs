//! Scripts against servers that break off, talk nonsense or say no.

use std::rc::Rc;
use std::time::Duration;

use tidegate_mysql::handshake::{Greeting, capability};
use tidegate_mysql::packet::put_packet;
use tidegate_mysql::text_results::TextResults;
use tidegate_rows::{Column, ColumnType, Format, Summary, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::phase::Phase;
use crate::testing::{TestHost, launch, vm_with};
use crate::vm::VmConfig;

/// What a server does on one connection.
enum Step {
    Say(Vec<u8>),
    /// Waits for a packet.
    Hear,
    /// Gives the client time to read what was said.
    Pause,
    /// Says nothing more, but stays until the client leaves.
    Hold,
    /// Lets another conversation go on.
    Tell(Rc<Notify>),
    /// Waits until another conversation says so.
    Await(Rc<Notify>),
    /// Closes the connection and lets another conversation go on.
    Close(Rc<Notify>),
}

async fn converse(mut stream: TcpStream, steps: Vec<Step>) {
    let mut heard = [0; 4096];
    for step in steps {
        // A client that has left is what some of these servers bring about.
        let alive = match step {
            Step::Say(bytes) => stream.write_all(&bytes).await.is_ok(),
            Step::Hear => stream.read(&mut heard).await.is_ok_and(|count| count > 0),
            Step::Pause => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                true
            }
            Step::Tell(other) => {
                other.notify_one();
                true
            }
            Step::Await(other) => {
                other.notified().await;
                true
            }
            Step::Close(other) => {
                drop(stream);
                return other.notify_one();
            }
            Step::Hold => {
                while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
                false
            }
        };
        if !alive {
            return;
        }
    }
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let (mut out, mut sequence) = (Vec::new(), sequence);
    put_packet(&mut out, &mut sequence, &[payload]);
    out
}

/// A login that succeeds.
fn login() -> Vec<Step> {
    use capability::*;
    let greeting = Greeting {
        version: (*b"8.0.0").into(),
        thread_id: 7,
        nonce: vec![b'x'; 20],
        capabilities: PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | TRANSACTIONS | MULTI_STATEMENTS | MULTI_RESULTS,
        extensions: 0,
        collation: 45,
        status: 2,
        plugin: (*b"mysql_native_password").into(),
    };
    let mut payload = Vec::new();
    greeting.put(&mut payload);
    vec![Step::Say(packet(0, &payload)), Step::Hear, Step::Say(packet(2, b"\0\0\0\x02\0\0\0"))]
}

/// A result with a column `a`.
fn rows(texts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut results = TextResults::new(false);
    results.columns(&[Column::expression(*b"a", ColumnType::VarString)], &mut out);
    for text in texts {
        results.begin_row(&mut out);
        results.value(0, Value::Bytes(text), &mut out);
        results.end_row(&mut out);
    }
    results.end_result(&Summary { status: 2, ..Summary::default() }, &mut out);
    out
}

/// Runs `code` (with `options` for `connect`) while a server takes one connection after the other.
#[track_caller]
fn check(conversations: Vec<Vec<Step>>, code: &str, expected: &[&str]) {
    let vm = vm_with(VmConfig::default());
    let host = TestHost::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::task::spawn_local(async move {
            for steps in conversations {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::task::spawn_local(converse(stream, steps));
            }
        });
        let code = format!(
            "local db = require('resty.mysql'):new()
            db:set_timeout(60000)
            local options = {{ host = '127.0.0.1', port = {port}, user = 'u' }}
            {code}"
        );
        let ended = tokio::time::timeout(Duration::from_secs(60), launch(&vm, &host, Phase::Content, &code)).await;
        assert!(ended.is_ok(), "the script hangs");
    });
    assert_eq!(host.out.take(), expected, "{:?}", host.log.take());
}

fn with(mut steps: Vec<Step>, more: impl IntoIterator<Item = Step>) -> Vec<Step> {
    steps.extend(more);
    steps
}

#[test]
fn a_server_that_is_none() {
    let http = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    let busy = packet(0, b"\xff\x10\x04Too many connections");
    check(
        vec![
            vec![],
            vec![Step::Say(http)],
            vec![Step::Say(packet(0, b"\x09old"))],
            vec![Step::Say(busy)],
            with(login(), [Step::Hear, Step::Say(rows(&[b"x"])), Step::Hold]),
        ],
        "for _ = 1, 4 do out(db:connect(options)) end
        out(db:connect(options))
        out(db:query('select')[1].a)",
        &[
            "nil failed to receive packet header: closed",
            "nil packet 80 came where packet 0 was due",
            "nil malformed packet: not a greeting of protocol version 10",
            "nil Too many connections 1040 HY000",
            "1",
            "x",
        ],
    );
}

#[test]
fn answers_that_break_off_or_are_garbage() {
    let whole = rows(&[b"one", b"two", b"three"]);
    let asks = |answer: &[u8]| with(login(), [Step::Hear, Step::Say(answer.to_vec())]);
    // Cut within the head, the columns, the first row, the last row and the end.
    let cuts = [2, 9, whole.len() - 24, whole.len() - 12, whole.len() - 1];
    let mut conversations: Vec<_> = cuts.iter().map(|cut| asks(&whole[..*cut])).collect();
    let mut wrong_number = whole.clone();
    wrong_number[3] = 9;
    conversations.push(asks(&wrong_number));
    // A row that is longer than its values.
    let mut long_row = whole.clone();
    let row = whole.windows(4).position(|bytes| bytes == b"\x03one").expect("the first row");
    long_row[row] = 2;
    conversations.push(asks(&long_row));
    conversations.push(asks(&packet(1, b"")));
    conversations.push(with(login(), [Step::Hear, Step::Say(whole.clone()), Step::Hold]));
    check(
        conversations,
        "for _ = 1, 8 do
            assert(db:connect(options))
            out(db:query('select'))
            out(db:set_keepalive())
        end
        assert(db:connect(options))
        out(#db:query('select'))",
        &[
            "nil failed to receive packet header: closed",
            "nil cannot be reused in the current connection state: 2",
            "nil failed to receive packet header: closed",
            "nil cannot be reused in the current connection state: 2",
            "nil failed to receive packet header: closed",
            "nil cannot be reused in the current connection state: 2",
            "nil failed to receive packet header: closed",
            "nil cannot be reused in the current connection state: 2",
            "nil failed to receive packet header: closed",
            "nil cannot be reused in the current connection state: 2",
            "nil packet 9 came where packet 1 was due",
            "nil cannot be reused in the current connection state: 2",
            "nil malformed packet: a row has more values than columns",
            "nil cannot be reused in the current connection state: 2",
            "nil malformed packet: it ends too early",
            "nil cannot be reused in the current connection state: 2",
            "3",
        ],
    );
}

#[test]
fn an_idle_connection_that_ends_is_not_handed_out() {
    let answers = || with(login(), [Step::Hear, Step::Say(rows(&[b"x"]))]);
    let (leave, left) = (Rc::<Notify>::default(), Rc::<Notify>::default());
    check(
        vec![
            with(answers(), [Step::Await(leave.clone()), Step::Close(left.clone())]),
            with(with(vec![Step::Tell(leave), Step::Await(left)], login()), [Step::Hold]),
            with(answers(), [Step::Hold]),
        ],
        "assert(db:connect(options))
        out(db:query('select')[1].a, db:set_keepalive())
        -- Answered when the first connection has gone.
        local other = require('resty.mysql'):new()
        assert(other:connect({ host = options.host, port = options.port, user = 'u', pool = 'other' }))
        assert(db:connect(options))
        out(db:get_reused_times(), db:query('select')[1].a, db:set_keepalive())
        assert(db:connect(options))
        out(db:get_reused_times())",
        &["x 1", "0 x 1", "1"],
    );
}

#[test]
fn rows_over_several_reads() {
    let all = rows(&[b"one", b"two", b"three"]);
    let steps = all.chunks(7).flat_map(|chunk| [Step::Say(chunk.to_vec()), Step::Pause]);
    check(
        vec![with(with(login(), [Step::Hear]), steps)],
        "assert(db:connect(options))
        local rows = db:query('select')
        out(rows[1].a, rows[2].a, rows[3].a)",
        &["one two three"],
    );
}
