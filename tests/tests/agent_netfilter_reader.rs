//! The reader of netfilter's rules against rule sets that real tools loaded: nothing is lost on the way into the model, a rule set that
//! changes is never half read, and real messages that are cut or changed give a value or an error.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gwready::observe::netfilter::{NetfilterError, read_ruleset};
use gwready::observe::netlink::{Exchange, Protocol};
use gwready_core::decode::nft::wire::{GET_CHAIN, GET_RULE, GET_SET, GET_TABLE, encode_request};
use gwready_core::decode::nft::{decode_chain, decode_rule, decode_set, decode_table};
use gwready_core::facts::Why;
use gwready_core::netfilter::expr::Expr;
use gwready_core::netfilter::ruleset::{Hook, Ruleset, Table};
use gwready_core::netfilter::xt::{XtMatch, XtTarget};
use gwready_tests::Space;
use gwready_tests::netfilter::Tool;
use gwready_tests::netfilter::random::Random;
use serde_json::Value;

const NFT: [(&str, &str); 3] = [
    ("portmap", include_str!("../netfilter/portmap.nft")),
    ("kube-proxy", include_str!("../netfilter/kube-proxy.nft")),
    ("firewalld", include_str!("../netfilter/firewalld.nft")),
];
const IPTABLES: [(&str, &str); 5] = [
    ("portmap", include_str!("../netfilter/portmap.rules")),
    ("kube-proxy", include_str!("../netfilter/kube-proxy.rules")),
    ("docker", include_str!("../netfilter/docker.rules")),
    ("ufw", include_str!("../netfilter/ufw.rules")),
    ("cilium", include_str!("../netfilter/cilium.rules")),
];

fn loaded(tool: Tool, rules: &str) -> Space {
    let space = Space::new("rules").unwrap();
    tool.load(&space, rules).unwrap();
    space
}

fn read(space: &Space) -> Ruleset {
    space.enter(|| Ok(read_ruleset()?)).unwrap()
}

/// Names of all that the decoders do not know.
fn unknown(ruleset: &Ruleset) -> BTreeSet<String> {
    let exprs = ruleset.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules).flat_map(|rule| &rule.exprs);
    let name = |expr: &Expr| match expr {
        Expr::Unknown { name } | Expr::Match(XtMatch::Unknown { name, .. }) | Expr::Target(XtTarget::Unknown { name, .. }) => {
            Some(name.clone())
        }
        _ => None,
    };
    exprs.filter_map(name).collect()
}

/// Handles of the rules of each chain of the tables on the way in, by family, table and chain.
fn handles(ruleset: &Ruleset) -> BTreeMap<String, Vec<u64>> {
    let mut found = BTreeMap::new();
    for table in &ruleset.tables {
        for chain in &table.chains {
            let at = format!("{} {} {}", table.family.as_str(), table.name, chain.name);
            found.insert(at, chain.rules.iter().map(|rule| rule.handle).collect());
        }
    }
    found
}

/// The same as nft shows it, of the same tables.
fn handles_by_nft(space: &Space, tables: &[Table]) -> BTreeMap<String, Vec<u64>> {
    let listing: Value = serde_json::from_str(&space.output("nft", &["-j", "-a", "list", "ruleset"]).unwrap()).unwrap();
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let ours = |value: &Value| tables.iter().any(|table| table.name == value["table"] && table.family.as_str() == value["family"]);
    for object in listing["nftables"].as_array().unwrap() {
        if let Some(chain) = object.get("chain").filter(|chain| ours(chain)) {
            found.entry(format!("{} {} {}", text(chain, "family"), text(chain, "table"), text(chain, "name"))).or_default();
        }
        if let Some(rule) = object.get("rule").filter(|rule| ours(rule)) {
            let at = format!("{} {} {}", text(rule, "family"), text(rule, "table"), text(rule, "chain"));
            found.entry(at).or_default().push(rule["handle"].as_u64().unwrap());
        }
    }
    found
}

#[test]
fn an_empty_namespace_has_no_rules_and_gets_no_table_by_being_read() {
    let space = Space::new("empty").unwrap();
    assert_eq!(read(&space), Ruleset::default());
    for names in ["ip_tables_names", "ip6_tables_names"] {
        let tables = space.enter(|| Ok(std::fs::read_to_string(format!("/proc/thread-self/net/{names}")).unwrap_or_default())).unwrap();
        assert_eq!(tables, "", "{names}");
    }
}

