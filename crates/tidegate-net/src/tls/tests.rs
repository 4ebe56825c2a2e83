//! What holds between the two sides of a connection.

use std::{
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering},
};

use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tokio::net::UnixStream;

use super::*;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_reader_with_records_to_send_leaves_the_writer_its_wake_up() {
    let (socket, mut peer) = {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        ours.set_nonblocking(true).expect("set");
        (UnixStream::from_std(ours).expect("a socket of this runtime"), theirs)
    };
    let mut filled = 0;
    while let Ok(count) = socket.try_write(&[0; 4096]) {
        filled += count;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let conn = ClientConnection::new(Arc::new(config), name).expect("settings that fit");
    // It has its first message to send.
    let stream = TlsStream::connecting(Stream::Unix(socket), conn);
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
