//! What holds for any bytes that a client may send to a server: it answers whole packets in order, and the pieces in which
//! the bytes come make no difference. Shared by the fuzz target `mysql_server` and by `random_clients.rs`.

use std::{
    cell::RefCell,
    io,
    pin::pin,
    task::{Context, Poll, Waker},
};

use tidegate_mysql::{
    handshake::{Greeting, Response, capability},
    packet::{HEAD_SIZE, PacketBuffer, put_packet},
    server::{
        Backend, Description, Next, Server, Transport,
        login::{Login, Secret},
    },
};
use tidegate_rows::{Column, ColumnType, Execute, Flow, QueryError, Row, ServerError, Sink, Statement, Summary, Value};

/// Bytes of the largest packet: small, so that random lengths exceed it.
const PACKET_BYTES_MAX: usize = 1 << 16;

/// A database that echoes: a text is a row with itself, and a parameter another.
struct Echo {
    gone: bool,
}

impl Execute for Echo {
    async fn execute<S: Sink>(&mut self, statement: Statement<'_>, sink: &mut S) -> Result<(), QueryError> {
        if statement.sql.is_empty() {
            return Err(ServerError::new(1065, b"42000", "Query was empty").into());
        }
        sink.columns(&[Column::expression(*b"text", ColumnType::VarString)]);
        for value in std::iter::once(Value::Bytes(statement.sql)).chain(statement.params.iter().map(|_| Value::Int(1)))
        {
            assert_eq!(sink.row(Row(&[value.into()])), Flow::More, "so little never fills a line");
        }
        sink.end_result(&Summary::default());
        Ok(())
    }
}

impl Backend for Echo {
    fn version(&self) -> String {
        "10.11.6-MariaDB".into()
    }
    fn id(&self) -> u64 {
        7
    }
    fn packet_bytes_max(&self) -> usize {
        PACKET_BYTES_MAX
    }
    fn secret(&mut self, user: &[u8]) -> Option<Secret> {
        (user == b"monty").then_some(Secret::None)
    }
    fn refuse(&mut self, login: &Login) -> ServerError {
        ServerError::new(1045, b"28000", format!("Access denied for {:?}", login.user))
    }
    fn admit(&mut self, _: &Login) -> Result<(), ServerError> {
        Ok(())
    }
    fn change_schema(&mut self, name: &[u8]) -> Result<(), ServerError> {
        if name.is_empty() { Err(ServerError::new(1046, b"3D000", "No database selected")) } else { Ok(()) }
    }
    async fn describe(&mut self, sql: &[u8]) -> Result<Description, QueryError> {
        let params = sql.iter().filter(|byte| **byte == b'?').count();
        let columns = vec![Column::expression(*b"text", ColumnType::VarString)];
        Ok(Description { params, columns, context: tidegate_mysql::server::PreparedIn::default() })
    }
    fn prepared_in(&mut self, _: tidegate_mysql::server::PreparedIn) {}
    fn reset(&mut self) {}
    fn set_multi_statements(&mut self, _: bool) {}
    fn kill(&mut self, id: u64) -> Result<(), ServerError> {
        self.gone = id == self.id();
        Ok(())
    }
    fn statistics(&self) -> String {
        "Uptime: 1".into()
    }
    fn status(&self) -> u16 {
        2
    }
    fn is_gone(&self) -> bool {
        self.gone
    }
}

/// A client that has sent nothing more yet, and takes everything.
#[derive(Default)]
struct Quiet(RefCell<Vec<u8>>);

impl Transport for Quiet {
    fn poll_read(&self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
    fn poll_write(&self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }
}

/// What is ready at once: nothing here waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the server waits for something"),
    }
}

/// Checks one input. The first byte says whether the client has logged in and what it wants, the second how it is cut.
pub(crate) fn check(input: &[u8]) {
    let [kind, cut, rest @ ..] = input else { return };
    let login = (kind % 4 != 0).then_some(if kind % 2 == 0 { 0 } else { capability::DEPRECATE_EOF });
    let whole = answers(login, &[rest]);
    let (head, tail) = rest.split_at(usize::from(*cut).min(rest.len()));
    assert_eq!(whole, answers(login, &[head, tail]));
    assert_eq!(whole, answers(login, &rest.chunks(1).collect::<Vec<_>>()));
}

/// All that a server says, behind its greeting, to a client that sends these pieces, and whether it then closes.
fn answers(login: Option<u32>, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let mut server = Server::new(Echo { gone: false }, false).expect("random bytes");
    let socket = Quiet::default();
    now(server.send(&socket)).expect("sent");
    let nonce = greeted(&socket.0.take());
    let mut closed = false;
    if let Some(more) = login {
        let capabilities = more | capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH;
        let response = Response { capabilities, user: b"monty".to_vec(), ..Response::default() };
        let (mut payload, mut packet) = (Vec::new(), Vec::new());
        response.put(&mut payload);
        put_packet(&mut packet, &mut 1, &[&payload]);
        closed = give(&mut server, &socket, &packet);
        assert!(!closed && server.is_idle(), "logged in");
    }
    for piece in pieces {
        closed = closed || give(&mut server, &socket, piece);
    }
    let said = socket.0.take();
    check_packets(&said);
    (without(&said, &nonce), closed)
}

/// The nonce of a greeting.
fn greeted(packet: &[u8]) -> Vec<u8> {
    Greeting::read(&packet[HEAD_SIZE..]).expect("a greeting").nonce
}

/// The bytes without the random ones among them: those of a question for another proof.
fn without(said: &[u8], nonce: &[u8]) -> Vec<u8> {
    let mut said = said.to_vec();
    while let Some(at) = said.windows(nonce.len()).position(|bytes| bytes == nonce) {
        said[at..at + nonce.len()].fill(0);
    }
    said
}

/// Gives bytes to the server; answers whether it closes.
fn give(server: &mut Server<Echo>, socket: &Quiet, mut bytes: &[u8]) -> bool {
    loop {
        if !bytes.is_empty() {
            let space = server.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            server.arrived(count);
            bytes = &bytes[count..];
        }
        loop {
            match now(server.answer(socket)).expect("the socket takes everything") {
                Next::Again => {}
                Next::Read => break,
                Next::Close | Next::Tls => return true,
            }
        }
        if bytes.is_empty() {
            return false;
        }
    }
}

/// What a server has said are whole packets.
fn check_packets(mut bytes: &[u8]) {
    let mut buffer = PacketBuffer::new(1 << 24);
    buffer.check_sequence = false;
    while !bytes.is_empty() {
        let space = buffer.space();
        let count = space.len().min(bytes.len());
        space[..count].copy_from_slice(&bytes[..count]);
        buffer.arrived(count);
        bytes = &bytes[count..];
        while buffer.take().expect("a packet").is_some() {}
    }
    assert!(buffer.is_empty(), "the last packet is whole");
}
