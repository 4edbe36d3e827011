//! What a process costs, as the kernel counts it: processor time, memory, descriptors. Reads /proc of one pid.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Processor time of all threads, or of those with this name (`/proc/PID/task/TID/comm`). By schedstat: nanoseconds, where
/// `stat` counts ticks of 10 ms.
pub fn cpu_time(pid: i32, thread: Option<&str>) -> Result<Duration> {
    let mut total = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        // A thread may end between the listing and the read.
        let (Ok(comm), Ok(stat)) = (fs::read_to_string(task.join("comm")), fs::read_to_string(task.join("schedstat"))) else { continue };
        if thread.is_none_or(|name| comm.trim() == name) {
            let nanos = stat.split(' ').next().context("empty schedstat")?;
            total += Duration::from_nanos(nanos.parse()?);
        }
    }
    Ok(total)
}

/// A field of `/proc/PID/status` in KiB: `VmRSS` now, `VmHWM` at its peak.
pub fn memory_kib(pid: i32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let amount = line.and_then(|rest| rest.split_whitespace().next());
    Ok(amount.with_context(|| format!("no {field}"))?.parse()?)
}

/// Open descriptors.
pub fn descriptors(pid: i32) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// The one-minute load average: how busy the machine was, for whoever reads a figure.
pub fn load_average() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_figures_of_ourselves_are_read() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let before = descriptors(pid).unwrap();
        let held = fs::File::open("/dev/null").unwrap();
        assert!(descriptors(pid).unwrap() > 0 && before > 0);
        drop(held);
        assert!(memory_kib(pid, "VmHWM").unwrap() >= memory_kib(pid, "VmRSS").unwrap() / 2);
        assert!(cpu_time(pid, Some("no such thread")).unwrap().is_zero());
        let begin = cpu_time(pid, None).unwrap();
        while cpu_time(pid, None).unwrap() == begin {
            std::hint::spin_loop();
        }
        assert!(memory_kib(pid, "VmNothing").is_err());
    }
}