#[test]
fn every_rule_that_nft_shows_is_read_with_its_handle_and_in_its_order() {
    let nft = NFT.map(|(name, rules)| (name, Tool::Nft, rules));
    let iptables = IPTABLES.map(|(name, rules)| (name, Tool::IptablesNft, rules));
    for (name, tool, rules) in nft.into_iter().chain(iptables) {
        let space = loaded(tool, rules);
        let ruleset = read(&space);
        assert_eq!(handles(&ruleset), handles_by_nft(&space, &ruleset.tables), "{name} by {tool:?}");
        assert!(ruleset.tables.iter().any(|table| !table.chains.is_empty()), "{name} by {tool:?}");
    }
}

/// Rules of each chain of the tables raw, mangle, nat and filter as `iptables-save` shows them; chains on the way in and those of users.
fn counts_by_iptables(space: &Space) -> BTreeMap<String, usize> {
    let text = space.output("iptables-legacy-save", &[]).unwrap();
    let mut found = BTreeMap::new();
    let mut table = "";
    for line in text.lines() {
        let word = |number: usize| line.split(' ').nth(number).unwrap_or_default();
        match line.chars().next() {
            Some('*') => table = &line[1..],
            Some(':') => {
                found.insert(format!("{table} {}", &word(0)[1..]), 0);
            }
            Some('-') => *found.entry(format!("{table} {}", word(1))).or_insert(0) += 1,
            _ => {}
        }
    }
    let elsewhere = ["FORWARD", "OUTPUT", "POSTROUTING"];
    found.retain(|at, _| !elsewhere.iter().any(|chain| at.ends_with(&format!(" {chain}"))));
    found
}

#[test]
fn every_rule_of_legacy_iptables_is_read() {
    for (name, rules) in IPTABLES {
        let space = loaded(Tool::IptablesLegacy, rules);
        let ruleset = read(&space);
        let counted: BTreeMap<String, usize> = ruleset
            .tables
            .iter()
            .flat_map(|table| table.chains.iter().map(move |chain| (format!("{} {}", table.name, chain.name), chain.rules.len())))
            .collect();
        assert_eq!(counted, counts_by_iptables(&space), "{name}");
        assert!(ruleset.tables.iter().all(|table| table.legacy), "{name}");
    }
}

#[test]
fn what_is_not_known_is_named_and_is_little() {
    for (name, rules) in NFT {
        assert_eq!(unknown(&read(&loaded(Tool::Nft, rules))), BTreeSet::new(), "{name}");
    }
    let expected = |name| match name {
        "kube-proxy" => BTreeSet::from(["statistic".to_owned()]),
        "ufw" => ["icmp", "limit", "recent"].map(str::to_owned).into(),
        _ => BTreeSet::new(),
    };
    for (name, rules) in IPTABLES {
        assert_eq!(unknown(&read(&loaded(Tool::IptablesLegacy, rules))), expected(name), "{name} by legacy iptables");
        // What iptables-nft translates itself is known then.
        let by_nft = unknown(&read(&loaded(Tool::IptablesNft, rules)));
        assert!(by_nft.is_subset(&expected(name)), "{name} by iptables-nft: {by_nft:?}");
    }
}

#[test]
fn sets_and_maps_come_with_the_elements_that_rules_look_up() {
    let ruleset = read(&loaded(Tool::Nft, NFT[1].1));
    let sets = &ruleset.tables[0].sets;
    let elements = |name: &str| sets.iter().find(|set| set.name == name).unwrap_or_else(|| panic!("no {name}")).elements.len();
    assert_eq!((elements("service-ips"), elements("nodeport-ips"), elements("no-endpoint-services")), (2, 2, 1));
    let concatenated = sets.iter().find(|set| set.name == "service-ips").unwrap();
    assert!(concatenated.flags.map && concatenated.elements.iter().all(|element| element.data.is_some() && element.key.len() == 12));
}

