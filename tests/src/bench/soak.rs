//! `gwready-bench soak`: a healthy node in constant change. The verdict must not change once, memory and descriptors stay flat.
//!
//! Everything that changes is harmless by design: listener updates by LDS that keep the gateway's sockets, bursts of
//! connections, an address that comes and goes, rows of Cilium's map on other ports.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::cost;
use super::samples::{Samples, to_f64};
use super::table::{Table, figure};
use crate::lbmaps::{LbMaps, kind};
use crate::listener::{SNI, Tls};
use crate::{Agent, Answer, Envoy, Listener, Node, client};

/// What was done and seen.
#[derive(Debug)]
pub struct Report {
    /// Rounds of churn.
    pub rounds: usize,
    /// LDS updates.
    pub updates: usize,
    /// Connections that Envoy served.
    pub connections: usize,
    /// Addresses added and removed.
    pub addresses: usize,
    /// Rows added to and removed from Cilium's map.
    pub rows: usize,
    /// Health answers that were checked.
    pub answers: usize,
    /// Health answers that were wrong.
    pub wrong_answers: usize,
    /// Transitions of the node from one state to another.
    pub transitions: f64,
    /// Everything that was wrong, in words.
    pub wrong: Vec<String>,
    /// Resident memory, KiB: median of the second fifth, and of the last.
    pub resident_kib: (f64, f64),
    /// Open descriptors: the same.
    pub descriptors: (f64, f64),
}

const PATIENCE: Duration = Duration::from_secs(20);
/// More growth than this between the second and the last fifth is a leak.
const GROWTH_KIB: f64 = 1024.0;
/// Connections being served at the moment of counting make up so many.
const GROWTH_DESCRIPTORS: f64 = 4.0;
const PER_BURST: usize = 50;
const GUEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 50));

impl Report {
    /// Everything as it should be, growth included: an error with all that was not.
    pub fn judge(&self) -> Result<()> {
        let mut wrong = self.wrong.clone();
        for (what, (early, late), limit) in
            [("resident KiB", self.resident_kib, GROWTH_KIB), ("descriptors", self.descriptors, GROWTH_DESCRIPTORS)]
        {
            if late - early > limit {
                wrong.push(format!("{what} grew from {early:.0} to {late:.0}"));
            }
        }
        ensure!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        Ok(())
    }

    /// The figures as a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&["churn", "count"]);
        table.row(&[&"rounds", &self.rounds]);
        table.row(&[&"LDS updates", &self.updates]);
        table.row(&[&"connections served by Envoy", &self.connections]);
        table.row(&[&"addresses added and removed", &self.addresses]);
        table.row(&[&"LB rows added and removed", &self.rows]);
        table.row(&[&"health answers", &self.answers]);
        table.row(&[&"wrong ones among them (not up, or partial)", &self.wrong_answers]);
        table.row(&[&"transitions of the node", &format!("{:.0}", self.transitions)]);
        for (label, (early, late)) in [("resident KiB", self.resident_kib), ("open descriptors", self.descriptors)] {
            table.row(&[&format!("{label}, early -> late"), &format!("{} -> {}", figure(early), figure(late))]);
        }
        table
    }
}

/// Churns for `span`. An error means that the churn itself failed; what the agent did wrong is in the report.
pub fn run(span: Duration) -> Result<Report> {
    let node = Node::new()?;
    let maps = node.enter(|| LbMaps::create(&node.bpffs(), 4096))?;
    let envoy = Envoy::start(&node)?;
    // The ports are said: with `auto` the listener on 8080 would become one to expect.
    let mut agent = Agent::builder(&node).set("ports", json!([80, 443])).start()?;
    agent.wait_state("state=up", PATIENCE)?;
    let mut churn =
        Churn { transitions: transitions(&agent)?, node, envoy, maps, agent, report: Report::default(), row: 0, rows: Vec::new() };
    let (begin, mut costs, mut told) = (Instant::now(), Vec::new(), 0);
    while begin.elapsed() < span {
        churn.round()?;
        let pid = churn.agent.pid();
        costs.push((f64::from(u32::try_from(cost::memory_kib(pid, "VmRSS")?)?), to_f64(cost::descriptors(pid)?)));
        let minute = begin.elapsed().as_secs() / 60;
        if minute > told {
            told = minute;
            let (kib, files) = costs.last().copied().unwrap_or_default();
            eprintln!(
                "minute {minute}: {} rounds, {} wrong, {kib:.0} KiB, {files:.0} descriptors",
                churn.report.rounds,
                churn.report.wrong.len()
            );
        }
    }
    let fifth = (costs.len() / 5).max(1);
    let median = |range: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| range.iter().map(pick).collect::<Samples>().median();
    let early = costs.get(fifth..2 * fifth).unwrap_or(&costs);
    let late = costs.get(costs.len() - fifth..).unwrap_or(&costs);
    churn.report.resident_kib = (median(early, |cost| cost.0), median(late, |cost| cost.0));
    churn.report.descriptors = (median(early, |cost| cost.1), median(late, |cost| cost.1));
    churn.agent.stop()?;
    Ok(churn.report)
}

impl Default for Report {
    fn default() -> Self {
        let none = (f64::NAN, f64::NAN);
        let (rounds, updates, connections, addresses, rows) = Default::default();
        let (answers, wrong_answers, transitions, wrong) = Default::default();
        Self {
            rounds,
            updates,
            connections,
            addresses,
            rows,
            answers,
            wrong_answers,
            transitions,
            wrong,
            resident_kib: none,
            descriptors: none,
        }
    }
}

