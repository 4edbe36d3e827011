//! The reader of netfilter's rules against rule sets that real tools loaded: nothing is lost on the way into the model.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use gwready::observe::netfilter::read_ruleset;
use gwready_core::netfilter::expr::Expr;
use gwready_core::netfilter::ruleset::Ruleset;
use gwready_core::netfilter::xt::{XtMatch, XtTarget};
use gwready_tests::Space;
use gwready_tests::netfilter::Tool;

fn read(space: &Space) -> Ruleset {
    space.enter(|| Ok(read_ruleset()?)).unwrap()
}

/// Names of all that the decoders do not know, with how often.
fn unknown(ruleset: &Ruleset) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for expr in ruleset.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules).flat_map(|rule| &rule.exprs) {
        let name = match expr {
            Expr::Unknown { name } | Expr::Match(XtMatch::Unknown { name, .. }) | Expr::Target(XtTarget::Unknown { name, .. }) => name,
            _ => continue,
        };
        *names.entry(name.clone()).or_insert(0) += 1;
    }
    names
}

#[test]
fn an_empty_namespace_has_no_rules() {
    let space = Space::new("empty").unwrap();
    assert_eq!(read(&space), Ruleset::default());
}

#[test]
fn dump_them() {
    for (tool, text) in [
        (Tool::Nft, include_str!("../netfilter/portmap.nft")),
        (Tool::Nft, include_str!("../netfilter/kube-proxy.nft")),
        (Tool::Nft, include_str!("../netfilter/firewalld.nft")),
        (Tool::IptablesNft, include_str!("../netfilter/cilium.rules")),
        (Tool::IptablesLegacy, include_str!("../netfilter/cilium.rules")),
        (Tool::IptablesNft, include_str!("../netfilter/kube-proxy.rules")),
        (Tool::IptablesLegacy, include_str!("../netfilter/kube-proxy.rules")),
        (Tool::IptablesLegacy, include_str!("../netfilter/docker.rules")),
        (Tool::IptablesLegacy, include_str!("../netfilter/portmap.rules")),
        (Tool::IptablesLegacy, include_str!("../netfilter/ufw.rules")),
    ] {
        let space = Space::new("rules").unwrap();
        tool.load(&space, text).unwrap();
        let ruleset = read(&space);
        println!("{tool:?} {:?}", unknown(&ruleset));
        println!("{ruleset:#?}");
    }
}
