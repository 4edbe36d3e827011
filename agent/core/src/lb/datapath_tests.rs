//! Single steps of the rule, and its totality. The whole of it is held against the golden cases in `tests/datapath_golden.rs`.

use proptest::prelude::*;

use super::*;
use crate::lb::facts::LbTable;
use crate::lb::local::LocalEndpoint;
use crate::lb::source_range::SourceRange;

fn here() -> Endpoint {
    Endpoint { address: IpAddr::from([10, 0, 0, 1]), port: 80 }
}

fn pod() -> IpAddr {
    IpAddr::from([10, 244, 1, 113])
}

fn row(flags: u8, flags2: u8, count: u16) -> Service {
    Service { union: [0; 4], count, rev_nat: 7, flags, flags2, quarantined: 0 }
}

/// A master with its slots; backend ids are the slot numbers.
fn table(master: Service, backends: &[(IpAddr, u16)]) -> LbTable {
    let mut table = LbTable::default();
    let key = ServiceKey::master(here().address, here().port, 6);
    table.services.insert(key, master);
    for (slot, (address, port)) in (1..).zip(backends) {
        table.services.insert(key.with_slot(slot), Service { union: u32::from(slot).to_ne_bytes(), ..row(master.flags, 0, 0) });
        table.backends.insert(u32::from(slot), Backend { address: *address, port: *port, protocol: 6, state: 0 });
    }
    table.endpoints.insert(pod(), LocalEndpoint { id: 9, host: false, pod: None });
    table
}

#[test]
fn one_of_two_backends_being_the_listener_is_a_share() {
    let rows = table(row(0x60, 0, 3), &[(pod(), 8080), (here().address, 80), (pod(), 8080)]);
    let to = Endpoint { address: pod(), port: 8080 };
    assert_eq!(
        outcome(&rows, &Settings::default(), &Packet::syn(here())),
        Outcome::Share { of: vec![(Outcome::Dnat { to }, 2), (Outcome::Pass(Passage::BackendIsDestination), 1)] }
    );
}

#[test]
fn ranges_make_the_outcome_depend_on_the_client() {
    let mut rows = table(row(0xe0, 0, 1), &[(pod(), 8080)]);
    let any = Packet::syn(here());
    let decision = decide(&rows, &Settings::default(), &any, None);
    assert_eq!(decision.outcome, Outcome::Drop { code: DROP_NOT_IN_SRC_RANGE }, "no range at all: nobody is let in");
    rows.source_ranges.push(SourceRange { rev_nat: 7, network: IpAddr::from([192, 0, 2, 0]), prefix: 24 });
    assert_eq!(decide(&rows, &Settings::default(), &any, None).source_ranges, SourceRanges::ByClient);
    rows.source_ranges[0].prefix = 0;
    assert_eq!(decide(&rows, &Settings::default(), &any, None).source_ranges, SourceRanges::Decided, "a range of everyone");
    rows.source_ranges[0].prefix = 24;
    let outside = Packet { source: Some(IpAddr::from([203, 0, 113, 1])), ..any };
    assert_eq!(outcome(&rows, &Settings::default(), &outside), Outcome::Drop { code: DROP_NOT_IN_SRC_RANGE });
    rows.source_ranges[0].rev_nat = 8;
    let inside = Packet { source: Some(IpAddr::from([192, 0, 2, 1])), ..any };
    assert_eq!(outcome(&rows, &Settings::default(), &inside), Outcome::Drop { code: DROP_NOT_IN_SRC_RANGE }, "another service's range");
}

#[test]
fn a_known_flow_keeps_a_leaving_backend_until_it_opens_anew() {
    let mut rows = table(row(0x60, 0, 0), &[]);
    rows.backends.insert(2, Backend { address: pod(), port: 8080, protocol: 6, state: 1 });
    let flow = Some(Flow { backend_id: 2 });
    let data = Packet { syn: false, ..Packet::syn(here()) };
    assert_eq!(decide(&rows, &Settings::default(), &data, flow).outcome, Outcome::Dnat { to: Endpoint { address: pod(), port: 8080 } });
    assert_eq!(decide(&rows, &Settings::default(), &Packet::syn(here()), flow).outcome, Outcome::Reject);
    rows.backends.clear();
    assert_eq!(decide(&rows, &Settings::default(), &data, flow).outcome, Outcome::Reject);
}

#[test]
fn packets_of_a_service_without_backends_may_be_configured_to_pass() {
    let passing = Settings { no_endpoints_routable: false, ..Settings::default() };
    let of = |flags, flags2, settings: &Settings| outcome(&table(row(flags, flags2, 0), &[]), settings, &Packet::syn(here()));
    assert_eq!(of(0x60, 0, &passing), Outcome::Pass(Passage::NoEndpoints));
    assert_eq!(of(0x64, 0, &passing), Outcome::Drop { code: DROP_NO_SERVICE });
    assert_eq!(of(0x48, 0x10, &passing), Outcome::Drop { code: DROP_NO_SERVICE });
    assert_eq!(of(0x60, 0x10, &passing), Outcome::Pass(Passage::NoEndpoints));
    assert_eq!(of(0x60, 0, &Settings { generation: Generation::V1_18, ..passing }), Outcome::Reject, "the option is new in 1.19");
    assert_eq!(of(0x60, 0, &Settings { reject_without_backend: false, ..Settings::default() }), Outcome::Drop { code: DROP_NO_SERVICE });
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let generation = prop_oneof![Just(Generation::V1_16), Just(Generation::V1_17), Just(Generation::V1_18), Just(Generation::V1_19)];
    (generation, any::<[bool; 3]>()).prop_map(|(generation, [a, b, c])| Settings {
        generation,
        protocol_differentiation: a,
        reject_without_backend: b,
        no_endpoints_routable: c,
    })
}

proptest! {
    #[test]
    fn any_rows_and_any_packet_have_an_outcome(
        settings in any_settings(),
        masters in prop::collection::vec((0_u8..2, any::<[u8; 12]>()), 0..4),
        slots in prop::collection::vec((1_u16..4, any::<[u8; 12]>()), 0..4),
        backends in prop::collection::vec((0_u32..8, any::<[u8; 12]>()), 0..4),
        client in any::<Option<[u8; 4]>>(),
        protocol in prop_oneof![Just(6_u8), Just(17), any::<u8>()],
        flow in prop::option::of(0_u32..8),
    ) {
        let mut table = LbTable::default();
        for (kind, value) in masters {
            let key = ServiceKey::master(here().address, here().port, kind * 6);
            // Slots beyond a few would only make the case slow.
            let mut service = Service::decode(&value);
            service.count %= 16;
            table.services.insert(key, service);
            for (slot, value) in &slots {
                let mut service = Service::decode(value);
                service.union = u32::from(value[0] % 8).to_ne_bytes();
                table.services.insert(key.with_slot(*slot), service);
            }
        }
        table.backends.extend(backends.into_iter().map(|(id, value)| (id, Backend::decode_v4(&value))));
        let packet = Packet { source: client.map(IpAddr::from), destination: here(), protocol, syn: true };
        let decision = decide(&table, &settings, &packet, flow.map(|backend_id| Flow { backend_id }));
        prop_assert_eq!(decision.row.is_none(), decision.outcome == Outcome::Pass(Passage::NoRow));
        if let Outcome::Share { of } = decision.outcome {
            prop_assert!(of.len() > 1, "a share has several outcomes");
        }
    }
}
