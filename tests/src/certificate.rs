//! Self-signed certificates, made when a test needs one. No key is kept in the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Files of one certificate, PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Certificate {
    /// Makes one for the given DNS names, valid for `days` from now, in `dir`.
    pub fn self_signed(dir: &Path, names: &[&str], days: u32) -> Result<Self> {
        let (cert, key) = (dir.join("tls.crt"), dir.join("tls.key"));
        let alternatives: Vec<_> = names.iter().map(|name| format!("DNS:{name}")).collect();
        let output = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-nodes"])
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-subj", "/CN=gateway", "-days", &days.to_string()])
            .args(["-addext", &format!("subjectAltName={}", alternatives.join(","))])
            .arg("-out")
            .arg(&cert)
            .arg("-keyout")
            .arg(&key)
            .output()
            .context("starting openssl")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "openssl: {stderr}");
        Ok(Self { cert, key })
    }
}
