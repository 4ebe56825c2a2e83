//! What holds between the two sides of a connection.

use std::{
    future::poll_fn,
    io::IoSlice,
    os::unix::net::UnixStream as PeerSocket,
    sync::atomic::{AtomicBool, Ordering},
    task::Wake,
};

use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::PrivateKeyDer};

use super::*;
use crate::client_socket::ClientSocket;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A socket of this runtime, and its peer's.
fn sockets() -> (ClientSocket, PeerSocket) {
    let (ours, theirs) = PeerSocket::pair().expect("sockets");
    ours.set_nonblocking(true).expect("set");
    (ClientSocket::register(ours.into()).expect("a socket of this runtime"), theirs)
}

fn client(trusted: RootCertStore) -> ClientConnection {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("settings that fit")
}

/// A client that looks for what has come, and does not wait for more.
struct Client {
    tls: ClientConnection,
    socket: PeerSocket,
}

impl Client {
    /// Sends what it has to send.
    fn send(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket).expect("sent");
        }
    }
    /// Reads what has come; answers how many bytes of records that were.
    fn receive(&mut self) -> usize {
        let mut records = 0;
        loop {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => return records,
                Ok(count) => records += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return records,
                Err(error) => panic!("{error}"),
            }
            self.tls.process_new_packets().expect("the server is understood");
        }
    }
}

/// A server's stream whose handshake is done, and its client, who has said `words` with the end of its own part.
async fn shaken_hands(words: &[u8]) -> (TlsStream, Client) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("a certificate and its key");
    let mut trusted = RootCertStore::empty();
    trusted.add(certified.cert.der().clone()).expect("a certificate");
    let (socket, peer) = sockets();
    peer.set_nonblocking(true).expect("set");
    let (stream, mut client) =
        (TlsStream::accepting(Stream::Client(socket)), Client { tls: client(trusted), socket: peer });
    let (config, mut prefix, mut words) = (Arc::new(config), Vec::new(), Some(words));
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        client.receive();
        if !client.tls.is_handshaking()
            && let Some(words) = words.take()
        {
            client.tls.writer().write_all(words).expect("memory");
        }
        client.send();
        stream.poll_accept(cx, &mut prefix, &config)
    })
    .await
    .expect("a handshake");
    assert!(prefix.is_empty() && !client.tls.is_handshaking());
    (stream, client)
}

#[tokio::test]
async fn tickets_leave_with_the_first_response_and_the_farewell_with_the_last() {
    let (stream, mut client) = shaken_hands(b"question").await;
    poll_fn(|cx| stream.poll_read_ready(cx)).await.expect("a question");
    assert_eq!((client.receive(), stream.has_unsent()), (0, true), "the tickets wait");
    let mut question = Vec::with_capacity(100);
    assert_eq!(stream.try_read_buf(&mut question).expect("a question"), 8);
    assert_eq!(stream.try_write_vectored(&[IoSlice::new(b"first ")]).expect("taken"), 6);
    assert!(client.receive() > 0 && !stream.has_unsent() && client.tls.tls13_tickets_received() > 0);
    stream.write_is_last();
    assert_eq!(stream.try_write_vectored(&[IoSlice::new(b"and "), IoSlice::new(b"last")]).expect("taken"), 8);
    client.receive();
    let mut answer = Vec::new();
    client.tls.reader().read_to_end(&mut answer).expect("an end that the server has told of");
    assert_eq!(answer, b"first and last");
    stream.say_farewell();
    assert_eq!(client.receive(), 0, "it is said once");
}

#[tokio::test]
async fn tickets_leave_ahead_of_a_wait_for_input() {
    let (stream, mut client) = shaken_hands(b"").await;
    assert!(stream.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(client.receive() > 0 && !stream.has_unsent() && client.tls.tls13_tickets_received() > 0);
    assert!(stream.may_be_parked());
}

#[tokio::test]
async fn a_connection_is_parked_in_the_middle_of_a_record() {
    let (stream, mut client) = shaken_hands(b"").await;
    assert!(stream.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_pending());
    client.receive();
    let (mut records, mut question) = (Vec::new(), Vec::new());
    client.tls.writer().write_all(&[b'?'; 9000]).expect("memory");
    client.tls.write_tls(&mut records).expect("memory");
    let (begin, rest) = records.split_at(5000);
    client.socket.write_all(begin).expect("sent");
    assert!(stream.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(stream.may_be_parked());
    let (socket, parked) = stream.park();
    let stream = TlsStream::resuming(socket, parked.expect("TLS is spoken"));
    client.socket.write_all(rest).expect("sent");
    while question.len() < 9000 {
        poll_fn(|cx| stream.poll_read_ready(cx)).await.expect("a question");
        assert!(stream.try_read_buf(&mut question).expect("a question") > 0);
    }
    assert_eq!(question, [b'?'; 9000]);
}

#[tokio::test]
async fn what_is_not_tls_stays_to_be_read() {
    let (socket, mut peer) = sockets();
    peer.write_all(b"GET / HTTP/1.0").expect("sent");
    let (stream, mut prefix) = (TlsStream::accepting(Stream::Client(socket)), Vec::new());
    let is_tls = poll_fn(|cx| stream.poll_hello(cx, &mut prefix)).await.expect("bytes");
    assert_eq!((is_tls, &prefix[..]), (false, &b"GET / HTTP/1.0"[..]));
    peer.write_all(b"more").expect("sent");
    poll_fn(|cx| stream.poll_read_ready(cx)).await.expect("bytes");
    stream.try_read_buf(&mut prefix).expect("bytes");
    assert_eq!(prefix, b"GET / HTTP/1.0more");
}

#[tokio::test]
async fn a_reader_with_records_to_send_leaves_the_writer_its_wake_up() {
    let (socket, mut peer) = sockets();
    let mut filled = 0;
    while let Ok(count) = socket.try_write_vectored(&[IoSlice::new(&[0; 4096])]) {
        filled += count;
    }
    let conn = client(RootCertStore::empty());
    // It has its first message to send.
    let stream = TlsStream::connecting(Stream::Client(socket), conn);
    assert!(stream.has_unsent());
    let (writer, reader) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let (writing, reading) = (Waker::from(writer.clone()), Waker::from(reader.clone()));
    assert!(stream.poll_write_ready(&mut Context::from_waker(&writing)).is_pending());
    assert!(stream.poll_read_ready(&mut Context::from_waker(&reading)).is_pending());
    peer.read_exact(&mut vec![0; filled]).expect("what was sent");
    let is_woken = |woken: &Woken| woken.0.load(Ordering::SeqCst);
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if is_woken(&writer) && is_woken(&reader) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    assert!(stream.poll_write_ready(&mut Context::from_waker(&writing)).is_ready());
}
