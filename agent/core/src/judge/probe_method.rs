//! What the built-in probe may send to a port, from Envoy's filter chains. The rule above all: no probe reaches a backend.
//!
//! Cilium puts all ports of a Gateway on one listener, so a port does not say whether it speaks TLS; the chains do, and where
//! both kinds exist, 443 is asked by TLS and any other port in clear text. 80 is for clear text even where no chain is: clients
//! of `http://` come there whatever Envoy was told, and are closed (cilium#36750). A name that is passed through is never asked for,
//! nor is a ClientHello without a name sent where a chain without names passes TLS through.

use crate::facts::envoy::{ChainKind, EnvoyAdmin, EnvoyListener, FilterChain};

/// How a port is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeMethod {
    /// HTTP/1.1 without Host: Envoy answers 400 before routing.
    Plain,
    /// A ClientHello with this server name, or without one where a chain takes any.
    Tls {
        /// Name to ask for.
        server_name: Option<String>,
    },
    /// Connect, see who accepts, send nothing: why no more.
    ConnectOnly(&'static str),
    /// Do not even connect: why not.
    Nothing(&'static str),
}

/// Label put in the place of `*` to ask for a wildcard name.
const WILDCARD_LABEL: &str = "gwready-probe";

/// The port on which clients speak clear text.
const HTTP: u16 = 80;
/// The port that speaks TLS where nothing else tells.
const HTTPS: u16 = 443;

/// The active listener of a port.
#[must_use]
pub fn serving_listener(admin: &EnvoyAdmin, port: u16) -> Option<&EnvoyListener> {
    admin.listeners.iter().find(|listener| listener.active && listener.ports.contains(&port))
}

/// Chooses the method for `port`. `admin` is Envoy's last known word, `configured` the server name from the configuration.
#[must_use]
pub fn probe_method(admin: Option<&EnvoyAdmin>, port: u16, configured: Option<&str>) -> ProbeMethod {
    match admin.and_then(|admin| serving_listener(admin, port)) {
        Some(listener) => by_chains(listener, port, configured),
        None => match (port, configured) {
            (HTTPS, Some(name)) => ProbeMethod::Tls { server_name: Some(name.to_owned()) },
            (HTTPS, None) => ProbeMethod::ConnectOnly("Envoy's filter chains are not known, so no server name is"),
            _ => ProbeMethod::Plain,
        },
    }
}

fn by_chains(listener: &EnvoyListener, port: u16, configured: Option<&str>) -> ProbeMethod {
    let chains: Vec<&FilterChain> = listener.chains.iter().filter(|chain| chain.port.is_none_or(|only| only == port)).collect();
    let has = |kind: ChainKind| chains.iter().any(|chain| chain.kind == kind);
    if has(ChainKind::Opaque) {
        return ProbeMethod::Nothing("a filter chain of this port may connect to a backend at once");
    }
    // Clear text without a chain for it matches none, so it reaches no backend either.
    if port == HTTP || has(ChainKind::Http) && (port != HTTPS || !(has(ChainKind::Tls) || has(ChainKind::Passthrough))) {
        return ProbeMethod::Plain;
    }
    if has(ChainKind::Tls) {
        return server_name(&chains, configured)
            .map_or(ProbeMethod::ConnectOnly("every server name that could be asked for is passed through to a backend"), |server_name| {
                ProbeMethod::Tls { server_name }
            });
    }
    if has(ChainKind::Passthrough) {
        return ProbeMethod::ConnectOnly("TLS is passed through to backends on this port");
    }
    ProbeMethod::ConnectOnly("Envoy has no filter chain for this port")
}

/// The name to ask for: the configured one if Envoy ends TLS for it, else the first exact name, else one below a wildcard, else
/// none at all where a chain takes any. The outer none: there is nothing that may be asked.
fn server_name(chains: &[&FilterChain], configured: Option<&str>) -> Option<Option<String>> {
    let ends = |name: &str| best(chains, name).is_some_and(|chain| chain.kind == ChainKind::Tls);
    if let Some(name) = configured.filter(|name| ends(name)) {
        return Some(Some(name.to_owned()));
    }
    let mut names: Vec<String> = chains
        .iter()
        .filter(|chain| chain.kind == ChainKind::Tls)
        .flat_map(|chain| &chain.server_names)
        .map(|name| name.strip_prefix("*.").map_or_else(|| name.clone(), |suffix| format!("{WILDCARD_LABEL}.{suffix}")))
        .filter(|name| ends(name))
        .collect();
    // Exact names first, then alphabetical: the same on every node and at every probe.
    names.sort_by_key(|name| (name.starts_with(WILDCARD_LABEL), name.clone()));
    if let Some(name) = names.into_iter().next() {
        return Some(Some(name));
    }
    // The most general chain takes a ClientHello without a name; the configured name makes no difference to it.
    let any: Vec<&&FilterChain> = chains.iter().filter(|chain| chain.server_names.is_empty() && chain.kind != ChainKind::Http).collect();
    (!any.is_empty() && any.iter().all(|chain| chain.kind == ChainKind::Tls)).then(|| configured.map(str::to_owned))
}

/// The chain that Envoy takes for a name: exact before the longest wildcard before none (envoy
/// source/common/listener_manager/filter_chain_manager_impl.cc). Of two equally good ones the one that passes through counts:
/// they differ by something that is not known here.
fn best<'a>(chains: &[&'a FilterChain], name: &str) -> Option<&'a FilterChain> {
    let name = name.to_ascii_lowercase();
    let fit = |chain: &FilterChain| {
        let of = |pattern: &String| match pattern.strip_prefix('*') {
            Some(suffix) if name.ends_with(suffix) && name.len() > suffix.len() => Some(suffix.len()),
            None if *pattern == name => Some(usize::MAX),
            _ => None,
        };
        if chain.server_names.is_empty() { Some(0) } else { chain.server_names.iter().filter_map(of).max() }
    };
    let tls = chains.iter().filter(|chain| chain.kind != ChainKind::Http);
    tls.filter_map(|chain| fit(chain).map(|fit| ((fit, chain.kind), *chain))).max_by_key(|(key, _)| *key).map(|(_, chain)| chain)
}

