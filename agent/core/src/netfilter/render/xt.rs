//! Matches and targets of iptables, in its own words; in a table of nf_tables with nft's `xt` ahead.

use super::value::{masked, protocol};
use crate::netfilter::xt::{Conntrack, Interface, NatRange, Ports, Tcp, XtEntry, XtMatch, XtTarget};
use crate::render::text::sanitise;

fn not(inverted: bool) -> &'static str {
    if inverted { "! " } else { "" }
}

fn ports(name: &str, ports: Ports) -> Option<String> {
    let any = ports.first == 0 && ports.last == u16::MAX && !ports.inverted;
    let range = if ports.first == ports.last { ports.first.to_string() } else { format!("{}:{}", ports.first, ports.last) };
    (!any).then(|| format!("{}--{name} {range}", not(ports.inverted)))
}

fn interface(option: &str, interface: &Interface) -> String {
    format!("{}{option} {}{}", not(interface.inverted), sanitise(&interface.name), if interface.prefix { "+" } else { "" })
}

/// What a legacy entry itself matches.
pub(super) fn render_entry(entry: &XtEntry) -> String {
    let parts = [
        entry.source.map(|source| format!("{}-s {}", not(source.inverted), masked(source.address, source.mask))),
        entry.destination.map(|target| format!("{}-d {}", not(target.inverted), masked(target.address, target.mask))),
        entry.input.as_ref().map(|input| interface("-i", input)),
        entry.output.as_ref().map(|output| interface("-o", output)),
        entry.protocol.map(|(number, inverted)| format!("{}-p {}", not(inverted), protocol(u64::from(number)))),
        entry.fragment.map(|inverted| format!("{}-f", not(inverted))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A match.
pub(super) fn render_match(matched: &XtMatch, legacy: bool) -> String {
    let (name, options) = match matched {
        XtMatch::Comment(text) => return if legacy { "-m" } else { "xt match" }.to_owned() + &format!(" comment \"{}\"", sanitise(text)),
        XtMatch::Tcp(tcp) => ("tcp", tcp_options(tcp)),
        XtMatch::Udp => ("udp", String::new()),
        XtMatch::Multiport { source, destination, ports, inverted } => {
            let option = match (source, destination) {
                (true, true) => "ports",
                (true, false) => "sports",
                _ => "dports",
            };
            let list: Vec<String> =
                ports.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}:{last}") }).collect();
            ("multiport", format!("{}--{option} {}", not(*inverted), list.join(",")))
        }
        XtMatch::Addrtype { source, destination, source_inverted, destination_inverted, .. } => {
            let side = |name: &str, mask: u16, inverted: bool| {
                (mask != 0)
                    .then(|| format!("{}--{name}-type {}", not(inverted), if mask == 4 { "LOCAL".into() } else { format!("{mask:#x}") }))
            };
            let both = [side("src", *source, *source_inverted), side("dst", *destination, *destination_inverted)];
            ("addrtype", both.into_iter().flatten().collect::<Vec<_>>().join(" "))
        }
        XtMatch::Mark { value, mask, inverted } => ("mark", format!("{}--mark {value:#x}/{mask:#x}", not(*inverted))),
        XtMatch::Connmark { value, mask, inverted } => ("connmark", format!("{}--mark {value:#x}/{mask:#x}", not(*inverted))),
        XtMatch::Conntrack(conntrack) => ("conntrack", conntrack_options(conntrack)),
        XtMatch::State { mask } => ("state", format!("--state {}", states(u32::from(u16::try_from(*mask).unwrap_or(0)), 64))),
        XtMatch::Socket { flags } => ("socket", if flags & 1 != 0 { "--transparent".to_owned() } else { String::new() }),
        XtMatch::Set { index, sources, inverted } => {
            let dims: Vec<&str> = sources.iter().map(|source| if *source { "src" } else { "dst" }).collect();
            ("set", format!("{}--match-set {index} {}", not(*inverted), dims.join(",")))
        }
        XtMatch::Iprange { source, destination } => {
            let side = |name: &str, range: &Option<(std::net::IpAddr, std::net::IpAddr, bool)>| {
                range.map(|(first, last, inverted)| format!("{}--{name}-range {first}-{last}", not(inverted)))
            };
            let both = [side("src", source), side("dst", destination)];
            ("iprange", both.into_iter().flatten().collect::<Vec<_>>().join(" "))
        }
        XtMatch::Unknown { name, .. } => (name.as_str(), String::new()),
    };
    let ahead = if legacy { "-m" } else { "xt match" };
    format!("{ahead} {} {options}", sanitise(name)).trim_end().to_owned()
}

fn tcp_options(tcp: &Tcp) -> String {
    let flags =
        (tcp.flags_mask != 0).then(|| format!("{}--tcp-flags {:#x}/{:#x}", not(tcp.flags_inverted), tcp.flags_value, tcp.flags_mask));
    [ports("sport", tcp.source), ports("dport", tcp.destination), flags].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn states(mask: u32, untracked: u32) -> String {
    let names = [(1, "INVALID"), (2, "ESTABLISHED"), (4, "RELATED"), (8, "NEW"), (untracked, "UNTRACKED")];
    let mut set: Vec<&str> = names.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| *name).collect();
    if untracked != 64 {
        set.extend([(64, "SNAT"), (128, "DNAT")].iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| *name));
    }
    set.join(",")
}

fn conntrack_options(conntrack: &Conntrack) -> String {
    let asked = |flag: u16| conntrack.match_flags & flag != 0;
    let inverted = |flag: u16| not(conntrack.invert_flags & flag != 0);
    let parts = [
        asked(1).then(|| format!("{}--ctstate {}", inverted(1), states(u32::from(conntrack.state_mask), 256))),
        conntrack.original_destination.map(|(address, mask)| format!("{}--ctorigdst {}", inverted(8), masked(address, mask))),
        conntrack.original_destination_port.map(|(first, last)| {
            let range = if first == last { first.to_string() } else { format!("{first}:{last}") };
            format!("{}--ctorigdstport {range}", inverted(1 << 9))
        }),
        asked(64).then(|| format!("{}--ctstatus {:#x}", inverted(64), conntrack.status_mask)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn range(range: &NatRange) -> String {
    let addresses =
        range.addresses.map_or_else(String::new, |(min, max)| if min == max { min.to_string() } else { format!("{min}-{max}") });
    let ports = range.ports.map(|(min, max)| if min == max { min.to_string() } else { format!("{min}-{max}") });
    let six = range.addresses.is_some_and(|(min, _)| min.is_ipv6());
    match ports {
        Some(ports) if six => format!("[{addresses}]:{ports}"),
        Some(ports) => format!("{addresses}:{ports}"),
        None => addresses,
    }
}

/// A target.
pub(super) fn render_target(target: &XtTarget, legacy: bool) -> String {
    let (name, options) = match target {
        XtTarget::Dnat(to) => ("DNAT", format!("--to-destination {}", range(to))),
        XtTarget::Redirect(to) => {
            let ports = to.ports.map(|(min, max)| if min == max { min.to_string() } else { format!("{min}-{max}") });
            ("REDIRECT", ports.map_or_else(String::new, |ports| format!("--to-ports {ports}")))
        }
        XtTarget::Netmap(to) => ("NETMAP", format!("--to {}", range(to))),
        XtTarget::Snat { name } => (name.as_str(), String::new()),
        XtTarget::Tproxy { address, port, mark_mask, mark_value } => {
            ("TPROXY", format!("--on-port {port} --on-ip {address} --tproxy-mark {mark_value:#x}/{mark_mask:#x}"))
        }
        XtTarget::Mark { value, mask } => ("MARK", format!("--set-xmark {value:#x}/{mask:#x}")),
        XtTarget::Connmark { ctmark, ctmask, mode, .. } => match mode {
            1 => ("CONNMARK", "--save-mark".to_owned()),
            2 => ("CONNMARK", "--restore-mark".to_owned()),
            _ => ("CONNMARK", format!("--set-xmark {ctmark:#x}/{ctmask:#x}")),
        },
        XtTarget::Ct { notrack: true, .. } => ("CT", "--notrack".to_owned()),
        XtTarget::Ct { helper, .. } => ("CT", if helper.is_empty() { String::new() } else { format!("--helper {}", sanitise(helper)) }),
        XtTarget::Notrack => ("NOTRACK", String::new()),
        XtTarget::Reject { .. } => ("REJECT", String::new()),
        XtTarget::Log { prefix } => ("LOG", format!("--log-prefix \"{}\"", sanitise(prefix))),
        XtTarget::Unknown { name, .. } => (name.as_str(), String::new()),
    };
    let ahead = if legacy { "-j" } else { "xt target" };
    format!("{ahead} {} {options}", sanitise(name)).trim_end().to_owned()
}
