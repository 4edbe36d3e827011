//! The agent's own process, from `/proc/self` (proc(5)): the usual metrics of every Prometheus client library.

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo};

use super::catalog as of;
use super::sample::Family;

/// All that can be read; what can't is absent.
pub(super) fn families() -> Vec<Family> {
    read_families().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "bytes and ticks of one process are far below 2^53")]
fn read_families() -> ProcResult<Vec<Family>> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let start = procfs::boot_time_secs().ok().map(|boot| boot as f64 + stat.starttime as f64 / ticks);
    let limit = process.limits().ok().and_then(|limits| match limits.max_open_files.soft_limit {
        LimitValue::Value(limit) => Some(limit as f64),
        LimitValue::Unlimited => None,
    });
    let values = [
        (&of::PROCESS_CPU, Some((stat.utime + stat.stime) as f64 / ticks)),
        (&of::PROCESS_RESIDENT, Some(stat.rss_bytes().get() as f64)),
        (&of::PROCESS_VIRTUAL, Some(stat.vsize as f64)),
        (&of::PROCESS_OPEN_FDS, process.fd_count().ok().map(|count| count as f64)),
        (&of::PROCESS_MAX_FDS, limit),
        (&of::PROCESS_START_TIME, start),
        (&of::PROCESS_THREADS, Some(stat.num_threads as f64)),
    ];
    let family = |(metric, value): (&'static of::Metric, Option<f64>)| {
        let mut family = Family::new(metric);
        family.samples.extend(value.map(|value| (Vec::new(), value)));
        family
    };
    Ok(values.into_iter().map(family).collect())
}