#[cfg(test)]
mod tests {
    use super::super::serving_testing::chain;
    use super::*;
    use ChainKind::{Http, Opaque, Passthrough, Tls};

    fn method(port: u16, chains: &[FilterChain], configured: Option<&str>) -> ProbeMethod {
        let listener = EnvoyListener { active: true, ports: vec![80, 443, 8443], chains: chains.to_vec(), ..EnvoyListener::default() };
        probe_method(Some(&EnvoyAdmin { listeners: vec![listener], ..EnvoyAdmin::default() }), port, configured)
    }

    fn tls(name: &str) -> ProbeMethod {
        ProbeMethod::Tls { server_name: Some(name.to_owned()) }
    }

    const NAMELESS: ProbeMethod = ProbeMethod::Tls { server_name: None };

    fn connects_only(method: &ProbeMethod) -> bool {
        matches!(method, ProbeMethod::ConnectOnly(_))
    }

    #[test]
    fn one_listener_with_both_kinds_is_asked_by_tls_on_443_and_in_clear_text_elsewhere() {
        let both = [chain(Http, &[]), chain(Tls, &["a.example"])];
        assert_eq!(method(80, &both, None), ProbeMethod::Plain);
        assert_eq!(method(443, &both, None), tls("a.example"));
        assert_eq!(method(8443, &both, None), ProbeMethod::Plain);
        assert_eq!(method(8443, &both[1..], None), tls("a.example"));
        assert_eq!(method(443, &both[..1], None), ProbeMethod::Plain, "a clear-text gateway on 443");
    }

    #[test]
    fn port_80_is_asked_in_clear_text_though_the_chain_for_it_is_gone() {
        for chains in [&[chain(Tls, &["a.example"])][..], &[chain(Passthrough, &["p.example"])], &[]] {
            assert_eq!(method(80, chains, None), ProbeMethod::Plain, "{chains:?}");
        }
        assert!(matches!(method(80, &[chain(Opaque, &[])], None), ProbeMethod::Nothing(_)));
    }

