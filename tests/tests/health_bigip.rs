//! A BIG-IP monitor against the real health port: what the configuration of docs/load-balancers.md marks, and what wrong
//! configurations do.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Result, ensure};
use gwready::health::Unready;
use gwready_core::verdict::State;
use gwready_tests::bigip::{Availability, Finding, Member, Monitor, Prober, probe};
use gwready_tests::health::port::Port;

const JUDGED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 11));

/// What both probers find in each state, in the order of [`State::ALL`]; they must agree.
fn findings(port: &Port, monitor: &Monitor) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for state in State::ALL {
        port.set(state);
        let find = |prober| probe(monitor, prober, port.address()?, Duration::from_secs(2));
        let (bigd, tmm) = (find(Prober::Bigd)?, find(Prober::InTmm)?);
        ensure!(bigd == tmm, "{state}: {bigd:?} by bigd, {tmm:?} in TMM, with {monitor:?}");
        found.push(bigd);
    }
    Ok(found)
}

fn monitor(send: &str, recv: &str, recv_disable: &str) -> Monitor {
    Monitor { send: send.to_owned(), recv: recv.to_owned(), recv_disable: recv_disable.to_owned(), ..Monitor::default() }
}

#[test]
fn the_shipped_configuration_marks_up_disabled_down() -> Result<()> {
    let port = Port::open(Unready::Status, JUDGED)?;
    let right = [Finding::Good, Finding::Disabled, Finding::Bad];
    assert_eq!(findings(&port, &Monitor::recommended())?, right);
    for send in
        [r"GET /\r\n", r"GET /healthz HTTP/1.0\r\n\r\n", r"GET /healthz HTTP/1.1\r\nHost: gw\r\n", r"HEAD / HTTP/1.0\r\n\r\n", r"GET /"]
    {
        assert_eq!(findings(&port, &monitor(send, "state=up", "state=drain"))?, right, "{send}");
    }
    Ok(())
}

#[test]
fn the_stock_monitor_needs_close_mode() -> Result<()> {
    let stock = Monitor::default();
    assert_eq!(
        findings(&Port::open(Unready::Status, JUDGED)?, &stock)?,
        [Finding::Good; 3],
        "any byte is up: a node that is down gets clients"
    );
    assert_eq!(findings(&Port::open(Unready::Close, JUDGED)?, &stock)?, [Finding::Good, Finding::Bad, Finding::Bad]);
    Ok(())
}

#[test]
fn wrong_configurations_and_what_they_do() -> Result<()> {
    let port = Port::open(Unready::Status, JUDGED)?;
    let request = r"GET /healthz HTTP/1.1\r\nHost: gw\r\n\r\n";
    assert_eq!(findings(&port, &monitor(request, "HTTP/1.", ""))?, [Finding::Good; 3], "AS3's default receive string matches every answer");
    assert_eq!(
        findings(&port, &monitor(request, "200 OK", "5[0-9][0-9]"))?,
        [Finding::Good, Finding::Disabled, Finding::Disabled],
        "down is only drained: clients stay on a node that can't serve them"
    );
    assert_eq!(findings(&port, &monitor(request, "state=up", ""))?, [Finding::Good, Finding::Bad, Finding::Bad], "drain cuts like down");
    assert_eq!(
        findings(&port, &monitor("GET /healthz HTTP/1.1/r/nHost: gw/r/n/r/n", "state=up", "state=drain"))?,
        [Finding::Bad; 3],
        "escapes written with a slash: never up, so it is noticed"
    );
    Ok(())
}

#[test]
fn from_fault_to_down_and_back_by_the_arithmetic_of_the_device() -> Result<()> {
    let port = Port::open(Unready::Status, JUDGED)?;
    let monitor = Monitor::recommended();
    let found = findings(&port, &monitor)?;
    let (good, disabled, bad) = (found[0], found[1], found[2]);
    let seconds = Duration::from_secs;
    let mut member = Member::new(&monitor, seconds(0));
    let mut seen = Vec::new();
    for second in 0..80 {
        // Up, a fault at 11 s, mended at 41 s, drained from 61 s on.
        let finding = match second {
            0..11 | 41..61 => good,
            11..41 => bad,
            _ => disabled,
        };
        if member.next_probe() <= seconds(second) {
            member.found(finding, seconds(second));
        }
        member.pass(seconds(second));
        if seen.last().is_none_or(|(_, last)| *last != member.availability()) {
            seen.push((second, member.availability()));
        }
    }
    assert_eq!(
        seen,
        [(0, Availability::Up), (26, Availability::Down), (45, Availability::Up), (65, Availability::Disabled)],
        "15 s to eviction at stock timing; up and drain at the next probe"
    );
    Ok(())
}

#[test]
fn a_member_follows_every_change_of_state() -> Result<()> {
    let port = Port::open(Unready::Status, JUDGED)?;
    let monitor = Monitor::recommended();
    let seconds = Duration::from_secs;
    port.set(State::Up);
    let mut member = Member::new(&monitor, seconds(0));
    let mut seen = Vec::new();
    for second in 0..140 {
        // The moment before a probe is due, so that each change is seen by the next one.
        match second {
            14 => port.set(State::Down),
            39 => port.set(State::Drain),
            54 => port.set(State::Up),
            69 => port.set(State::Drain),
            84 => port.set(State::Down),
            119 => port.set(State::Up),
            _ => {}
        }
        if member.next_probe() <= seconds(second) {
            member.found(probe(&monitor, Prober::Bigd, port.address()?, seconds(2))?, seconds(second));
        }
        member.pass(seconds(second));
        if seen.last().is_none_or(|(_, last)| *last != member.availability()) {
            seen.push((second, member.availability()));
        }
    }
    use Availability::{Disabled, Down, Up};
    assert_eq!(seen, [(0, Up), (26, Down), (40, Disabled), (55, Up), (70, Disabled), (96, Down), (120, Up)]);
    Ok(())
}
