//! One external command as a step: said before it starts, timed, and failing with one sentence.
//!
//! Must not decide what to run; it only runs it.

use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A command under construction, with what a person should be told about it.
pub(crate) struct Step {
    command: Command,
    program: String,
    about: Option<String>,
}

impl Step {
    /// A command that is not announced unless [`Step::about`] is called.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let command = Command::new(program.as_ref());
        let program = Path::new(program.as_ref()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { command, program, about: None }
    }

    /// `cargo` of the pinned toolchain, in the workspace root.
    pub(crate) fn cargo() -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut step = Self::new(cargo).current_dir(&crate::place::workspace());
        // `cargo xtask` sets these for this process; they must not leak into the builds it starts.
        for name in std::env::vars_os().map(|(name, _)| name) {
            if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
                step.command.env_remove(name);
            }
        }
        step
    }

    /// Sentence shown before the command starts; its time is shown at the end.
    pub(crate) fn about(mut self, sentence: impl Into<String>) -> Self {
        self.about = Some(sentence.into());
        self
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds several arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable.
    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets the working directory.
    pub(crate) fn current_dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    fn announce(&self) -> Instant {
        if let Some(about) = &self.about {
            eprintln!("==> {about}");
        }
        Instant::now()
    }

    fn conclude(&self, start: Instant) {
        if self.about.is_some() {
            eprintln!("    done in {:.1} s", start.elapsed().as_secs_f64());
        }
    }

    /// Runs it with our own standard streams.
    ///
    /// # Errors
    /// It can't be started or exits with anything but 0.
    pub(crate) fn run(mut self) -> Result<()> {
        let start = self.announce();
        let status = self.command.status().with_context(|| format!("cannot start {}", self.program))?;
        if !status.success() {
            bail!("{} failed ({status})", self.name());
        }
        self.conclude(start);
        Ok(())
    }

    /// Runs it, passing standard output through line by line, and shows each line to `each`.
    /// Returns whether it exited with 0.
    ///
    /// # Errors
    /// It can't be started or waited for.
    pub(crate) fn watch(mut self, mut each: impl FnMut(&str)) -> Result<bool> {
        let start = self.announce();
        let mut child = self.command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", self.program))?;
        if let Some(stdout) = child.stdout.take() {
            let mut ours = std::io::stdout();
            for line in BufReader::new(stdout).split(b'\n') {
                let line = line?;
                let text = String::from_utf8_lossy(&line);
                writeln!(ours, "{text}")?;
                each(&text);
            }
        }
        let status = child.wait()?;
        self.conclude(start);
        Ok(status.success())
    }

    /// Runs it and returns its standard output.
    ///
    /// # Errors
    /// It can't be started, exits with anything but 0, or prints no UTF-8; its last error line is in the message.
    pub(crate) fn read(mut self) -> Result<String> {
        let start = self.announce();
        let output = self.command.output().with_context(|| format!("cannot start {}", self.program))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
            bail!("{} failed ({}): {last}", self.name(), output.status);
        }
        self.conclude(start);
        String::from_utf8(output.stdout).with_context(|| format!("{} printed no UTF-8", self.program))
    }

    /// Becomes the command: same pid, so that Ctrl-C and exit code are the command's own.
    ///
    /// # Errors
    /// It can't be started; otherwise this never returns.
    pub(crate) fn become_it(mut self) -> Result<()> {
        use std::os::unix::process::CommandExt;
        self.announce();
        let error = self.command.exec();
        Err(error).with_context(|| format!("cannot start {}", self.program))
    }

    fn name(&self) -> String {
        let first = self.command.get_args().next().map(|arg| arg.to_string_lossy().into_owned());
        match first {
            Some(argument) => format!("`{} {argument}`", self.program),
            None => self.program.clone(),
        }
    }
}
