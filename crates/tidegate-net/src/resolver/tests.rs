use std::{cell::Cell, rc::Rc};

use tokio::{
    net::UdpSocket,
    runtime,
    task::{LocalSet, spawn_local},
};

use super::*;

/// Runs a name server that knows `1.example` to `9.example` and returns what `use_it` makes of it and how often it was
/// asked. It says nothing at all about `silent.example`; `a.example` is another name of `1.example`, and `o.example` one of itself.
fn with_server<T>(use_it: impl AsyncFnOnce(Arc<Resolver>) -> T, valid: Option<Duration>) -> (T, usize) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async move {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let servers = vec![socket.local_addr().expect("bound")];
        let asked = Rc::new(Cell::new(0));
        let counter = asked.clone();
        spawn_local(async move {
            let mut buf = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut buf).await {
                counter.set(counter.get() + 1);
                let mut answer = buf[..len].to_vec();
                let is_a = answer[len - 3] == 1;
                match &buf[13..14] {
                    b"s" => continue,
                    letter @ (b"a" | b"o") if buf[12] == 1 => {
                        answer[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1]);
                        answer.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4]);
                        let target = if letter == b"a" { b'1' } else { b'o' };
                        answer.extend_from_slice(&[1, target, 0xc0, 14]);
                    }
                    digit @ [b'1'..=b'9'] if buf[12] == 1 => {
                        answer[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a)]);
                        if is_a {
                            answer.extend_from_slice(&[
                                0xc0,
                                12,
                                0,
                                1,
                                0,
                                1,
                                0,
                                0,
                                0,
                                60,
                                0,
                                4,
                                192,
                                0,
                                2,
                                digit[0] - b'0',
                            ]);
                        }
                    }
                    _ => answer[2..4].copy_from_slice(&[0x81, 0x83]),
                }
                socket.send_to(&answer, from).await.expect("sent");
            }
        });
        let resolver = Arc::new(Resolver::new(Settings { servers, valid, ipv4: true, ipv6: true }));
        (use_it(resolver).await, asked.get())
    })
}

fn address(last: u8) -> Result<Vec<IpAddr>, ResolveError> {
    Ok(vec![IpAddr::from([192, 0, 2, last])])
}

async fn look_up_at(resolver: Option<&Arc<Resolver>>, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
    // Long enough for the system's own.
    let timeout = Duration::from_millis(if resolver.is_some() { 200 } else { 30_000 });
    resolve(resolver, name, timeout).await.map(|found| found.addresses.to_vec())
}

#[test]
fn answers_are_kept_and_shared() {
    let ((), asked) = with_server(
        async |resolver: Arc<Resolver>| {
            let (a, b) =
                tokio::join!(look_up_at(Some(&resolver), "1.example"), look_up_at(Some(&resolver), "1.EXAMPLE"));
            assert_eq!((a, b), (address(1), address(1)));
            assert_eq!(look_up_at(Some(&resolver), "1.example").await, address(1));
            assert_eq!(look_up_at(Some(&resolver), "2.example").await, address(2));
            assert_eq!(look_up_at(Some(&resolver), "10.0.0.1").await, Ok(vec![IpAddr::from([10, 0, 0, 1])]));
        },
        None,
    );
    // Two names, each asked for both kinds of addresses.
    assert_eq!(asked, 4);
}

#[test]
fn aliases_are_followed() {
    let ((), asked) = with_server(
        async |resolver: Arc<Resolver>| {
            assert_eq!(look_up_at(Some(&resolver), "a.example").await, address(1));
            assert_eq!(look_up_at(Some(&resolver), "a.example").await, address(1));
        },
        None,
    );
    assert_eq!(asked, 4);
    with_server(
        async |resolver: Arc<Resolver>| {
            assert_eq!(look_up_at(Some(&resolver), "o.example").await, Err(ResolveError::NotFound))
        },
        None,
    );
}

#[test]
fn valid_shortens_the_time() {
    let ((), asked) = with_server(
        async |resolver: Arc<Resolver>| {
            assert_eq!(look_up_at(Some(&resolver), "1.example").await, address(1));
            assert_eq!(look_up_at(Some(&resolver), "1.example").await, address(1));
        },
        Some(Duration::ZERO),
    );
    assert_eq!(asked, 4);
}

#[test]
fn failures_are_told_apart() {
    with_server(
        async |resolver: Arc<Resolver>| {
            assert_eq!(look_up_at(Some(&resolver), "x.example").await, Err(ResolveError::NotFound));
            assert_eq!(look_up_at(Some(&resolver), "silent.example").await, Err(ResolveError::TimedOut));
            assert_eq!(look_up_at(Some(&resolver), "not..a.name").await, Err(ResolveError::NotFound));
        },
        None,
    );
}

#[test]
fn the_system_knows_localhost() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let found = LocalSet::new().block_on(&runtime, async { look_up_at(None, "localhost").await });
    assert!(found.is_ok_and(|found| found.iter().all(IpAddr::is_loopback)));
}
