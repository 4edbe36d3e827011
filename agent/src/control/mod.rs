//! The control socket: what the command line uses to talk to a running daemon.
