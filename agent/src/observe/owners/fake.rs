//! A small procfs of plain files, for the readers' tests: what the kernel decides (refusals, reused pids, vanishing) is tested
//! with real processes in the package of root tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The tree; removed with the value.
pub(super) struct FakeProc {
    root: tempfile::TempDir,
}

/// One process to be written.
pub(super) struct FakeProcess {
    pub pid: u32,
    pub parent: u32,
    pub start_ticks: u64,
    pub exe: Option<&'static str>,
    pub comm: &'static str,
    pub cgroup: String,
    pub sockets: Vec<(u32, u64)>,
    pub same_netns: bool,
}

impl FakeProcess {
    pub(super) fn new(pid: u32, exe: &'static str, sockets: &[(u32, u64)]) -> Self {
        let comm = exe.get(..15).unwrap_or(exe);
        Self {
            pid,
            parent: 1,
            start_ticks: u64::from(pid) * 10,
            exe: Some(exe),
            comm,
            cgroup: "0::/\n".to_owned(),
            sockets: sockets.to_vec(),
            same_netns: true,
        }
    }
}

impl FakeProc {
    /// With pid 1 and the sysctl.
    pub(super) fn new() -> Self {
        let fake = Self { root: tempfile::tempdir().unwrap() };
        for folder in ["thread-self/ns", "sys/net/ipv4"] {
            fs::create_dir_all(fake.root.path().join(folder)).unwrap();
        }
        fs::write(fake.root.path().join("thread-self/ns/net"), "").unwrap();
        fs::write(fake.root.path().join("sys/net/ipv4/ip_unprivileged_port_start"), "1024\n").unwrap();
        fake.write(&FakeProcess::new(1, "init", &[]));
        fake
    }

    pub(super) fn path(&self) -> &Path {
        self.root.path()
    }

    pub(super) fn of(&self, pid: u32) -> PathBuf {
        self.root.path().join(pid.to_string())
    }

    pub(super) fn write(&self, process: &FakeProcess) {
        let dir = self.of(process.pid);
        fs::create_dir_all(dir.join("fd")).unwrap();
        fs::create_dir_all(dir.join("ns")).unwrap();
        if let Some(exe) = process.exe {
            symlink(format!("/usr/bin/{exe}"), dir.join("exe")).unwrap();
        }
        self.write_stat(process);
        fs::write(dir.join("comm"), format!("{}\n", process.comm)).unwrap();
        let status = format!(
            "Name:\t{}\nState:\tS (sleeping)\nPPid:\t{}\nUid:\t0\t0\t0\t0\nNSpid:\t{}\nCapPrm:\t0000000000000400\nCapEff:\t0000000000000400\n\
             NoNewPrivs:\t1\n",
            process.comm, process.parent, process.pid
        );
        fs::write(dir.join("status"), status).unwrap();
        fs::write(dir.join("cgroup"), &process.cgroup).unwrap();
        fs::write(dir.join("limits"), LIMITS).unwrap();
        for (fd, inode) in &process.sockets {
            self.open_socket(process.pid, *fd, *inode);
        }
        symlink("/dev/null", dir.join("fd/0")).unwrap();
        if process.same_netns {
            fs::hard_link(self.root.path().join("thread-self/ns/net"), dir.join("ns/net")).unwrap();
        } else {
            fs::write(dir.join("ns/net"), "").unwrap();
        }
    }

    /// Rewrites `stat` in place: what a reused pid would show.
    pub(super) fn write_stat(&self, process: &FakeProcess) {
        let zeros = |count: usize| vec!["0"; count].join(" ");
        let stat = format!("{} ({}) S {} {} {} {}\n", process.pid, process.comm, process.parent, zeros(17), process.start_ticks, zeros(30));
        fs::write(self.of(process.pid).join("stat"), stat).unwrap();
    }

    pub(super) fn open_socket(&self, pid: u32, fd: u32, inode: u64) {
        symlink(format!("socket:[{inode}]"), self.of(pid).join(format!("fd/{fd}"))).unwrap();
    }

    pub(super) fn close(&self, pid: u32, fd: u32) {
        fs::remove_file(self.of(pid).join(format!("fd/{fd}"))).unwrap();
    }

    pub(super) fn end(&self, pid: u32) {
        fs::remove_dir_all(self.of(pid)).unwrap();
    }
}

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file size             unlimited            unlimited            bytes     
Max data size             unlimited            unlimited            bytes     
Max stack size            8388608              unlimited            bytes     
Max core file size        0                    unlimited            bytes     
Max resident set          unlimited            unlimited            bytes     
Max processes             31726                31726                processes 
Max open files            1024                 20000                files     
Max locked memory         8388608              8388608              bytes     
Max address space         unlimited            unlimited            bytes     
Max file locks            unlimited            unlimited            locks     
Max pending signals       31726                31726                signals   
Max msgqueue size         819200               819200               bytes     
Max nice priority         0                    0                    
Max realtime priority     0                    0                    
Max realtime timeout      unlimited            unlimited            us        
";