#[test]
fn tables_that_are_not_on_the_way_in_are_left_out() {
    let space = loaded(
        Tool::Nft,
        "table ip away { chain c { type nat hook postrouting priority 100; masquerade; }; }\n\
         table bridge b { chain c { type filter hook input priority 0; drop; }; }\n\
         table netdev n { chain c { type filter hook ingress device lo priority 0; drop; }; }\n",
    );
    let ruleset = read(&space);
    assert_eq!(ruleset.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["n"]);
    let base = ruleset.tables[0].chains[0].base.as_ref().unwrap();
    assert_eq!((base.hook, base.devices.as_slice()), (Hook::Ingress, &["lo".to_owned()][..]));
}

/// Two generations alternate as fast as nft can; every reading is one of them, whole, or says that it was disturbed.
#[test]
fn a_rule_set_that_changes_is_read_whole_or_not_at_all() {
    let space = loaded(Tool::Nft, &generation("a", 300));
    let ends = AtomicBool::new(false);
    let readings = std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                for name in ["b", "a"] {
                    Tool::Nft.load(&space, &("flush ruleset\n".to_owned() + &generation(name, 300)))?;
                }
            }
            anyhow::Ok(())
        });
        let readings: Vec<Result<String, NetfilterError>> =
            (0..150).map(|_| space.enter(|| Ok(read_ruleset())).unwrap().map(|ruleset| shape(&ruleset))).collect();
        ends.store(true, Ordering::Relaxed);
        changing.join().unwrap().unwrap();
        readings
    });
    let whole = readings.iter().filter(|reading| matches!(reading, Ok(shape) if shape == "a 300 300" || shape == "b 300 300")).count();
    let disturbed = readings.iter().filter(|reading| matches!(reading, Err(error) if error.why() == Why::Interrupted)).count();
    println!("{whole} whole readings, {disturbed} disturbed");
    assert!(whole > 0 && whole + disturbed == readings.len(), "{readings:#?}");
}

/// Names of the tables, with the number of their rules and of the elements of their sets.
fn shape(ruleset: &Ruleset) -> String {
    let of = |table: &Table| {
        let rules: usize = table.chains.iter().map(|chain| chain.rules.len()).sum();
        let elements: usize = table.sets.iter().map(|set| set.elements.len()).sum();
        format!("{} {rules} {elements}", table.name)
    };
    ruleset.tables.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// A table with so many rules, and a set with so many elements.
fn generation(name: &str, count: usize) -> String {
    let rules: String = (0..count).map(|number| format!("\t\ttcp dport {} counter\n", number + 1)).collect();
    let elements: Vec<String> = (0..count).map(|number| (1 + 2 * number).to_string()).collect();
    format!(
        "table inet {name} {{\n\tset s {{\n\t\ttype inet_service\n\t\telements = {{ {} }}\n\t}}\n\
         \tchain c {{\n\t\ttype filter hook input priority 0;\n{}\t\ttcp dport @s counter\n\t}}\n}}\n",
        elements.join(", "),
        rules.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    )
}

/// Every message of a dump, as it came.
fn messages(space: &Space, request: u16) -> Vec<Vec<u8>> {
    space
        .enter(|| {
            let mut exchange = Exchange::open(Protocol::Netfilter, Duration::from_secs(5))?;
            Ok(exchange.dump(request, &encode_request(0, &[]), |_, body| Ok::<_, Infallible>(Some(body.to_vec())))?.items)
        })
        .unwrap()
}

#[test]
fn real_messages_that_are_cut_or_changed_give_a_value_or_an_error() {
    let mut random = Random::new(1);
    let mut tried = 0;
    for (tool, rules) in NFT.map(|(_, rules)| (Tool::Nft, rules)).into_iter().chain(IPTABLES.map(|(_, rules)| (Tool::IptablesNft, rules))) {
        let space = loaded(tool, rules);
        for request in [GET_TABLE, GET_CHAIN, GET_RULE, GET_SET] {
            for message in messages(&space, request) {
                for _ in 0..20 {
                    let mut body = message.clone();
                    let at = random.below(body.len());
                    body[at] = u8::try_from(random.below(256)).unwrap();
                    body.truncate(random.below(body.len() * 2).max(1));
                    let _ = (decode_table(&body), decode_chain(&body), decode_rule(&body), decode_set(&body));
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 2000, "{tried}");
}
