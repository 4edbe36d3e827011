//! Relations between keys that are each fine alone. A relation is only looked at when none of its keys has a fault. Pure.

use gwready_core::policy::Choice;

use super::effective::Config;
use super::faults::Faults;
use super::given::Given;

/// Notes every broken relation.
pub(super) fn check_relations(config: &Config, given: &Given, faults: &mut Faults) {
    check_staleness(config, given, faults);
    check_listeners(config, given, faults);
}

fn check_staleness(config: &Config, given: &Given, faults: &mut Faults) {
    if faults.has("timing.resync") || faults.has("timing.stale_after") || config.timing.stale_after > config.timing.resync {
        return;
    }
    let blamed = if given.get("timing.stale_after").is_some() { "timing.stale_after" } else { "timing.resync" };
    faults.add(given.origin(blamed), blamed, "timing.stale_after must be longer than timing.resync, else every answer is stale");
}

/// The agent's own ports must differ from each other and from the ports that it judges.
fn check_listeners(config: &Config, given: &Given, faults: &mut Faults) {
    let mut listeners = vec![("health.listen", config.health.listen.port()), ("admin.listen", config.admin.listen.port())];
    listeners.extend(config.agent_check.listen.map(|address| ("agent_check.listen", address.port())));
    listeners.retain(|(key, _)| !faults.has(key));
    for (index, (key, port)) in listeners.iter().enumerate() {
        if let Some((other, _)) = listeners.iter().take(index).find(|(_, taken)| taken == port) {
            let blamed = if given.get(key).is_some() { key } else { other };
            faults.add(given.origin(blamed), *blamed, format!("{other} and {key} both use port {port}"));
        }
        if let Choice::Only(expected) = &config.ports
            && !faults.has("ports")
            && expected.contains(port)
        {
            faults.add(given.origin("ports"), "ports", format!("names port {port}, which is the agent's own ({key})"));
        }
    }
}
