//! What is not True in a status document, told once where it is the same for several fronts. Pure; chooses no words.

use std::net::IpAddr;

use super::status::{ConditionStatus, StatusDocument};
use crate::condition::Status;

/// Conditions that say the same of several places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing<'a> {
    /// The first of them: type, status, requirement, reason, message, evidence, fix.
    pub of: &'a ConditionStatus,
    /// `80/ipv4`, …, or `node`.
    pub places: Vec<String>,
    /// The addresses concerned, of all of them; empty = all.
    pub addresses: Vec<IpAddr>,
    /// The earliest time at which one of them became so, RFC 3339.
    pub since: &'a str,
}

/// Every condition that is not True, in the order of the document.
#[must_use]
pub fn group_failing(document: &StatusDocument) -> Vec<Failing<'_>> {
    let mut groups: Vec<Failing<'_>> = Vec::new();
    for condition in document.conditions.iter().filter(|condition| condition.status != Status::True) {
        let Some(group) = groups.iter_mut().find(|group| says_the_same(group.of, condition)) else {
            groups.push(Failing {
                of: condition,
                places: vec![condition.place()],
                addresses: condition.addresses.clone(),
                since: &condition.since,
            });
            continue;
        };
        group.places.push(condition.place());
        let news = condition.addresses.iter().filter(|address| !group.addresses.contains(address));
        let news: Vec<IpAddr> = news.copied().collect();
        group.addresses.extend(news);
        // Times of one document have one form, and sort as text.
        group.since = group.since.min(&condition.since);
    }
    groups
}

/// All but place, addresses and time. One that concerns all addresses is not told together with one that concerns some.
fn says_the_same(a: &ConditionStatus, b: &ConditionStatus) -> bool {
    let words = |c: &ConditionStatus| (c.kind, c.status, c.requirement, c.reason, c.addresses.is_empty());
    words(a) == words(b) && a.message == b.message && a.evidence == b.evidence && a.fix == b.fix
}

#[cfg(test)]
mod tests {
    use super::super::status::tests::document_of;
    use super::super::testing::Scene;
    use super::*;
    use crate::reason::Reason;

    /// The port-80 theft, told of port 443 too.
    fn twice() -> StatusDocument {
        let mut document = document_of(&Scene::hostport());
        let stolen = document.conditions.iter().find(|c| c.reason == Some(Reason::HostPort)).cloned().expect("the theft");
        let other = document.conditions.iter_mut().find(|c| c.kind == stolen.kind && c.port == Some(443)).expect("the other front");
        *other = ConditionStatus {
            port: Some(443),
            addresses: vec!["10.0.0.12".parse().expect("address")],
            since: "1970-01-01T00:00:00.000Z".to_owned(),
            ..stolen
        };
        document
    }

    #[test]
    fn the_same_of_two_fronts_is_one_with_both_addresses_and_the_earlier_time() {
        let document = twice();
        let groups = group_failing(&document);
        let [group] = groups.as_slice() else { panic!("{groups:?}") };
        assert_eq!(group.places, ["80/ipv4", "443/ipv4"]);
        assert_eq!(group.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.11", "10.0.0.12"]);
        assert_eq!(group.since, "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn another_thief_or_all_addresses_is_told_apart() {
        let index = |document: &StatusDocument| document.conditions.iter().position(|c| c.port == Some(443) && c.reason.is_some());
        let mut document = twice();
        let other = index(&document).expect("the other front");
        document.conditions[other].evidence.insert("thief".to_owned(), "nginx".to_owned());
        assert_eq!(group_failing(&document).len(), 2);
        let mut document = twice();
        document.conditions[other].addresses.clear();
        assert_eq!(group_failing(&document).len(), 2);
    }
}
