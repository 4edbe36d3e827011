//! One program per file. Each returns 0: nothing reads the result.

mod process_exit;
mod signal_generate;
mod socket_state;
