//! Targets of iptables.

use super::bits::{Doubt, Match, Word};
use super::load;
use super::nat::{self, Change, Ports};
use super::rule::Step;
use super::state::{Address, End, Stage, State, Taken, Target};
use super::walk::{At, Walk};
use super::worlds::Worlds;
use crate::netfilter::ruleset::Hook;
use crate::netfilter::xt::{NatRange, XtTarget};

/// Targets that look at the packet, or at nothing that matters on its way in, and let it go on (`XT_CONTINUE`).
const GO_ON: [&str; 21] = [
    "LOG",
    "NFLOG",
    "ULOG",
    "TRACE",
    "SET",
    "TCPMSS",
    "TCPOPTSTRIP",
    "CLASSIFY",
    "CONNSECMARK",
    "SECMARK",
    "AUDIT",
    "LED",
    "TTL",
    "HL",
    "DSCP",
    "TOS",
    "ECN",
    "CHECKSUM",
    "RATEEST",
    "IDLETIMER",
    "TEE",
];
/// Targets that keep the packet from every socket (xtables-addons).
const KEEP: [&str; 3] = ["TARPIT", "DELUDE", "STEAL"];
/// Bits that Cilium sets for its proxies (`pkg/datapath/linux/linux_defaults/mark.go`).
const TO_PROXY: u32 = 0x200;

impl<'a> Walk<'_, 'a> {
    pub(super) fn xt_target(&mut self, at: At<'a>, number: usize, target: &XtTarget, state: &mut State) -> Step<'a> {
        let accepted = |state: &State| Worlds::at(Stage::Accepted, state.clone());
        match target {
            XtTarget::Dnat(range) => {
                let change = Change { address: addresses(range), ports: ports(range), random: nat::is_random(range.flags) };
                Step::Done(self.translate(at, number, &change, state))
            }
            XtTarget::Redirect(range) => {
                let change =
                    Change { address: nat::redirect_address(&self.packet), ports: ports(range), random: nat::is_random(range.flags) };
                Step::Done(self.translate(at, number, &change, state))
            }
            XtTarget::Netmap(range) => {
                let address = range.addresses.map(|(min, max)| nat::netmap(state, min, max));
                Step::Done(self.translate(at, number, &Change { address, ports: Ports::Kept, random: false }, state))
            }
            XtTarget::Snat { .. } => Step::Done(accepted(state)),
            XtTarget::Tproxy { address, port, mark_mask, mark_value } => {
                state.mark = state.mark.blend(Word::known(0), *mark_mask).xor(Word::known(*mark_value));
                let own = self.packet.connection.destination;
                let same_port = *port == 0 || *port == own.port;
                let same_socket = same_port && (address.is_unspecified() || *address == own.address.to_canonical());
                if !same_socket && !self.is_ciliums(at, *mark_value) {
                    let shown = if address.is_unspecified() { Address::Local } else { Address::Range(*address, *address) };
                    let port = if *port == 0 { own.port } else { *port };
                    let to = Target { address: shown, ports: Some((port, port)), proxy: true };
                    state.taken = Some(Taken { site: at.site, to });
                }
                Step::Done(accepted(state))
            }
            XtTarget::Mark { value, mask } => {
                state.mark = state.mark.blend(Word::known(0), *mask).xor(Word::known(*value));
                Step::Go(Match::Yes)
            }
            XtTarget::Connmark { ctmark, ctmask, nfmask, mode } => {
                if load::is_tracked(at.base.chain, state) != Match::No {
                    connmark(state, (*ctmark, *ctmask, *nfmask), *mode);
                }
                Step::Go(Match::Yes)
            }
            XtTarget::Ct { notrack: true, .. } | XtTarget::Notrack => {
                state.untracked |= at.base.chain.hook == Hook::Prerouting && at.base.chain.priority < -200;
                Step::Go(Match::Yes)
            }
            XtTarget::Ct { .. } | XtTarget::Log { .. } => Step::Go(Match::Yes),
            XtTarget::Reject { .. } => Step::Done(Worlds::end(End::Dropped(at.site))),
            XtTarget::Unknown { name, .. } if GO_ON.contains(&name.as_str()) => Step::Go(Match::Yes),
            XtTarget::Unknown { name, .. } if KEEP.contains(&name.as_str()) => Step::Done(Worlds::end(End::Dropped(at.site))),
            // It may go on, accept or end the packet, and mark it.
            XtTarget::Unknown { .. } => {
                state.mark = Word::unknown(Doubt::Undecided);
                let live = Worlds::at(Stage::Live, state.clone());
                let ends = Self::either(at.site, number, accepted(state), &Worlds::end(End::Dropped(at.site)));
                Step::Done(Self::either(at.site, number, live, &ends))
            }
        }
    }

    /// Cilium's own rule: in its chain, or in the same while it is replaced (`pkg/datapath/iptables/iptables.go`).
    fn is_ciliums(&self, at: At<'a>, mark: u32) -> bool {
        let chain = self.follower.chain(at.site.table, at.site.chain).map_or("", |chain| chain.name.as_str());
        mark & 0xf00 == TO_PROXY && chain.strip_prefix("OLD_").unwrap_or(chain) == "CILIUM_PRE_mangle"
    }
}

/// `connmark_tg` (`net/netfilter/xt_connmark.c`).
fn connmark(state: &mut State, (ctmark, ctmask, nfmask): (u32, u32, u32), mode: u8) {
    match mode {
        0 => state.ct_mark = state.ct_mark.blend(Word::known(0), ctmask).xor(Word::known(ctmark)),
        1 => state.ct_mark = state.ct_mark.blend(Word::known(0), ctmask).xor(Word::known(0).blend(state.mark, nfmask)),
        2 => state.mark = state.mark.blend(Word::known(0), nfmask).xor(Word::known(0).blend(state.ct_mark, ctmask)),
        _ => (state.mark, state.ct_mark) = (Word::unknown(Doubt::Undecided), Word::unknown(Doubt::Undecided)),
    }
}

fn addresses(range: &NatRange) -> Option<Address> {
    range.addresses.map(|(min, max)| Address::Range(min, max))
}

fn ports(range: &NatRange) -> Ports {
    range.ports.map_or(Ports::Kept, |(min, max)| Ports::Range(min, max))
}
