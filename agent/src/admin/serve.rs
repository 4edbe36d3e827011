//! The server: takes the port when it is free, then accepts within limits. One request per connection.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::answer::{Pages, answer};
use super::bind::bind;

/// Connections served at once; more wait in the accept queue.
const CONNECTIONS: usize = 64;
/// The head of a request must arrive within this time.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// A whole connection may last so long.
const LIFETIME: Duration = Duration::from_secs(15);
/// Longest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// Pause before the port is tried again, and after an accept that failed for want of descriptors.
const RETRY: Duration = Duration::from_millis(250);

/// Serves for ever. While another process has the port (an older agent that still ends), it is tried again and again.
///
/// # Errors
/// The port can't be taken for another reason than that somebody has it.
pub async fn serve<P: Pages>(address: SocketAddr, allow: Vec<IpNet>, pages: Arc<P>) -> io::Result<()> {
    let mut told = false;
    let listener = loop {
        match bind(address) {
            Ok(listener) => break listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if !told {
                    tracing::info!(listen = %address, "admin port is taken; it is used as soon as it is free");
                    told = true;
                }
                sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    };
    if told {
        tracing::info!(listen = %address, "admin port taken over");
    }
    serve_on(listener, allow, pages).await
}

/// Serves for ever on a listener that is bound already.
///
/// # Errors
/// The listener can't be handed to the runtime.
pub async fn serve_on<P: Pages>(listener: TcpListener, allow: Vec<IpNet>, pages: Arc<P>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let allow: Arc<[IpNet]> = allow.into();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, client)) => {
                let (allow, pages) = (Arc::clone(&allow), Arc::clone(&pages));
                tokio::spawn(async move {
                    converse(stream, client, &allow, &*pages).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// One request, one answer. A client that breaks off or is too slow is not worth a line.
async fn converse<P: Pages>(stream: TcpStream, client: SocketAddr, allow: &[IpNet], pages: &P) {
    let service = service_fn(async |request| Ok::<_, Infallible>(answer(&request, client.ip(), allow, pages)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = timeout(LIFETIME, connection).await;
}
