//! One probe of one endpoint: connect, see who accepts, ask, read. Yields facts; whether it passed is the table's to count.

use std::sync::{Arc, OnceLock};

use gwready_core::facts::envoy::EnvoyAdmin;
use gwready_core::facts::probes::{Acceptor, ProbeOutcome};
use gwready_core::judge::probe_method::{ProbeMethod, probe_method, serving_listener};
use gwready_core::net::Endpoint;
use rustls::ClientConfig;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use super::acceptor::AcceptorReader;
use super::connection::{Client, Connection, NotConnected};
use super::plain::{self, PROXY_V2_LOCAL};
use super::settings::ExplicitProbe;
use super::tls::{NoHello, Session, client_config};

/// What all probes share.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) acceptors: AcceptorReader,
    /// Built by the first TLS probe.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Tools {
    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        self.tls.get_or_init(|| client_config().map_err(|error| error.to_string())).clone()
    }
}

/// What to do to which endpoint.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) endpoint: Endpoint,
    method: ProbeMethod,
    /// Envoy wants a PROXY header on this port.
    proxy_protocol: bool,
    /// Connections were closed for want of a certificate since the last probe of this port.
    secrets_rose: bool,
    pub(super) explicit: Option<ExplicitProbe>,
}

/// The facts of one probe.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) outcome: ProbeOutcome,
    pub(super) acceptor: Acceptor,
    pub(super) server_name: Option<String>,
}

impl Task {
    /// `admin` is Envoy's last known word.
    pub(super) fn built_in(endpoint: Endpoint, admin: Option<&EnvoyAdmin>, sni: Option<&str>, secrets_rose: bool) -> Self {
        let listener = admin.and_then(|admin| serving_listener(admin, endpoint.port));
        let proxy_protocol = listener.is_some_and(|listener| listener.proxy_protocol);
        Self { endpoint, method: probe_method(admin, endpoint.port, sni), proxy_protocol, secrets_rose, explicit: None }
    }

    pub(super) fn explicit(endpoint: Endpoint, admin: Option<&EnvoyAdmin>, probe: &ExplicitProbe) -> Self {
        let method = match &probe.sni {
            Some(name) => ProbeMethod::Tls { server_name: Some(name.clone()) },
            None => ProbeMethod::Plain,
        };
        Self { method, explicit: Some(probe.clone()), ..Self::built_in(endpoint, admin, None, false) }
    }

    /// Runs it; over by `deadline`.
    pub(super) async fn run(self, tools: Arc<Tools>, deadline: Instant) -> Answer {
        let server_name = match &self.method {
            ProbeMethod::Tls { server_name } => server_name.clone(),
            _ => None,
        };
        let (outcome, acceptor) = self.try_run(&tools, deadline).await;
        Answer { outcome, acceptor, server_name }
    }

    async fn try_run(&self, tools: &Tools, deadline: Instant) -> (ProbeOutcome, Acceptor) {
        if let ProbeMethod::Nothing(why) = self.method {
            return (ProbeOutcome::NotJudgeable(why.to_owned()), Acceptor::Unknown);
        }
        let client = match Client::bind(self.endpoint, &tools.acceptors) {
            Ok(client) => client,
            Err(error) => return (ProbeOutcome::NotRun(format!("binding {}: {error}", self.endpoint.address)), Acceptor::Unknown),
        };
        let not_accepted = client.not_accepted();
        let mut connection = match client.connect(deadline).await {
            Ok(connection) => connection,
            Err(NotConnected::Refused) => return (ProbeOutcome::Refused, Acceptor::Unknown),
            Err(NotConnected::Reset) => return (ProbeOutcome::Reset, Acceptor::Unknown),
            Err(NotConnected::Timeout) => return (ProbeOutcome::Timeout, not_accepted),
            Err(NotConnected::Local(why)) => return (ProbeOutcome::NotRun(why), Acceptor::Unknown),
        };
        let taken = connection.wait_accepted(&tools.acceptors, deadline).await;
        if taken.elsewhere {
            return (ProbeOutcome::NotJudgeable("the connection went elsewhere".to_owned()), taken.acceptor);
        }
        if !taken.accepted {
            return (ProbeOutcome::Timeout, taken.acceptor);
        }
        let outcome = self.ask(&mut connection, tools, deadline).await;
        let acceptor = connection.recheck(&tools.acceptors, taken.acceptor);
        (outcome, acceptor)
    }

    async fn ask(&self, connection: &mut Connection, tools: &Tools, deadline: Instant) -> ProbeOutcome {
        if let ProbeMethod::ConnectOnly(why) = self.method {
            return ProbeOutcome::NotJudgeable(why.to_owned());
        }
        if self.proxy_protocol && connection.stream.write_all(&PROXY_V2_LOCAL).await.is_err() {
            return ProbeOutcome::Reset;
        }
        match &self.method {
            ProbeMethod::Tls { server_name } => self.ask_tls(connection, tools, server_name.as_deref(), deadline).await,
            _ => {
                let asked = timeout_at(deadline, plain::ask(&mut connection.stream, self.explicit.as_ref())).await;
                asked.unwrap_or(ProbeOutcome::Timeout)
            }
        }
    }

    async fn ask_tls(&self, connection: &mut Connection, tools: &Tools, name: Option<&str>, deadline: Instant) -> ProbeOutcome {
        let config = match tools.tls() {
            Ok(config) => config,
            Err(why) => return ProbeOutcome::NotRun(why),
        };
        let mut session = match Session::new(&mut connection.stream, &config, name) {
            Ok(session) => session,
            Err(why) => return ProbeOutcome::NotRun(why),
        };
        match (session.hello(deadline).await, &self.explicit) {
            (Ok(Some(_)), Some(probe)) => timeout_at(deadline, session.ask(probe)).await.unwrap_or(ProbeOutcome::Timeout),
            (Ok(Some(answered)), None) => answered,
            (Ok(None), _) => ProbeOutcome::Timeout,
            (Err(end), _) => self.no_hello(end, name),
        }
    }

    /// No ServerHello came. Envoy closes the same way whether no chain takes the name or the certificate is missing: with a name
    /// that it ends TLS for it is the certificate, without a name only its counter can tell.
    fn no_hello(&self, end: NoHello, name: Option<&str>) -> ProbeOutcome {
        let secret = "connections are closed for want of a certificate: its secret has not arrived at Envoy";
        match (end, name) {
            (NoHello::Failed(why), Some(_)) => ProbeOutcome::TlsFailed(why),
            (NoHello::Closed, Some(_)) if self.secrets_rose => ProbeOutcome::TlsFailed(secret.to_owned()),
            (NoHello::Closed, Some(_)) => ProbeOutcome::TlsFailed("closed after the ClientHello".to_owned()),
            (_, None) if self.secrets_rose => ProbeOutcome::TlsFailed(secret.to_owned()),
            (_, None) => ProbeOutcome::NotJudgeable("closed after a ClientHello without a server name".to_owned()),
        }
    }
}
