//! Rule sets of nft.

use super::Random;

/// One table with base chains on the way in, chains that they jump to, sets and maps.
#[must_use]
pub fn nft(random: &mut Random) -> String {
    let family = random.pick(&["ip", "ip6", "inet", "inet"]);
    let mut text = format!("table {family} mixed {{\n{}", sets(random, family));
    // Later chains are jumped to by earlier ones only: no loops.
    for (stem, kind) in [("plain", Kind::Filter), ("nat", Kind::Nat)] {
        for number in (0..2).rev() {
            text += &format!("\tchain {stem}{number} {{\n{}\t}}\n", rules(random, family, kind, stem, number + 1..2));
        }
    }
    for (name, hook, priority, kind) in [
        ("raw", "prerouting", "-300", Kind::Filter),
        ("mangle", "prerouting", "-150", Kind::Mangle),
        ("dstnat", "prerouting", "-100", Kind::Nat),
        ("input", "input", "0", Kind::Filter),
    ] {
        if !random.chance(70) {
            continue;
        }
        let (word, stem) = if kind == Kind::Nat { ("nat", "nat") } else { ("filter", "plain") };
        let policy = if kind == Kind::Filter && random.chance(12) { "drop" } else { "accept" };
        // Only the first packet of a connection is followed: later ones are let through, as nearly everybody's rules do.
        let later = if kind == Kind::Nat || name == "raw" { "" } else { "\t\tct state { established, related } accept\n" };
        text += &format!(
            "\tchain {name} {{\n\t\ttype {word} hook {hook} priority {priority}; policy {policy};\n{later}{}\t}}\n",
            rules(random, family, kind, stem, 0..2)
        );
    }
    text + "}\n"
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Filter,
    Mangle,
    Nat,
}

fn sets(random: &mut Random, family: &str) -> String {
    let ports = random.pick(&["80", "443", "80, 443", "22, 80-90", "1-79, 81-65535"]);
    let mut text = format!(
        "\tset ports {{\n\t\ttype inet_service\n\t\tflags interval\n\t\telements = {{ {ports} }}\n\t}}\n\
         \tset banned {{\n\t\ttype {address}\n\t\tflags interval\n\t\telements = {{ {banned} }}\n\t}}\n",
        address = if family == "ip6" { "ipv6_addr" } else { "ipv4_addr" },
        banned = if family == "ip6" { "2001:db8::/32" } else { "192.0.2.0/24" },
    );
    if family != "ip6" {
        let pairs = random.pick(&["10.77.0.1 . 80", "10.77.0.2 . 443, 10.77.0.1 . 22", "10.77.0.0/24 . 80-443"]);
        text += &format!("\tset pairs {{\n\t\ttype ipv4_addr . inet_service\n\t\tflags interval\n\t\telements = {{ {pairs} }}\n\t}}\n");
    }
    text
}

fn rules(random: &mut Random, family: &str, kind: Kind, stem: &str, jumps: std::ops::Range<usize>) -> String {
    let count = random.below(4);
    (0..count).map(|_| format!("\t\t{}\n", rule(random, family, kind, stem, jumps.clone()))).collect()
}

fn rule(random: &mut Random, family: &str, kind: Kind, stem: &str, jumps: std::ops::Range<usize>) -> String {
    if random.chance(8) {
        return random.pick(&["udp dport 80 drop", "udp dport { 53, 443 } accept"]).to_owned();
    }
    // In a table of both families a rule is of one of them.
    let family = if family == "inet" { random.pick(&["inet4", "inet6"]) } else { family };
    let mut words: Vec<String> = Vec::new();
    for _ in 0..random.below(3) {
        words.push(matching(random, family));
    }
    if random.chance(20) {
        words.push("counter".to_owned());
    }
    words.push(ending(random, family, kind, stem, jumps));
    if random.chance(15) {
        words.push("comment \"by chance\"".to_owned());
    }
    words.join(" ")
}

