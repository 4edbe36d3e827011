//! Random rule sets: what is foretold of every endpoint is what a neighbour's connection meets. The seed is printed; `XTASK_SEED` gives
//! another one, `XTASK_RULE_SETS` more or fewer sets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use gwready_core::facts::steering::NetfilterPath;
use gwready_tests::netfilter::fate::Fate;
use gwready_tests::netfilter::random::{Random, iptables, nft};
use gwready_tests::netfilter::{Seen, Stage, Tool, compare, flush, tally};

/// Sets per kind.
const SETS: u64 = 60;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Compares `SETS` sets; a set that its tool refuses is one that nobody has.
fn compare_many(tool: impl Fn(u64) -> Tool, make: impl Fn(&mut Random, Tool) -> String) {
    let seed = number("XTASK_SEED", 1);
    let sets = number("XTASK_RULE_SETS", SETS);
    let stage = Stage::new().unwrap();
    let mut all: Vec<Seen> = Vec::new();
    let mut refused = 0;
    let mut wrong = Vec::new();
    for number in 0..sets {
        let set_seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
        let tool = tool(number);
        let rules = make(&mut Random::new(set_seed), tool);
        flush(stage.node().space()).unwrap();
        if let Err(error) = tool.load(stage.node().space(), &rules) {
            println!("set {set_seed} is refused: {error:#}");
            refused += 1;
            continue;
        }
        // A tuple that an earlier set had translated may still be known to conntrack: a second connection has another one.
        match compare(&stage).or_else(|_| compare(&stage)) {
            Ok(seen) => all.extend(seen),
            Err(error) => wrong.push(format!("set {set_seed} by {tool:?}:\n{error:#}\n{rules}")),
        }
    }
    let tally = tally(&all);
    println!("seed {seed}: {sets} sets, {refused} refused by their tool, foretold {tally:?}, wrong {}", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused * 4 < sets, "{refused} of {sets} sets were refused");
    let redirected = all.iter().filter(|one| matches!(one.path, NetfilterPath::Redirected { .. }));
    let unanswered = redirected.filter(|one| !matches!(one.fate, Fate::Answered(..))).count();
    assert!(unanswered * 4 < tally["redirected"], "nobody answers {unanswered} of the redirected connections");
    for word in ["passes", "redirected", "dropped"] {
        assert!(tally.get(word).is_some_and(|count| count * 50 > all.len()), "few or no connections are {word}: {tally:?}");
    }
    assert!(tally.get("unclear").copied().unwrap_or(0) * 10 < all.len(), "too much is unclear: {tally:?}");
}

#[test]
fn sets_of_nft_do_what_is_foretold() {
    compare_many(|_| Tool::Nft, |random, _| nft(random));
}

#[test]
fn sets_of_both_kinds_of_iptables_do_what_is_foretold() {
    let tools = [Tool::IptablesLegacy, Tool::Ip6tablesLegacy, Tool::IptablesNft, Tool::Ip6tablesNft];
    let make = |random: &mut Random, tool| iptables(random, matches!(tool, Tool::Ip6tablesNft | Tool::Ip6tablesLegacy));
    compare_many(|number| tools[usize::try_from(number % 4).unwrap()], make);
}
