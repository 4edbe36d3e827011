//! wrk with one connection per request, from inside a namespace. Parses its summary; errors of its own fail the measurement.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::space::Space;

/// What one run of wrk measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests, and so connections, per second.
    pub per_second: f64,
    /// 99 of 100 requests took at most this long, microseconds, connect included.
    pub p99_us: f64,
}

/// Lets a namespace open tens of thousands of connections in a row. The side that closes first keeps a port for a minute
/// (TIME_WAIT): some seconds of load use all of them up, and then the ports are measured instead of the server.
pub fn make_room(space: &Space) -> Result<()> {
    space.set_sysctl("net/ipv4/ip_local_port_range", "1024 65535")?;
    space.set_sysctl("net/ipv4/tcp_tw_reuse", "1")
}

/// Runs wrk from `space` for `span` with this many connections at a time, each for one request.
pub fn run(space: &Space, to: SocketAddr, path: &str, host: &str, connections: u32, span: Duration) -> Result<Rate> {
    let program = paths::installed("wrk")?;
    let seconds = format!("{}s", span.as_secs().max(1));
    let output = space
        .command(program)
        .args(["--threads", "1", "--connections", &connections.to_string(), "--duration", &seconds, "--latency"])
        .args(["--header", &format!("Host: {host}"), "--header", "Connection: close"])
        .arg(format!("http://{to}{path}"))
        .output()
        .context("wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk: {}{text}", String::from_utf8_lossy(&output.stderr));
    ensure!(!text.contains("Non-2xx"), "wrk got other answers than 200:\n{text}");
    parse(&text).with_context(|| format!("wrk printed something else:\n{text}"))
}

fn parse(text: &str) -> Option<Rate> {
    let after = |word: &str| text.lines().find_map(|line| line.trim().strip_prefix(word)).map(str::trim);
    Some(Rate { per_second: after("Requests/sec:")?.parse().ok()?, p99_us: parse_time(after("99%")?)? })
}

/// `812.00us`, `1.25ms` or `2.00s`, in microseconds.
fn parse_time(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, factor) = units.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_read() {
        let text = "Running 1s test @ http://10.77.0.1:9680/healthz\n  1 threads and 16 connections\n\
            \x20 Latency Distribution\n     50%  402.00us\n     99%    1.25ms\n\
            \x20 9012 requests in 1.00s, 3.1MB read\nRequests/sec:   9001.55\nTransfer/sec:      3.10MB\n";
        assert_eq!(parse(text), Some(Rate { per_second: 9001.55, p99_us: 1250.0 }));
        assert_eq!(parse("unable to connect"), None);
    }

    #[test]
    fn times_come_in_three_units() {
        assert_eq!(["812.00us", "1.5ms", "2.00s", "3h"].map(parse_time), [Some(812.0), Some(1500.0), Some(2e6), None]);
    }
}
