//! Names of pods by endpoint id, from `<run_dir>/state/<id>/ep_config.json`; a file is read again only when it is another one.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use gwready_core::lb::local::{PodName, parse_pod_name};
use rustix::fs::stat;

/// Longest endpoint file that is read, bytes. Real ones have some kilobytes.
const LONGEST: u64 = 1 << 20;
/// Names kept at most.
const KEPT: usize = 1024;

/// Inode and change time of an endpoint file.
type Identity = (u64, i64, u64);

/// Names that were read, by endpoint id.
#[derive(Default)]
pub(super) struct PodNames {
    known: HashMap<u16, (Identity, Option<PodName>)>,
}

impl PodNames {
    /// The pod of an endpoint; none where the folder has no name (or can't be read: then the address alone names it).
    pub(super) fn read(&mut self, run_dir: &Path, id: u16) -> Option<PodName> {
        let path = run_dir.join("state").join(id.to_string()).join("ep_config.json");
        let found = stat(&path).ok().filter(|found| u64::try_from(found.st_size).is_ok_and(|size| size <= LONGEST))?;
        let identity = (found.st_ino, found.st_ctime, found.st_ctime_nsec);
        if let Some((_, name)) = self.known.get(&id).filter(|(known, _)| *known == identity) {
            return name.clone();
        }
        let name = fs::read_to_string(&path).ok().and_then(|text| parse_pod_name(&text));
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(id, (identity, name.clone()));
        name
    }
}
