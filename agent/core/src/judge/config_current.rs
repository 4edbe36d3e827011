//! `ConfigCurrent` (advisory): Envoy accepted its last listener updates and is connected to its control plane. Also says
//! which rejected listener a port waits for, for the judge of `Listening`.

use crate::condition::{ConditionType, Finding};
use crate::facts::Snapshot;
use crate::facts::envoy::{EnvoyAdmin, EnvoyListener};
use crate::reason::Reason;

use super::envoy_live::admin_detail;

const KIND: ConditionType = ConditionType::ConfigCurrent;

/// A listener that Envoy refused, with its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Name of the refused listener, raw text.
    pub listener: String,
    /// Envoy's sentence, raw text.
    pub sentence: String,
    /// The listener that has the address already, if that is why.
    pub other: Option<String>,
}

impl Rejected {
    fn of(admin: &EnvoyAdmin, listener: &EnvoyListener) -> Option<Self> {
        let sentence = cause(listener.error.as_deref()?, &listener.name).to_owned();
        let is_duplicate = sentence.contains("duplicate address");
        let has_one_of = |other: &&EnvoyListener| {
            other.active && other.name != listener.name && other.ports.iter().any(|port| listener.rejected_ports.contains(port))
        };
        let other = admin.listeners.iter().find(has_one_of).filter(|_| is_duplicate).map(|other| other.name.clone());
        Some(Self { listener: listener.name.clone(), sentence, other })
    }

    /// One sentence for a person; the two most common causes are named.
    #[must_use]
    pub fn message(&self) -> String {
        let name = |listener: &str| {
            let named = EnvoyListener { name: listener.to_owned(), ..EnvoyListener::default() };
            named.gateway().map_or_else(|| format!("listener {listener}"), |gateway| format!("Gateway {gateway}"))
        };
        let refused = name(&self.listener);
        match &self.other {
            Some(other) => format!("two Gateways want one port: Envoy rejects {refused} because {} has it", name(other)),
            None if self.sentence.contains("Address already in use") || self.sentence.contains("address already in use") => {
                format!("Envoy rejects {refused}: another process has one of its ports")
            }
            None => format!("Envoy rejects {refused}"),
        }
    }
}

/// Envoy's sentence from its cause on: it begins with the listener's name ("error adding listener named 'N': …"), which stands in the
/// evidence anyway and would leave no room for the cause in outputs that are cut.
fn cause<'a>(sentence: &'a str, listener: &str) -> &'a str {
    let rest = sentence.split_once(listener).map_or(sentence, |(_, rest)| rest.trim_start_matches(['\'', '"', ':', ' ']));
    if rest.is_empty() { sentence } else { rest }
}

/// The rejected listener that `port` waits for: one whose refused update asked for it.
#[must_use]
pub fn listener_rejected(snapshot: &Snapshot, port: u16) -> Option<Rejected> {
    let admin = snapshot.envoy.value()?;
    let waiting = admin.listeners.iter().find(|listener| listener.error.is_some() && listener.rejected_ports.contains(&port))?;
    Rejected::of(admin, waiting)
}

/// Judges the node.
#[must_use]
pub fn judge_config_current(snapshot: &Snapshot) -> Finding {
    let Some(admin) = snapshot.envoy.value() else {
        return Finding::unknown(KIND, Reason::AdminUnreachable, admin_detail(snapshot));
    };
    if let Some(rejected) = admin.listeners.iter().find_map(|listener| Rejected::of(admin, listener)) {
        let finding = Finding::fails(KIND, Reason::UpdateRejected, rejected.message());
        return finding.with("listener", &rejected.listener).with("envoy", &rejected.sentence).with("rejected", admin.updates_rejected);
    }
    if admin.control_plane_connected == Some(false) {
        return Finding::fails(
            KIND,
            Reason::XdsDisconnected,
            "Envoy is not connected to the cilium-agent: it keeps serving an old configuration",
        );
    }
    Finding::holds(KIND)
}

#[cfg(test)]
mod tests {
    use super::super::serving_testing::{admin, admin_with, gateway, unread};
    use super::*;
    use crate::condition::Status;

    const DUPLICATE: &str = "error adding listener: 'team/cilium-gateway-b/listener' has duplicate address '0.0.0.0:80' as existing listener, to check if the listener has duplicated addresses with other listeners or 'enable_reuse_port' is set to 'false' for the listener";

    fn refused(name: &str, ports: &[u16], sentence: &str) -> EnvoyListener {
        EnvoyListener { active: false, error: Some(sentence.to_owned()), rejected_ports: ports.to_vec(), ..gateway(name, &[]) }
    }

    #[test]
    fn everything_accepted_and_connected_is_true() {
        assert_eq!(judge_config_current(&admin(vec![gateway("a", &[80])])).status, Status::True);
        assert_eq!(judge_config_current(&admin_with(|admin| admin.control_plane_connected = Some(true))).status, Status::True);
    }

    #[test]
    fn two_gateways_on_one_port_are_both_named() {
        let snapshot = admin(vec![gateway("a", &[80]), refused("b", &[80], DUPLICATE)]);
        let finding = judge_config_current(&snapshot);
        assert_eq!((finding.status, finding.reason), (Status::False, Some(Reason::UpdateRejected)));
        assert_eq!(finding.message, "two Gateways want one port: Envoy rejects Gateway team/b because Gateway team/a has it");
        assert!(finding.evidence["envoy"].starts_with("has duplicate address '0.0.0.0:80'"), "{finding:?}");
        let rejected = listener_rejected(&snapshot, 80).unwrap();
        assert_eq!(rejected.other.as_deref(), Some("team/cilium-gateway-a/listener"));
        assert_eq!(listener_rejected(&snapshot, 443), None);
    }

    #[test]
    fn a_taken_port_is_said_in_words() {
        let sentence = "error adding listener: cannot bind '0.0.0.0:443': Address already in use";
        let snapshot = admin(vec![refused("a", &[80, 443], sentence)]);
        assert_eq!(
            listener_rejected(&snapshot, 80).unwrap().message(),
            "Envoy rejects Gateway team/a: another process has one of its ports"
        );
    }

    #[test]
    fn an_update_that_was_refused_while_the_old_version_serves_is_update_rejected() {
        let mut serving = gateway("a", &[80]);
        serving.error = Some("no such thing".to_owned());
        serving.rejected_ports = vec![80, 8443];
        let snapshot = admin(vec![serving]);
        assert_eq!(judge_config_current(&snapshot).reason, Some(Reason::UpdateRejected));
        assert_eq!(listener_rejected(&snapshot, 8443).unwrap().message(), "Envoy rejects Gateway team/a");
    }

    #[test]
    fn a_lost_control_plane_is_told_after_rejections() {
        let lost = admin_with(|admin| admin.control_plane_connected = Some(false));
        assert_eq!(judge_config_current(&lost).reason, Some(Reason::XdsDisconnected));
        let both = admin_with(|admin| {
            admin.control_plane_connected = Some(false);
            admin.listeners = vec![refused("a", &[80], "x")];
        });
        assert_eq!(judge_config_current(&both).reason, Some(Reason::UpdateRejected));
    }

    #[test]
    fn an_admin_that_does_not_answer_is_unknown() {
        let finding = judge_config_current(&unread());
        assert_eq!((finding.status, finding.reason), (Status::Unknown, Some(Reason::AdminUnreachable)));
        assert_eq!(listener_rejected(&unread(), 80), None);
    }
}
