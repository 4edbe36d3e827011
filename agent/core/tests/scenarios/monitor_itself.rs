//! Faults of the monitor itself: what a stuck or restarted agent says.

use gwready_core::policy::Policy;

use super::faults::host_port;
use super::node::{A, Node};
use super::watch::Watch;
use crate::kept;

#[test]
fn fault_57_an_agent_that_reads_nothing_new_says_down_after_five_seconds() {
    let mut watch = Watch::of(&Node::healthy());
    assert_eq!(watch.sees_nothing_new(15.0, 10.0, &Node::healthy()).node(), "up");
    watch.sees_nothing_new(15.1, 10.0, &Node::healthy());
    watch.told(
        "state=down node=worker-1 address=all reason=Stale ports=80,443",
        &["10.0.0.11:80 down Stale", "10.0.0.11:443 down Stale"],
        "WARN node DOWN reason=Stale addresses=10.0.0.11 detail=\"the socket table was last read 5100 ms ago\" up_for=5s",
    );
    kept!(watch);
}

#[test]
fn fault_57_a_judge_that_is_stuck_itself_cannot_leave_a_stale_up() {
    use gwready_core::render::health::{AnswerSettings, Scope, answer, render_state_line};
    let watch = Watch::of(&Node::healthy());
    let settings = AnswerSettings {
        node_name: "worker-1".into(),
        stale_after: watch.policy.stale_after,
        scope: Scope::Address,
        detail: false,
        starting_ports: vec![],
    };
    let at = |seconds| {
        let answer = answer(Some(watch.verdict()), &settings, Some(A.parse().unwrap()), None, super::watch::mono(seconds)).unwrap();
        render_state_line(&answer, &settings)
    };
    assert_eq!(at(15.0), "state=up node=worker-1 address=10.0.0.11 ports=80,443");
    assert_eq!(at(15.001), "state=down node=worker-1 address=all reason=Stale ports=80,443");
    kept!(watch);
}

#[test]
fn fault_58_a_restart_never_shows_a_bad_node_as_good() {
    let mut watch = Watch::start(Policy::default());
    for second in 1..10_u32 {
        watch.sees(f64::from(second), &host_port());
        assert!(watch.node().starts_with("down "), "second {second}: {}", watch.node());
    }
    kept!(watch);
}

#[test]
fn fault_58_a_restart_after_a_recent_down_waits_for_min_up() {
    let mut watch = Watch::start(Policy::default());
    watch.memory.was_down = true;
    assert_eq!(watch.sees(1.0, &Node::healthy()).node(), "down Starting");
    assert_eq!(watch.sees(2.9, &Node::healthy()).node(), "down Starting");
    assert_eq!(watch.sees(3.0, &Node::healthy()).node(), "up");
    kept!(watch);
}

#[test]
fn fault_58_a_restart_never_takes_a_healthy_node_out_for_longer_than_its_first_pass() {
    let mut watch = Watch::start(Policy::default());
    assert_eq!(watch.sees(0.4, &Node::healthy()).node(), "up");
    kept!(watch);
}
