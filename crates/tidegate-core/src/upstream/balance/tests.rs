use super::{
    super::{Address, Server},
    *,
};
use crate::upstream::GroupOptions;

fn server(port: u16, weight: u32) -> Server {
    let address = Address::Inet(([127, 0, 0, 1], port).into());
    Server { weight, ..Server::new(address.to_string().into(), vec![address]) }
}

fn group(servers: &[Server], method: Method) -> Group {
    Group::new("u".into(), servers, GroupOptions { method, ..GroupOptions::default() })
}

/// Ports of the next `count` choices of round robin.
fn turns(group: &Group, count: usize) -> Vec<u16> {
    let peers = group.peers();
    let port = |index: usize| match &peers.primary.peers[index].address {
        Address::Inet(address) => address.port(),
        Address::Unix(_) => 0,
    };
    (0..count).filter_map(|_| round_robin::choose(&peers.primary, &Tried::default(), 100)).map(port).collect()
}

#[test]
fn round_robin_is_smooth() {
    let even = group(&[server(1, 1), server(2, 1)], Method::RoundRobin);
    assert_eq!(turns(&even, 4), [1, 2, 1, 2]);
    let weighted = group(&[server(1, 5), server(2, 1), server(3, 1)], Method::RoundRobin);
    assert_eq!(turns(&weighted, 7), [1, 1, 2, 1, 3, 1, 1]);
}

#[test]
fn tried_and_down_are_left_out() {
    let down = Server { down: true, ..server(1, 1) };
    let group = group(&[down, server(2, 1), server(3, 1)], Method::RoundRobin);
    assert_eq!(turns(&group, 3), [2, 3, 2]);
    let mut tried = Tried::default();
    tried.insert(1);
    assert_eq!(round_robin::choose(&group.peers().primary, &tried, 100), Some(2));
    tried.insert(2);
    assert_eq!(round_robin::choose(&group.peers().primary, &tried, 100), None);
    assert_eq!(group.peers().tries(), 2);
}

/// Port that a key leads to.
fn hashed(ports: &[u16], key: &str, consistent: bool) -> usize {
    let servers: Vec<Server> = ports.iter().map(|&port| server(port, 1)).collect();
    let group = group(&servers, Method::Hash { key: Template::literal(key), consistent });
    let peers = group.peers();
    let mut position = Position { key: key.into(), ..Position::default() };
    if consistent {
        begin_for_test(&peers, &mut position);
        let ring = peers.ring.as_ref().expect("consistent");
        return hash::choose_consistent(ring, &peers.primary, &Tried::default(), &mut position, 100).expect("all work");
    }
    hash::choose(&peers.primary, &Tried::default(), &mut position, 100).expect("all work")
}

fn begin_for_test(peers: &PeerSet, position: &mut Position) {
    hash::begin_consistent(peers, position);
}

#[test]
fn plain_hash_is_that_of_nginx() {
    // What nginx 1.22 answers, see tests/cases/upstream.
    let chosen: Vec<usize> = ["a", "b", "c", "d"].iter().map(|key| hashed(&[1, 2], key, false)).collect();
    assert_eq!(chosen, [1, 0, 1, 1]);
}

#[test]
fn consistent_hash_moves_few_keys() {
    let keys: Vec<String> = (0..1000).map(|number| format!("key{number}")).collect();
    let moved = keys.iter().filter(|key| hashed(&[1, 2, 3], key, true) != hashed(&[1, 2, 3, 4], key, true)).count();
    assert!((150..350).contains(&moved), "{moved} of 1000 keys moved");
}

#[test]
fn random_chooses_everybody() {
    let group = group(&[server(1, 1), server(2, 1)], Method::Random { two: false });
    let peers = group.peers();
    let chosen: std::collections::HashSet<_> =
        (0..64).filter_map(|_| random::choose(&peers.primary, &Tried::default(), false, 100)).collect();
    assert_eq!(chosen.len(), 2);
    assert!(random::choose(&peers.primary, &Tried::default(), true, 100).is_some());
}

#[test]
fn least_conn_counts() {
    let group = group(&[server(1, 1), server(2, 1), server(3, 2)], Method::LeastConn);
    let peers = group.peers();
    peers.primary.peers[0].begin();
    peers.primary.peers[2].begin();
    assert_eq!(least_conn::choose(&peers.primary, &Tried::default(), 100), Some(1));
    peers.primary.peers[1].begin();
    assert_eq!(least_conn::choose(&peers.primary, &Tried::default(), 100), Some(2));
}
