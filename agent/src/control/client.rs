//! The client side: blocking, one request per connection. Used by the command line only.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::protocol::{Request, Response};

/// How long the daemon may take. A status is immediate; this only bounds a hang.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens.
    #[error("no gwready daemon answers on {path}")]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// What connect said.
        source: io::Error,
    },
    /// We may not connect.
    #[error("not allowed to talk to the daemon on {path}: run as root or as the daemon's user")]
    NotAllowed {
        /// The socket.
        path: PathBuf,
    },
    /// The connection broke, or the answer is no answer.
    #[error("the daemon on {path} did not answer: {sentence}")]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What went wrong.
        sentence: String,
    },
    /// The daemon refused, in its own words.
    #[error("{0}")]
    Refused(String),
}

/// Asks and waits for the answer.
///
/// # Errors
/// As [`CallError`] says.
pub fn call(path: &Path, request: &Request) -> Result<Value, CallError> {
    let stream = UnixStream::connect(path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => CallError::NotAllowed { path: path.to_owned() },
        _ => CallError::NoDaemon { path: path.to_owned(), source },
    })?;
    let line = exchange(&stream, request).map_err(|error| CallError::Broken { path: path.to_owned(), sentence: error.to_string() })?;
    match serde_json::from_str(&line) {
        Ok(Response::Ok(value)) => Ok(value),
        Ok(Response::Error(sentence)) => Err(CallError::Refused(sentence)),
        Err(error) => Err(CallError::Broken { path: path.to_owned(), sentence: format!("not a response: {error}") }),
    }
}

fn exchange(stream: &UnixStream, request: &Request) -> io::Result<String> {
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    (&*stream).write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.ends_with('\n') { Ok(answer) } else { Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended early")) }
}
