//! Exit codes: a contract with scripts. 64 and above follow sysexits.h.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Fine, or up.
    Ok,
    /// Not up: drain or down; `wait`: time ran out; `live`, `ready`: no.
    NotUp,
    /// Could not tell.
    CannotTell,
    /// No daemon to talk to.
    NoDaemon,
    /// Wrong arguments.
    Usage,
    /// A port is taken by somebody else.
    AddressInUse,
    /// A privilege is missing (only `check --require`).
    MissingPrivilege,
    /// Faulty configuration.
    Config,
}

impl Exit {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::NotUp => 1,
            Self::CannotTell => 2,
            Self::NoDaemon => 3,
            Self::Usage => 64,
            Self::AddressInUse => 69,
            Self::MissingPrivilege => 77,
            Self::Config => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
