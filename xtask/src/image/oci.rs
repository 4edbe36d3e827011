//! The image: one file on nothing, as an OCI archive, by buildah with storage of its own.

use super::{Architecture, Origin};
use crate::command::Step;
use crate::place;
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Builds the image into `archive` and returns its manifest's digest.
pub(super) fn build(architecture: Architecture, binary: &Path, origin: &Origin, archive: &Path) -> Result<String> {
    let work = Work::new(archive)?;
    let context = work.path.join("context");
    std::fs::create_dir_all(&context)?;
    std::fs::copy(binary, context.join("gwready"))?;
    std::fs::set_permissions(context.join("gwready"), std::fs::Permissions::from_mode(0o755))?;
    let committed = origin.committed.to_string();
    let name = format!("localhost/gwready:{}", origin.version);
    work.buildah("build")
        .args(["--isolation", "chroot", "--format", "oci", "--layers=false", "--pull=never"])
        .args(["--platform", &format!("linux/{}", architecture.oci_name())])
        // Times of files and image are the commit's.
        .args(["--timestamp", &committed])
        .args(["--build-arg", &format!("VERSION={}", origin.version)])
        .args(["--build-arg", &format!("REVISION={}", origin.revision)])
        .args(["--build-arg", &format!("CREATED={}", rfc3339(origin.committed))])
        .arg("--tag")
        .arg(&name)
        .arg("--file")
        .arg(place::workspace().join("deploy/image/Containerfile"))
        .arg(&context)
        .about(format!("building the image for {}", architecture.oci_name()))
        .read()?;
    let digest = work.path.join("digest");
    if archive.exists() {
        std::fs::remove_file(archive)?;
    }
    work.buildah("push")
        .args(["--quiet", "--format", "oci", "--digestfile"])
        .arg(&digest)
        .arg(&name)
        .arg(format!("oci-archive:{}:{}", archive.display(), origin.version))
        .read()?;
    let digest = std::fs::read_to_string(&digest).context("buildah told no digest")?;
    Ok(digest.trim().to_owned())
}

/// Storage and context of one build; removed at the end.
struct Work {
    path: std::path::PathBuf,
}

impl Work {
    fn new(archive: &Path) -> Result<Self> {
        let path = archive.with_extension("work");
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    fn buildah(&self, command: &str) -> Step {
        Step::new("buildah")
            .args(["--storage-driver", "vfs", "--root"])
            .arg(self.path.join("root"))
            .arg("--runroot")
            .arg(self.path.join("run"))
            .arg(command)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("xtask: remove {} by hand: {error}", self.path.display());
        }
    }
}

/// Seconds since the Unix epoch as a UTC time (civil-from-days, by whole eras of 400 years).
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_leap_years() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_799, "2024-02-28T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
