//! The TLS question: a ClientHello; a ServerHello is the answer. Any certificate is accepted, for its expiry is a fact to publish and
//! its trust is the clients' business.
//!
//! rustls with a provider in pure Rust (`docs/decisions/probe-tls.md`). The configuration is built once and shared.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use gwready_core::facts::probes::ProbeOutcome;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::plain;
use super::settings::ExplicitProbe;

const READ_SIZE: usize = 4096;

/// How a handshake ended before a ServerHello.
#[derive(Debug)]
pub(super) enum NoHello {
    /// The peer closed or reset.
    Closed,
    /// It sent an alert, or something that is no TLS.
    Failed(String),
}

/// Accepts every certificate and signature.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The client's configuration: TLS 1.2 and 1.3, no resumption (each probe is a whole handshake), no ALPN.
///
/// # Errors
/// If the provider lacks what the versions need.
pub(super) fn client_config() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls_rustcrypto::provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// The name for rustls. An IP address makes it send no server name at all (RFC 6066 3), which is what none stands for.
fn server_name(name: Option<&str>) -> Result<ServerName<'static>, String> {
    match name {
        Some(name) => ServerName::try_from(name.to_owned()).map_err(|_| format!("{name} is no server name")),
        None => Ok(ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
    }
}

/// One client's side of a connection.
pub(super) struct Session<'a> {
    stream: &'a mut TcpStream,
    tls: ClientConnection,
}

impl<'a> Session<'a> {
    /// A session; nothing is sent yet.
    ///
    /// # Errors
    /// For a name that is none.
    pub(super) fn new(stream: &'a mut TcpStream, config: &Arc<ClientConfig>, name: Option<&str>) -> Result<Self, String> {
        let tls = ClientConnection::new(Arc::clone(config), server_name(name)?).map_err(|error| error.to_string())?;
        Ok(Self { stream, tls })
    }

    /// Shakes hands until the server's certificate is known or `until` is reached. The outcome is good as soon as a ServerHello has
    /// come, whatever comes after it: a missing client certificate or an alert about it is no fault of the front.
    pub(super) async fn hello(&mut self, until: tokio::time::Instant) -> Result<Option<ProbeOutcome>, NoHello> {
        match tokio::time::timeout_at(until, self.advance(true)).await {
            _ if self.tls.negotiated_cipher_suite().is_some() => Ok(Some(ProbeOutcome::TlsAnswered { not_after: self.not_after() })),
            Ok(Ok(())) => Err(NoHello::Failed("no ServerHello".to_owned())),
            Ok(Err(end)) => Err(end),
            Err(_) => Ok(None),
        }
    }

    /// Sends an extra probe's request once the handshake is over, and reads the head of the reply. The caller bounds the time.
    pub(super) async fn ask(&mut self, probe: &ExplicitProbe) -> ProbeOutcome {
        let failed = |end: NoHello| match end {
            NoHello::Closed => ProbeOutcome::Reset,
            NoHello::Failed(why) => ProbeOutcome::TlsFailed(why),
        };
        if let Err(end) = self.advance(false).await {
            return failed(end);
        }
        if io::Write::write_all(&mut self.tls.writer(), plain::request(Some(probe)).as_bytes()).is_err() {
            return ProbeOutcome::NotRun("the request does not fit".to_owned());
        }
        let mut reply = Vec::new();
        loop {
            let mut part = [0; READ_SIZE];
            match io::Read::read(&mut self.tls.reader(), &mut part) {
                Ok(0) => return ProbeOutcome::Reset,
                Ok(count) => reply.extend_from_slice(part.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self.step().await {
                    Ok(()) => {}
                    Err(end) => return failed(end),
                },
                Err(_) => return ProbeOutcome::Reset,
            }
            if let Some(outcome) = plain::answered(&reply) {
                return outcome.unwrap_or(ProbeOutcome::Reset);
            }
        }
    }

    /// Shakes hands to the end, or until the certificate is known.
    async fn advance(&mut self, to_certificate: bool) -> Result<(), NoHello> {
        while self.tls.is_handshaking() && !(to_certificate && self.tls.peer_certificates().is_some()) {
            self.step().await?;
        }
        Ok(())
    }

    /// Sends what is to be sent, then takes in what comes next.
    async fn step(&mut self) -> Result<(), NoHello> {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).map_err(|error| NoHello::Failed(error.to_string()))?;
        }
        if !out.is_empty() && self.stream.write_all(&out).await.is_err() {
            return Err(NoHello::Closed);
        }
        let mut part = [0; READ_SIZE];
        let count = self.stream.read(&mut part).await.map_err(|_| NoHello::Closed)?;
        if count == 0 {
            return Err(NoHello::Closed);
        }
        let mut rest = part.get(..count).unwrap_or_default();
        while !rest.is_empty() {
            self.tls.read_tls(&mut rest).map_err(|error| NoHello::Failed(error.to_string()))?;
            self.tls.process_new_packets().map_err(|error| NoHello::Failed(error.to_string()))?;
        }
        Ok(())
    }

    /// Expiry of the leaf, seconds since the Unix epoch.
    fn not_after(&self) -> Option<i64> {
        let leaf = self.tls.peer_certificates()?.first()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(leaf.as_ref()).ok()?;
        Some(certificate.validity().not_after.timestamp())
    }
}
