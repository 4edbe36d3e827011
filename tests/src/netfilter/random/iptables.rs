//! Rule sets of iptables, for `iptables-restore` and `ip6tables-restore` of either kind.

use super::Random;

/// The tables mangle, nat and filter with user chains.
#[must_use]
pub fn iptables(random: &mut Random, v6: bool) -> String {
    let mut text = String::new();
    for (table, hooks) in [("mangle", &["PREROUTING", "INPUT"][..]), ("nat", &["PREROUTING"]), ("filter", &["INPUT"])] {
        if !random.chance(75) {
            continue;
        }
        text += &format!("*{table}\n");
        for hook in hooks {
            let policy = if table == "filter" && random.chance(12) { "DROP" } else { "ACCEPT" };
            text += &format!(":{hook} {policy} [0:0]\n");
        }
        text += ":one - [0:0]\n:two - [0:0]\n";
        for hook in hooks {
            // Only the first packet of a connection is followed: later ones are let through, as nearly everybody's rules do.
            if table != "nat" {
                text += &format!("-A {hook} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n");
            }
            text += &rules(random, table, hook, v6, &["one", "two"]);
        }
        text += &rules(random, table, "one", v6, &["two"]);
        text += &rules(random, table, "two", v6, &[]);
        text += "COMMIT\n";
    }
    text
}

fn rules(random: &mut Random, table: &str, chain: &str, v6: bool, jumps: &[&str]) -> String {
    let count = random.below(4);
    (0..count).map(|_| format!("-A {chain} {}\n", rule(random, table, chain, v6, jumps))).collect()
}

fn rule(random: &mut Random, table: &str, chain: &str, v6: bool, jumps: &[&str]) -> String {
    let mut words: Vec<&str> = vec![random.pick(&["-p tcp", "-p tcp", "-p tcp", "-p udp"])];
    let tcp = words == ["-p tcp"];
    for _ in 0..random.below(3) {
        let word = matching(random, tcp, v6);
        let option = word.split(' ').find(|part| part.starts_with('-')).unwrap_or_default();
        // iptables takes each option once.
        if !words.iter().any(|other| other.split(' ').any(|part| part == option && option != "-m") || *other == word) {
            words.push(word);
        }
    }
    words.push(target(random, table, chain, tcp, v6, jumps));
    words.join(" ")
}

fn matching<'a>(random: &mut Random, tcp: bool, v6: bool) -> &'a str {
    const ANY: [&str; 10] = [
        "-i eth0",
        "-i lo",
        "! -i lo",
        "-i eth+",
        "-m addrtype --dst-type LOCAL",
        "-m addrtype ! --dst-type LOCAL",
        "-m conntrack --ctstate NEW",
        "-m mark --mark 0x0/0xf00",
        "-m mark ! --mark 0x0",
        "-m comment --comment \"by chance\"",
    ];
    const TCP: [&str; 7] = [
        "-m tcp --dport 80",
        "-m tcp --dport 443",
        "-m tcp ! --dport 80",
        "-m tcp --dport 80:442",
        "-m multiport --dports 80,443",
        "-m multiport --dports 22,80:90",
        "-m tcp --tcp-flags FIN,SYN,RST,ACK SYN",
    ];
    const V4: [&str; 4] = ["-d 10.77.0.1/32", "! -d 10.77.0.1/32", "-s 10.77.0.0/24", "-s 192.0.2.0/24"];
    const V6: [&str; 3] = ["-d fd00:77::1/128", "! -d fd00:77::1/128", "-s fd00:77::/64"];
    match random.below(3) {
        0 if tcp => random.pick(&TCP),
        1 if v6 => random.pick(&V6),
        1 => random.pick(&V4),
        _ => random.pick(&ANY),
    }
}

fn target<'a>(random: &mut Random, table: &str, chain: &str, tcp: bool, v6: bool, jumps: &[&'a str]) -> &'a str {
    if !jumps.is_empty() && random.chance(30) {
        return match (random.pick(jumps), random.chance(70)) {
            ("one", true) => "-j one",
            ("one", false) => "-g one",
            (_, true) => "-j two",
            (_, false) => "-g two",
        };
    }
    match table {
        "nat" if tcp && random.chance(60) => match v6 {
            true => random.pick(&[
                "-j REDIRECT --to-ports 8080",
                "-j DNAT --to-destination [fd42::7]:8080",
                "-j DNAT --to-destination [fd00:77::2]:443",
            ]),
            false => random.pick(&[
                "-j REDIRECT --to-ports 8080",
                "-j REDIRECT --to-ports 9090",
                "-j DNAT --to-destination 10.42.0.7:8080",
                "-j DNAT --to-destination 10.77.0.2:443",
                "-j DNAT --to-destination 10.42.0.7",
            ]),
        },
        "nat" => random.pick(&["-j ACCEPT", "-j RETURN", "-j MARK --set-xmark 0x4000/0x4000"]),
        "mangle" if tcp && chain == "PREROUTING" && random.chance(20) => match v6 {
            true => "-j TPROXY --on-port 12345 --on-ip ::1 --tproxy-mark 0x200/0xffffffff",
            false => "-j TPROXY --on-port 12345 --on-ip 127.0.0.1 --tproxy-mark 0x200/0xffffffff",
        },
        "mangle" => {
            random.pick(&["-j ACCEPT", "-j RETURN", "-j MARK --set-xmark 0x200/0xf00", "-j MARK --set-xmark 0x0/0xffffffff", "-j DROP", ""])
        }
        _ => random.pick(&["-j ACCEPT", "-j DROP", "-j RETURN", "-j REJECT", "-j ACCEPT", ""]),
    }
}
