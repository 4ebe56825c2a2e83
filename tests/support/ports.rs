//! TCP ports for tests: nobody else takes one between its choice and its use, neither another test nor another run.
//!
//! Part of several test programs, as it must be the same everywhere.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// The first port: all stand below Linux's ephemeral range (32768), from which outgoing connections take theirs.
const FIRST: u16 = 20_000;
/// Ports that a process reserves at once.
const BLOCK: u16 = 400;
/// Blocks up to port 32000.
const BLOCKS: u16 = 30;
/// Blocks of one process. Whoever needs more ports gets those again that nothing listens on by now.
const HELD_MAX: usize = 8;

/// The blocks of this process.
struct Blocks {
    held: Vec<Block>,
    /// How many ports were handed out.
    count: usize,
}

/// A block is its holder's as long as the abstract socket with its name is open: until that process ends.
struct Block {
    first: u16,
    _name: Option<UnixListener>,
}

/// A TCP port that nothing listens on, not handed out to anybody else.
///
/// # Panics
/// When all are taken.
pub(crate) fn free_port() -> u16 {
    static MINE: Mutex<Blocks> = Mutex::new(Blocks { held: Vec::new(), count: 0 });
    let mut mine = MINE.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..=HELD_MAX * usize::from(BLOCK) {
        let port = mine.next();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free TCP port between {FIRST} and {}", FIRST + BLOCK * BLOCKS);
}

impl Blocks {
    fn next(&mut self) -> u16 {
        let per_block = usize::from(BLOCK);
        if self.count >= self.held.len() * per_block && self.held.len() < HELD_MAX {
            self.held.extend(reserve(&self.held));
        }
        assert!(!self.held.is_empty(), "other processes hold all ports for tests");
        let index = self.count % (self.held.len() * per_block);
        self.count += 1;
        self.held[index / per_block].first + u16::try_from(index % per_block).expect("within a block")
    }
}

/// A block that no process holds.
fn reserve(mine: &[Block]) -> Option<Block> {
    let blocks = (0..BLOCKS).map(|number| FIRST + number * BLOCK);
    let mut others = blocks.filter(|first| mine.iter().all(|block| block.first != *first));
    others.find_map(|first| {
        let name = SocketAddr::from_abstract_name(format!("tidegate-test-ports-{first}")).expect("a short name");
        match UnixListener::bind_addr(&name) {
            Ok(listener) => Some(Block { first, _name: Some(listener) }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            // A system without abstract sockets: the port itself is still looked at.
            Err(_) => Some(Block { first, _name: None }),
        }
    })
}