struct Churn {
    // Ends first to last: programs before the node.
    agent: Agent,
    envoy: Envoy,
    maps: LbMaps,
    node: Node,
    transitions: f64,
    report: Report,
    row: u16,
    rows: Vec<(IpAddr, u16)>,
}

impl Churn {
    fn round(&mut self) -> Result<()> {
        let odd = self.report.rounds % 2 == 1;
        self.update_listeners(odd)?;
        self.change_rows()?;
        match self.report.rounds % 10 {
            0 => self.change_address(false)?,
            5 => self.change_address(true)?,
            _ => {}
        }
        self.burst()?;
        self.report.rounds += 1;
        self.check()
    }

    /// A further server name and a further listener, and without them again.
    fn update_listeners(&mut self, more: bool) -> Result<()> {
        let mut names = vec![SNI.to_owned()];
        names.extend(more.then(|| "more.example".to_owned()));
        let mut listeners = vec![Listener { tls: Tls::Terminate(names), ..Listener::gateway() }];
        listeners.extend(more.then(|| Listener::http(8080)));
        self.envoy.set_listeners(&listeners)?;
        self.report.updates += 1;
        Ok(())
    }

    /// Ten rows of other ports on the node's own addresses in place of those of the round before.
    fn change_rows(&mut self) -> Result<()> {
        let (node, maps, there, first) = (&self.node, &mut self.maps, &mut self.rows, self.row);
        let addresses = node.addresses();
        let backend = [(IpAddr::from([10, 42, 1, 7]), 8080)];
        let ports = (0..10).map(|n| 30_000 + (first + n) % 2_000).collect::<Vec<u16>>();
        let mut fresh = Vec::new();
        node.enter(|| {
            for (port, address) in ports.iter().zip(addresses.iter().cycle()) {
                let kind = if port % 2 == 0 { kind::NODE_PORT } else { kind::HOST_PORT };
                maps.add(*address, *port, kind, &backend)?;
                fresh.push((*address, *port));
            }
            there.drain(..).try_for_each(|(address, port)| maps.remove(address, port))?;
            *there = fresh;
            Ok(())
        })?;
        self.report.rows += ports.len();
        self.row = (self.row + 10) % 2_000;
        Ok(())
    }

    /// The guest address goes, or comes and is served.
    fn change_address(&mut self, there: bool) -> Result<()> {
        let word = if there { "del" } else { "add" };
        self.node.space().output("ip", &["addr", word, &format!("{GUEST}/24"), "dev", crate::node::UPLINK])?;
        self.report.addresses += 1;
        if !there {
            // Its own first probe decides about a new address; until then it is down `Starting`, and the node up `partial`.
            // While the agent does not know the address, it answers for the node: hence the address in the line.
            self.agent.wait_state_of(GUEST, &format!("state=up address={GUEST}"), PATIENCE)?;
        }
        Ok(())
    }

    fn burst(&mut self) -> Result<()> {
        let address = self.node.addresses().get(self.report.rounds % 4).copied().context("no address")?;
        let counts = client::ask_many(self.node.outside(), address, 80, PER_BURST)?;
        let served = counts.of(&Answer::Envoy);
        ensure!(served == PER_BURST, "the gateway itself failed, the churn is not harmless: {counts}");
        self.report.connections += served;
        Ok(())
    }

    /// Every address as a balancer sees it, the node, and the count of transitions.
    fn check(&mut self) -> Result<()> {
        self.agent.process().ensure_running()?;
        let mut lines = vec![self.agent.state_line()?];
        for address in self.node.addresses() {
            lines.push(self.agent.state_line_of(address)?);
        }
        self.report.answers += lines.len();
        let wrong = lines.into_iter().filter(|line| !line.starts_with("state=up ") || line.contains(" partial=")).collect::<Vec<_>>();
        self.report.wrong_answers += wrong.len();
        self.report.wrong.extend(wrong);
        let transitions = transitions(&self.agent)?;
        if transitions > self.transitions {
            let log = self.agent.log();
            let last = log.lines().rfind(|line| line.contains("node ")).unwrap_or_default();
            self.report.transitions += transitions - self.transitions;
            self.report.wrong.push(format!("{} transitions more, the last: {last}", transitions - self.transitions));
            self.transitions = transitions;
        }
        Ok(())
    }
}

/// All of `gwready_transitions_total` from one state of the node to another; a new address changes from up to up.
fn transitions(agent: &Agent) -> Result<f64> {
    let text = agent.metrics()?;
    let same = |line: &str| ["up", "drain", "down"].iter().any(|state| line.contains(&format!("from=\"{state}\",to=\"{state}\"")));
    let samples = text.lines().filter(|line| line.starts_with("gwready_transitions_total{") && !same(line));
    samples.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_the_limit_and_wrong_answers_are_faults() {
        let flat = || Report { resident_kib: (9000.0, 9500.0), descriptors: (30.0, 31.0), ..Report::default() };
        assert!(flat().judge().is_ok());
        let leak = Report { resident_kib: (9000.0, 12_000.0), ..flat() };
        assert!(leak.judge().is_err_and(|error| error.to_string().contains("resident KiB grew from 9000 to 12000")));
        let files = Report { descriptors: (30.0, 60.0), ..flat() };
        assert!(files.judge().is_err());
        let wrong = Report { wrong: vec!["state=down".into()], ..flat() };
        assert!(wrong.judge().is_err());
    }
}
