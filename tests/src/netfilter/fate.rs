//! What became of a connection, and whether that is what was foretold.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use gwready_core::facts::steering::NetfilterPath;
use gwready_core::net::Endpoint;

/// Bound of an answer that is expected; of one that is not: the first SYN is answered at once or never.
const EXPECTED: Duration = Duration::from_secs(5);
const UNEXPECTED: Duration = Duration::from_millis(150);

/// What became of a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Somebody answered: name, and the address at which the connection was accepted.
    Answered(String, SocketAddr),
    /// RST or an ICMP error.
    Refused,
    /// Nothing came back.
    Silent,
}

/// Connects from the calling thread's namespace and reads who answers.
#[must_use]
pub fn connect(to: SocketAddr, patience: Duration) -> Fate {
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&to, patience)?;
        stream.set_read_timeout(Some(EXPECTED))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    match answer() {
        Ok(text) => match text.trim().split_once(' ').and_then(|(name, at)| Some((name.to_owned(), at.parse().ok()?))) {
            Some((name, at)) => Fate::Answered(name, at),
            None => Fate::Refused,
        },
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => Fate::Silent,
        Err(_) => Fate::Refused,
    }
}

impl Fate {
    /// Reached the gateway's socket, where it wanted to go.
    #[must_use]
    pub fn passed(&self, to: Endpoint) -> bool {
        matches!(self, Self::Answered(name, at) if name == "gateway" && at.ip() == to.address && at.port() == to.port)
    }
}

/// How long to wait for the fate that is foretold.
#[must_use]
pub fn patience_for(path: &NetfilterPath) -> Duration {
    match path {
        NetfilterPath::Dropped { .. } | NetfilterPath::Unclear { .. } => UNEXPECTED,
        _ => EXPECTED,
    }
}

/// Whether a fate is one of those that were foretold.
#[must_use]
pub fn agrees(path: &NetfilterPath, to: Endpoint, fate: &Fate) -> bool {
    match path {
        NetfilterPath::Passes => fate.passed(to),
        // Whether somebody answers where it leads is another question.
        NetfilterPath::Redirected { .. } => !fate.passed(to),
        NetfilterPath::Dropped { .. } => matches!(fate, Fate::Silent | Fate::Refused),
        NetfilterPath::PassesForSome { .. } | NetfilterPath::Unclear { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foretold_fate_agrees_and_every_other_does_not() {
        let to = Endpoint { address: "10.77.0.1".parse().unwrap(), port: 80 };
        let answered = |name: &str, at: &str| Fate::Answered(name.to_owned(), at.parse().unwrap());
        let passed = answered("gateway", "10.77.0.1:80");
        let elsewhere = [answered("gateway", "10.77.0.2:80"), answered("other", "10.77.0.1:8080"), answered("pod", "10.42.0.7:80")];
        let rule = String::new();
        let redirected = NetfilterPath::Redirected { to: String::new(), rule: rule.clone() };
        let dropped = NetfilterPath::Dropped { rule };
        assert!(agrees(&NetfilterPath::Passes, to, &passed) && !agrees(&redirected, to, &passed) && !agrees(&dropped, to, &passed));
        for fate in &elsewhere {
            assert!(!agrees(&NetfilterPath::Passes, to, fate) && agrees(&redirected, to, fate) && !agrees(&dropped, to, fate));
        }
        for fate in [Fate::Silent, Fate::Refused] {
            assert!(!agrees(&NetfilterPath::Passes, to, &fate) && agrees(&redirected, to, &fate) && agrees(&dropped, to, &fate));
        }
    }
}
