//! Reading and writing the state file. Knows nothing of its content but the version.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::saved::{Saved, VERSION};

/// Larger files are not ours.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The file `state.json` in a folder.
#[derive(Debug, Clone)]
pub struct StateFile {
    folder: PathBuf,
    path: PathBuf,
}

impl StateFile {
    /// In this folder. Nothing is touched yet.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), path: folder.join("state.json") }
    }

    /// What is saved, and a sentence to warn with when a file is there but can't be used.
    #[must_use]
    pub fn read(&self) -> (Saved, Option<String>) {
        let fresh = |sentence: String| (Saved::default(), Some(format!("{}: {sentence}; starting fresh", self.path.display())));
        let text = match self.read_text() {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (Saved::default(), None),
            Err(error) => return fresh(error.to_string()),
        };
        let tree: serde_json::Value = match serde_json::from_str(&text) {
            Ok(tree) => tree,
            Err(error) => return fresh(format!("not a state file ({error})")),
        };
        if !tree.is_object() {
            return fresh("not a state file".to_owned());
        }
        match serde_json::from_value::<Saved>(tree) {
            Ok(saved) if saved.version > VERSION => fresh(format!("version {} is of a newer agent", saved.version)),
            Ok(saved) => (Saved { version: VERSION, ..saved }, None),
            Err(error) => fresh(format!("not a state file ({error})")),
        }
    }

    fn read_text(&self) -> io::Result<String> {
        let mut text = String::new();
        let mut file = File::open(&self.path)?.take(MAX_BYTES + 1);
        file.read_to_string(&mut text)?;
        if file.limit() == 0 { Err(io::Error::new(io::ErrorKind::InvalidData, "too large")) } else { Ok(text) }
    }

    /// Replaces the file, whole or not at all: a new file, synced, renamed over the old one, folder synced.
    ///
    /// # Errors
    /// As the file system's; the old file is then unchanged.
    pub fn write(&self, saved: &Saved) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o755).create(&self.folder)?;
        let fresh = self.folder.join(format!("state.json.{}", std::process::id()));
        let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh).and_then(|mut file| {
            file.write_all(&serde_json::to_vec(saved)?)?;
            file.sync_all()
        });
        let renamed = written.and_then(|()| std::fs::rename(&fresh, &self.path));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&fresh);
        }
        renamed?;
        File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gwready_core::facts::DrainRequest;
    use gwready_core::render::log_line::{Level, Line};
    use gwready_core::render::transition::Transition;
    use gwready_core::time::{Mono, Now};
    use gwready_core::verdict::State;

    use super::super::{HISTORY, LastVerdict};
    use super::*;

    fn transition(n: u64) -> Transition {
        Transition {
            at_unix_ms: n,
            from: Some(State::Up),
            to: State::Down,
            reason: None,
            line: Line::new(Level::Warn, "node DOWN").field("n", n),
        }
    }

    fn full() -> Saved {
        let mut saved = Saved {
            drain: Some(DrainRequest { by: "uid 0".to_owned(), reason: "x".to_owned(), asked_unix_ms: 5, until_unix_ms: Some(9) }),
            last: Some(LastVerdict { state: State::Down, reason: None, since: Now { mono: Mono(7), unix_ms: 1_000 }, at_unix_ms: 100_000 }),
            ports_seen: [(80, Mono(1)), (443, Mono(2))].into(),
            families_seen: [gwready_core::net::Family::Ipv4].into(),
            ..Saved::default()
        };
        (0..100).for_each(|n| saved.push(transition(n)));
        saved
    }

    #[test]
    fn what_is_written_is_read_back_and_history_is_bounded() {
        let dir = tempfile::tempdir().expect("folder");
        let file = StateFile::in_folder(&dir.path().join("a/b"));
        assert_eq!(file.read(), (Saved::default(), None), "no file is no fault");
        file.write(&full()).expect("written");
        let (saved, warning) = file.read();
        assert_eq!((&saved, warning), (&full(), None));
        assert_eq!((saved.transitions.len(), saved.transitions[0].at_unix_ms), (HISTORY, 36));
        assert_eq!(std::fs::read_dir(dir.path().join("a/b")).expect("folder").count(), 1, "nothing left beside it");
    }

    #[test]
    fn a_file_that_is_no_state_file_warns_and_starts_fresh() {
        let dir = tempfile::tempdir().expect("folder");
        let file = StateFile::in_folder(dir.path());
        for text in ["", "{", "[]", "\u{0}\u{0}", "{\"version\":99}", "{\"ports_seen\":{\"99999\":1}}"] {
            std::fs::write(dir.path().join("state.json"), text).expect("file");
            let (saved, warning) = file.read();
            assert_eq!(saved, Saved::default(), "{text}");
            assert!(warning.expect("warning").contains("starting fresh"), "{text}");
        }
        file.write(&full()).expect("replaces it");
        assert_eq!(file.read(), (full(), None));
    }

    #[test]
    fn a_file_of_an_older_agent_is_read_with_defaults() {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::write(dir.path().join("state.json"), "{\"ports_seen\":{\"80\":5},\"unheard_of\":1}").expect("file");
        let (saved, warning) = StateFile::in_folder(dir.path()).read();
        assert_eq!((saved.ports_seen, warning), ([(80, Mono(5))].into(), None));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let dir = tempfile::tempdir().expect("folder");
        let file = StateFile::in_folder(dir.path());
        file.write(&full()).expect("written");
        std::fs::create_dir(dir.path().join(format!("state.json.{}", std::process::id()))).expect("in the way");
        assert!(file.write(&Saved::default()).is_err());
        assert_eq!(file.read().0, full());
    }

    #[test]
    fn a_young_down_counts_and_an_old_one_does_not() {
        let saved = full();
        for (now, young) in [(100_000, true), (159_999, true), (160_000, false), (50_000, true)] {
            assert_eq!(saved.was_down_within(Duration::from_secs(60), now), young, "{now}");
        }
        let memory = saved.recall(110_000);
        assert!(memory.was_down && !memory.started && memory.ports_seen == saved.ports_seen && memory.families_seen == saved.families_seen);
        assert!(saved.drain_in_force(8).is_some() && saved.drain_in_force(9).is_none());
    }
}
