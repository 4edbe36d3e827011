//! What the last whole read found, and the questions whose answers would be others if that were no longer true.
//!
//! A LISTEN dump walks the listeners of every network namespace; a lookup costs the same however many there are. So a pass
//! without a reason to doubt asks again: which socket would each judged endpoint's client get, and does every known listener
//! still take its place in its group? Same answers: the rows of the last dump stand, with the figures of their queues as the
//! answers bring them. Any other answer: everything has to be read anew.
//!
//! What this can miss, until [`MAX_AGE`] or a kernel event: a listener that no judged endpoint's client can get. A socket that
//! joins a `SO_REUSEPORT` group moves about half of the group's answers (net/core/sock_reuseport.c, `reciprocal_scale` of the
//! hash by the number of members), and a group is asked for at least [`WITNESSES`] times besides once per endpoint,
//! unless the endpoints' own questions are [`ENOUGH`].

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use gwready_core::facts::sockets::{Listener, SocketTable};
use gwready_core::net::Endpoint;
use gwready_core::plan::ReadPlan;
use gwready_core::time::Mono;

use super::lookup::{self, Tuple, is_connection};
use crate::observe::netlink::{Exchange, NetlinkError};

/// After that the rows are dumped again though nothing seems to have changed.
const MAX_AGE: Duration = Duration::from_secs(5);
/// Questions for one group at least.
const WITNESSES: u16 = 8;
/// Questions of endpoints for one group that make further ones unnecessary, if they find every member.
const ENOUGH: u16 = 10;
/// Questions for one group at most: a member that none of them finds can't be watched this way.
const MOST_WITNESSES: u16 = 64;
/// Groups worth watching by questions. A node with more of them on the expected ports is dumped every time.
const MOST_GROUPS: usize = 32;
/// Addresses that no node has (RFC 5737, RFC 3849): a wildcard listener gets their clients, whatever is bound to real ones.
const NOWHERE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const NOWHERE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1));

/// One question, and the cookie that answered it; none = nobody.
#[derive(Debug)]
struct Question {
    tuple: Tuple,
    answer: Option<u64>,
}

/// The last whole read, watched.
#[derive(Debug)]
pub(super) struct Steady {
    endpoints: Vec<(Endpoint, u32)>,
    ports: Vec<u16>,
    table: SocketTable,
    questions: Vec<Question>,
    read_at: Mono,
}

impl Steady {
    /// Finds the questions for a table just read. None where some listener can't be watched by questions.
    pub(super) fn watch(
        exchange: &mut Exchange,
        plan: &ReadPlan,
        table: &SocketTable,
        read_at: Mono,
    ) -> Result<Option<Self>, NetlinkError> {
        let mut questions = Vec::new();
        for (endpoint, ingress_if) in plan.endpoints() {
            let Some(first) = table.lookups.iter().find(|lookup| lookup.endpoint == endpoint) else { return Ok(None) };
            let tuple = lookup::tuple(endpoint, ingress_if, first.source_port);
            questions.push(Question { tuple, answer: first.picked.as_ref().map(|picked| picked.id.cookie) });
        }
        let groups = lookup::groups_of(&table.listeners);
        if groups.len() > MOST_GROUPS {
            return Ok(None);
        }
        let asked = asked_so_far(&questions);
        for members in groups.values() {
            match witnesses(exchange, members, &asked)? {
                Some(found) => questions.extend(found),
                None => return Ok(None),
            }
        }
        Ok(Some(Self { endpoints: plan.endpoints().collect(), ports: plan.ports.clone(), table: table.clone(), questions, read_at }))
    }

    /// Asks again. None if the plan is another one, the rows are old, or any answer differs.
    pub(super) fn read_again(&mut self, exchange: &mut Exchange, plan: &ReadPlan, now: Mono) -> Result<Option<SocketTable>, NetlinkError> {
        if now.since(self.read_at) >= MAX_AGE || self.ports != plan.ports || !plan.endpoints().eq(self.endpoints.iter().copied()) {
            return Ok(None);
        }
        let tuples: Vec<Tuple> = self.questions.iter().map(|question| question.tuple).collect();
        let mut rows: HashMap<u64, Listener> = HashMap::new();
        for (question, row) in self.questions.iter().zip(lookup::read_rows(exchange, &tuples)?) {
            if row.as_ref().map(|row| row.id.cookie) != question.answer || row.as_ref().is_some_and(is_connection) {
                return Ok(None);
            }
            if let Some(listener) = row.and_then(gwready_core::decode::inet_diag_row::Row::into_listener) {
                rows.insert(listener.id.cookie, listener);
            }
        }
        let picked = self.table.lookups.iter_mut().filter_map(|lookup| lookup.picked.as_mut());
        for known in self.table.listeners.iter_mut().chain(picked) {
            match rows.get(&known.id.cookie) {
                Some(row) => known.clone_from(row),
                None => return Ok(None),
            }
        }
        Ok(Some(self.table.clone()))
    }
}

/// How many of these questions each socket answers.
fn asked_so_far(questions: &[Question]) -> HashMap<u64, u16> {
    let mut asked = HashMap::new();
    for cookie in questions.iter().filter_map(|question| question.answer) {
        *asked.entry(cookie).or_default() += 1;
    }
    asked
}

/// Questions that, with those asked so far, find every member of one group; none if some member is not found.
fn witnesses(exchange: &mut Exchange, members: &[&Listener], asked: &HashMap<u64, u16>) -> Result<Option<Vec<Question>>, NetlinkError> {
    let answers = members.iter().map(|member| asked.get(&member.id.cookie).copied().unwrap_or_default());
    if answers.clone().all(|count| count > 0) && answers.sum::<u16>() >= ENOUGH {
        return Ok(Some(Vec::new()));
    }
    let Some(any) = members.first() else { return Ok(Some(Vec::new())) };
    let address = match any.address.to_canonical() {
        address if !address.is_unspecified() => address,
        IpAddr::V4(_) => NOWHERE_V4,
        IpAddr::V6(_) => NOWHERE_V6,
    };
    let endpoint = Endpoint { address, port: any.port };
    let mut missing: BTreeSet<u64> = members.iter().map(|member| member.id.cookie).collect();
    let mut found = Vec::new();
    for first in (0..MOST_WITNESSES).step_by(usize::from(WITNESSES)) {
        let ports = (first..first + WITNESSES).map(lookup::source_port);
        let tuples: Vec<Tuple> = ports.map(|port| lookup::tuple(endpoint, any.bound_if, port)).collect();
        for (tuple, row) in tuples.iter().zip(lookup::read_rows(exchange, &tuples)?) {
            let cookie = row.map(|row| row.id.cookie);
            if cookie.is_none_or(|cookie| !members.iter().any(|member| member.id.cookie == cookie)) {
                // Somebody else is preferred here, or the table changed meanwhile.
                return Ok(None);
            }
            let news = cookie.is_some_and(|cookie| missing.remove(&cookie));
            // The first few always, to notice who joins; of the further ones those that find somebody.
            if first == 0 || news {
                found.push(Question { tuple: *tuple, answer: cookie });
            }
        }
        if missing.is_empty() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
