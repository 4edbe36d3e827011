//! Clients that cost and give nothing: a well-behaved probe still gets its answer within 100 ms, memory stays small, and
//! all is as before when they are gone. The health port in a process of its own, over loopback.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use gwready_tests::eventually;
use gwready_tests::health::probe::probe;
use gwready_tests::health::stand::Stand;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

const PROMISED: Duration = Duration::from_millis(100);
const MAX_MEMORY_KIB: u64 = 20 * 1024;

struct Victim {
    stand: Stand,
    address: SocketAddr,
    _folder: TempDir,
}

impl Victim {
    fn start(arguments: &[&str]) -> Result<Self> {
        // This process holds the other ends.
        setrlimit(Resource::Nofile, Rlimit { current: Some(8192), ..getrlimit(Resource::Nofile) })?;
        let folder = TempDir::new()?;
        let arguments = [&["--listen", "[::]:0", "--state", "up"], arguments].concat();
        let mut stand = Stand::start(Path::new(env!("CARGO_BIN_EXE_health-stand")), &arguments, &folder.path().join("log"))?;
        let (address, _) = stand.wait_serving()?;
        Ok(Self { stand, address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port()), _folder: folder })
    }

    /// Every probe is answered, and half of them within the promised time: what the port costs, not what else runs on
    /// this machine.
    fn answers_in_time(&self, when: &str) -> Result<()> {
        let mut waits = (0..11).map(|_| self.probe(when)).collect::<Result<Vec<_>>>()?;
        waits.sort_unstable();
        ensure!(waits[5] < PROMISED, "{when}: {waits:?}");
        Ok(())
    }

    fn probe(&self, when: &str) -> Result<Duration> {
        let begin = Instant::now();
        let line = probe(self.address, Duration::from_secs(3)).map_err(|error| anyhow!("{when}: {error}"))?;
        ensure!(line.starts_with("state=up "), "{when}: {line}");
        Ok(begin.elapsed())
    }

    fn status(&self, key: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.stand.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key)).context("no such line")?;
        Ok(line.trim_start_matches(':').split_whitespace().next().context("empty")?.parse()?)
    }

    fn stays_small(&self) -> Result<()> {
        let peak = self.status("VmHWM")?;
        ensure!(peak < MAX_MEMORY_KIB, "{peak} KiB resident at the peak");
        Ok(())
    }

    fn descriptors(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.stand.pid()))?.count())
    }

    /// All connections of the abuse are gone from the process.
    fn recovers_to(&self, descriptors: usize) -> Result<()> {
        eventually(Duration::from_secs(15), || {
            let now = self.descriptors()?;
            ensure!(now <= descriptors, "{now} descriptors, {descriptors} before");
            Ok(())
        })?;
        self.answers_in_time("afterwards")
    }
}

#[test]
fn five_thousand_idle_connections() -> Result<()> {
    let victim = Victim::start(&[])?;
    let before = victim.descriptors()?;
    let idle: Vec<TcpStream> = (0..5000).map(|_| TcpStream::connect(victim.address)).collect::<Result<_, _>>()?;
    victim.answers_in_time("beside 5,000 idle connections")?;
    victim.stays_small()?;
    drop(idle);
    victim.recovers_to(before)
}

#[test]
fn a_byte_now_and_then_after_the_answer_keeps_no_connection() -> Result<()> {
    let victim = Victim::start(&[])?;
    let before = victim.descriptors()?;
    let mut stream = TcpStream::connect(victim.address)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    eventually(Duration::from_secs(15), || {
        ensure!(stream.write_all(b"x").is_err(), "the connection is still open");
        Ok(())
    })?;
    victim.recovers_to(before)
}

#[test]
fn a_thousand_clients_that_never_finish_their_headers() -> Result<()> {
    let victim = Victim::start(&[])?;
    let before = victim.descriptors()?;
    let stop = Arc::new(AtomicBool::new(false));
    let slow = {
        let (stop, address) = (Arc::clone(&stop), victim.address);
        thread::spawn(move || -> Result<()> {
            let mut streams: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
            while !stop.load(Ordering::Relaxed) {
                for stream in &mut streams {
                    // Answered and closed by now, or not: both are the victim's right.
                    _ = stream.write_all(b"G");
                }
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        })
    };
    for _ in 0..5 {
        victim.answers_in_time("beside 1,000 slow clients")?;
    }
    victim.stays_small()?;
    stop.store(true, Ordering::Relaxed);
    slow.join().map_err(|_| anyhow!("slow clients panicked"))??;
    victim.recovers_to(before)
}

/// A connection from another address than the probe's.
fn connect_from_elsewhere(server: SocketAddr) -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 66], 0)).into())?;
    socket.connect(&server.into())?;
    Ok(socket)
}

#[test]
fn a_flood_of_connections_with_64_descriptors() -> Result<()> {
    let victim = Victim::start(&["--descriptors", "64"])?;
    let before = victim.descriptors()?;
    let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flood = {
        let (stop, made, address) = (Arc::clone(&stop), Arc::clone(&made), victim.address);
        thread::spawn(move || -> Result<()> {
            let mut held = std::collections::VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                held.push_back(connect_from_elsewhere(address)?);
                made.fetch_add(1, Ordering::Relaxed);
                if held.len() > 2000 {
                    held.pop_front();
                }
            }
            Ok(())
        })
    };
    let mut waits = Vec::new();
    while (made.load(Ordering::Relaxed) < 5000 || waits.len() < 100) && !flood.is_finished() {
        waits.push(victim.probe("in a flood with 64 descriptors")?);
    }
    stop.store(true, Ordering::Relaxed);
    flood.join().map_err(|_| anyhow!("flood panicked"))??;
    waits.sort_unstable();
    ensure!(waits[waits.len() / 2] < PROMISED, "half of {} probes took {:?} and more", waits.len(), waits[waits.len() / 2]);
    victim.stays_small()?;
    victim.recovers_to(before)
}

#[test]
fn without_a_single_free_descriptor_it_waits_and_comes_back() -> Result<()> {
    // Fewer than the process itself needs for one connection more: accept fails until the limit is lifted.
    let victim = Victim::start(&[])?;
    let pid = rustix::process::Pid::from_raw(i32::try_from(victim.stand.pid())?);
    let folder = format!("/proc/{}/fd", victim.stand.pid());
    let free = (0..).find(|number| !Path::new(&folder).join(number.to_string()).exists()).context("no free number")?;
    let limit =
        |descriptors| rustix::process::prlimit(pid, Resource::Nofile, Rlimit { current: Some(descriptors), ..getrlimit(Resource::Nofile) });
    limit(free)?;
    let cpu = || -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", victim.stand.pid()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().context("stat")?.split_whitespace().collect();
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    };
    let spent = cpu()?;
    let starved = probe(victim.address, Duration::from_millis(500));
    ensure!(starved.is_err(), "there was a descriptor left: {starved:?}");
    ensure!(cpu()? - spent < 25, "it spins: {} ticks in half a second", cpu()? - spent);
    limit(1024)?;
    victim.answers_in_time("with descriptors again")
}
