//! Load for measurements: `crowd files N` holds N open files, `crowd listeners N` holds N
//! listeners on loopback, `crowd connections N` holds N established connections on loopback.
//! Prints `ready` when it does, and stays.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().context("no kind")?;
    let count: u32 = args.next().context("no count")?.parse()?;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    match kind.as_str() {
        "files" => {
            let held = (0..count).map(|_| File::open("/dev/null"));
            stay(held.collect::<Result<Vec<_>, _>>()?)
        }
        "listeners" => {
            let held = (0..count).map(|n| TcpListener::bind(nth_address(n)?).context("bind"));
            stay(held.collect::<Result<Vec<_>>>()?)
        }
        "connections" => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let to = listener.local_addr()?;
            let pair = |_| -> Result<_> { Ok((TcpStream::connect(to)?, listener.accept()?)) };
            stay((0..count).map(pair).collect::<Result<Vec<_>>>()?)
        }
        other => bail!("unknown kind {other}"),
    }
}

/// 10,000 ports on each of 127.1.0.1, 127.1.0.2, …
fn nth_address(n: u32) -> Result<SocketAddr> {
    let host = u8::try_from(n / 10_000 + 1)?;
    let port = u16::try_from(20_000 + n % 10_000)?;
    Ok((Ipv4Addr::new(127, 1, 0, host), port).into())
}

fn stay<T>(held: T) -> Result<()> {
    println!("ready");
    loop {
        std::thread::park();
        std::hint::black_box(&held);
    }
}