    #[test]
    fn an_exact_name_is_preferred_and_a_wildcard_is_filled_in() {
        assert_eq!(method(443, &[chain(Tls, &["*.b.example", "z.example", "c.example"])], None), tls("c.example"));
        assert_eq!(method(443, &[chain(Tls, &["*.b.example"])], None), tls("gwready-probe.b.example"));
        assert_eq!(method(443, &[chain(Tls, &[])], None), NAMELESS);
    }

    #[test]
    fn a_configured_name_is_used_only_where_envoy_ends_tls_for_it() {
        let chains = [chain(Tls, &["a.example", "*.b.example"]), chain(Passthrough, &["pass.b.example"])];
        assert_eq!(method(443, &chains, Some("x.b.example")), tls("x.b.example"));
        assert_eq!(method(443, &chains, Some("pass.b.example")), tls("a.example"));
        assert_eq!(method(443, &chains, Some("typo.example")), tls("a.example"), "a typo must not take every node down");
    }

    #[test]
    fn nothing_is_sent_that_could_be_passed_through() {
        assert!(connects_only(&method(443, &[chain(Passthrough, &["a.example"])], None)));
        assert!(connects_only(&method(443, &[chain(Passthrough, &["a.example"]), chain(Http, &[])], None)));
        assert!(connects_only(&method(443, &[chain(Passthrough, &[]), chain(Tls, &[])], None)), "which of the two takes it is not known");
        let hidden = [chain(Tls, &["*.b.example"]), chain(Passthrough, &["gwready-probe.b.example"])];
        assert!(connects_only(&method(443, &hidden, None)));
        let longer = [chain(Tls, &["*.example"]), chain(Passthrough, &["*.b.example"])];
        assert_eq!(method(443, &longer, Some("x.b.example")), tls("gwready-probe.example"));
        assert!(matches!(method(80, &[chain(Opaque, &[]), chain(Http, &[])], None), ProbeMethod::Nothing(_)));
    }

    #[test]
    fn a_chain_for_another_port_does_not_count() {
        let only = |port, chain: FilterChain| FilterChain { port: Some(port), ..chain };
        let chains = [only(443, chain(Tls, &["a.example"])), only(8443, chain(Passthrough, &["p.example"])), only(80, chain(Http, &[]))];
        assert_eq!(method(443, &chains, None), tls("a.example"));
        assert_eq!(method(80, &chains, None), ProbeMethod::Plain);
        assert!(connects_only(&method(8443, &chains, None)));
    }

    #[test]
    fn without_envoys_word_443_is_connected_to_and_asked_only_by_a_configured_name() {
        assert!(connects_only(&probe_method(None, 443, None)));
        assert_eq!(probe_method(None, 443, Some("a.example")), tls("a.example"));
        assert_eq!(probe_method(None, 80, None), ProbeMethod::Plain);
        assert_eq!(probe_method(Some(&EnvoyAdmin::default()), 80, None), ProbeMethod::Plain);
    }

    /// Whatever the chains: a name that is asked for is one whose best chain ends TLS.
    #[test]
    fn no_method_asks_for_a_name_that_is_passed_through() {
        let pool = ["a.example", "*.example", "*.b.example", "p.b.example"];
        let kinds = [Tls, Passthrough];
        for combination in 0u32..(1 << 8) {
            let chains: Vec<FilterChain> = (0..4)
                .filter(|i| combination & (1 << i) != 0)
                .map(|i| chain(kinds[((combination >> (4 + i)) & 1) as usize], &[pool[i as usize]]))
                .collect();
            for configured in [None, Some("a.example"), Some("p.b.example"), Some("q.b.example"), Some("other.test")] {
                if let ProbeMethod::Tls { server_name: Some(name) } = method(443, &chains, configured) {
                    let all: Vec<&FilterChain> = chains.iter().collect();
                    assert_eq!(best(&all, &name).unwrap().kind, Tls, "{name} {chains:?}");
                }
            }
        }
    }
}