fn matching(random: &mut Random, family: &str) -> String {
    const BOTH: [&str; 20] = [
        "tcp dport 80",
        "tcp dport 443",
        "tcp dport != 80",
        "tcp dport { 80, 443 }",
        "tcp dport 80-442",
        "tcp dport @ports",
        "tcp dport != @ports",
        "th dport 443",
        "meta l4proto tcp",
        "meta l4proto { tcp, udp }",
        "iifname \"eth0\"",
        "iifname \"lo\"",
        "iifname != \"eth*\"",
        "ct state new",
        "ct state invalid",
        "fib daddr type local",
        "fib daddr . iif type local",
        "meta mark 0x0",
        "meta mark & 0xf00 == 0x200",
        "tcp sport > 1023",
    ];
    const V4: [&str; 8] = [
        "ip daddr 10.77.0.1",
        "ip daddr != 10.77.0.1",
        "ip daddr 10.77.0.0/24",
        "ip saddr 10.77.0.100",
        "ip saddr 192.0.2.0/24",
        "ip saddr @banned",
        "ip daddr . tcp dport @pairs",
        "ip protocol tcp",
    ];
    const V6: [&str; 4] = ["ip6 daddr fd00:77::1", "ip6 daddr != fd00:77::1", "ip6 saddr fd00:77::/64", "ip6 nexthdr tcp"];
    const OFTEN: usize = 55;
    if random.chance(OFTEN) {
        return random.pick(&BOTH).to_owned();
    }
    match family {
        "ip" | "inet4" => random.pick(&V4).to_owned(),
        _ => random.pick(&V6).to_owned(),
    }
}

fn ending(random: &mut Random, family: &str, kind: Kind, stem: &str, jumps: std::ops::Range<usize>) -> String {
    if !jumps.is_empty() && random.chance(30) {
        let to = jumps.start + random.below(jumps.len());
        return format!("{} {stem}{to}", random.pick(&["jump", "goto"]));
    }
    if random.chance(12) {
        let map = random.pick(&[
            "{ 80 : accept, 443 : return }",
            "{ 80 : continue, 1-79 : drop }",
            "{ 443 : drop }",
            "{ 22 : drop, 80-90 : accept }",
        ]);
        return format!("tcp dport vmap {map}");
    }
    match kind {
        Kind::Nat => nat(random, family),
        Kind::Mangle if random.chance(35) => tproxy(random, family),
        _ => random
            .pick(&[
                "accept",
                "drop",
                "return",
                "meta mark set 0x200",
                "meta mark set meta mark | 0x1",
                "counter",
                "accept",
                "continue",
                "ct mark set 0x7",
                "meta mark set 0x0",
            ])
            .to_owned(),
    }
}

fn nat(random: &mut Random, family: &str) -> String {
    const ANY: [&str; 5] = ["meta l4proto tcp redirect to :8080", "tcp dport 80 redirect to :9090", "accept", "return", "redirect"];
    const V4: [&str; 3] = ["10.42.0.7:8080", "10.77.0.1:80", "10.77.0.2:9090"];
    const V6: [&str; 2] = ["[fd42::7]:8080", "[fd00:77::2]:443"];
    if random.chance(45) {
        return random.pick(&ANY).to_owned();
    }
    match family {
        "ip" => format!("meta l4proto tcp dnat to {}", random.pick(&V4)),
        "ip6" => format!("meta l4proto tcp dnat to {}", random.pick(&V6)),
        "inet4" => format!("meta l4proto tcp dnat ip to {}", random.pick(&V4)),
        _ => format!("meta l4proto tcp dnat ip6 to {}", random.pick(&V6)),
    }
}

/// The mark leads the packet to the proxy's socket.
fn tproxy(random: &mut Random, family: &str) -> String {
    let port = random.pick(&[":12345", ":12345", ":9999"]);
    match family {
        "inet4" => format!("meta nfproto ipv4 meta l4proto tcp tproxy ip to {port} meta mark set 0x200"),
        "inet6" => format!("meta nfproto ipv6 meta l4proto tcp tproxy ip6 to {port} meta mark set 0x200"),
        _ => format!("meta l4proto tcp tproxy to {port} meta mark set 0x200"),
    }
}
