//! Loads rule sets with the tools that people use. Must not read them back: that is the reader's work.

use std::io::Write;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::space::Space;

/// Who loads a rule set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `nft -f -`
    Nft,
    /// `iptables-nft-restore`
    IptablesNft,
    /// `ip6tables-nft-restore`
    Ip6tablesNft,
    /// `iptables-legacy-restore`
    IptablesLegacy,
    /// `ip6tables-legacy-restore`
    Ip6tablesLegacy,
}

impl Tool {
    const fn command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Nft => ("nft", &["-f", "-"]),
            Self::IptablesNft => ("iptables-nft-restore", &["--noflush"]),
            Self::Ip6tablesNft => ("ip6tables-nft-restore", &["--noflush"]),
            Self::IptablesLegacy => ("iptables-legacy-restore", &["--noflush"]),
            Self::Ip6tablesLegacy => ("ip6tables-legacy-restore", &["--noflush"]),
        }
    }

    /// Loads a rule set, beside those that are there.
    pub fn load(self, space: &Space, text: &str) -> Result<()> {
        let (program, arguments) = self.command();
        let mut command = space.command(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {program} (packages nftables, iptables)"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "{program}: {}\nof:\n{text}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

/// Removes every rule of nf_tables, and empties the legacy tables that exist.
pub fn flush(space: &Space) -> Result<()> {
    Tool::Nft.load(space, "flush ruleset\n")?;
    for (names, tool) in [("ip_tables_names", Tool::IptablesLegacy), ("ip6_tables_names", Tool::Ip6tablesLegacy)] {
        let tables = space.enter(|| Ok(std::fs::read_to_string(format!("/proc/thread-self/net/{names}")).unwrap_or_default()))?;
        let empty: String = tables.lines().map(|table| format!("*{table}\n{}COMMIT\n", accept_all(table))).collect();
        if !empty.is_empty() {
            let (program, _) = tool.command();
            let mut child = space.command(program).stdin(Stdio::piped()).spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(empty.as_bytes())?;
            }
            ensure!(child.wait()?.success(), "{program} could not empty {tables}");
        }
    }
    Ok(())
}

fn accept_all(table: &str) -> String {
    let chains: &[&str] = match table {
        "raw" => &["PREROUTING", "OUTPUT"],
        "nat" => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        "mangle" => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
        _ => &["INPUT", "FORWARD", "OUTPUT"],
    };
    chains.iter().map(|chain| format!(":{chain} ACCEPT [0:0]\n")).collect()
}
