//! `cargo xtask image`: the static binaries, one image per architecture, and their bill of materials.
//!
//! The same commit gives the same bytes: paths are remapped, times are the commit's, and `--verify` builds
//! everything a second time and compares.

mod binary;
mod elf;
mod oci;
mod sbom;

use crate::command::Step;
use crate::{build, place, setup};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Largest static binary, bytes.
const LARGEST_BINARY: u64 = 10 << 20;
/// Largest image, bytes: the compressed layers with their descriptions.
const LARGEST_IMAGE: u64 = 12 << 20;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this architecture; may be repeated
    #[arg(long = "arch", value_enum)]
    architectures: Vec<Architecture>,
    /// Where images, binaries and bills of materials go
    #[arg(long, default_value = "target/image")]
    output: PathBuf,
    /// Stop after the binaries: no buildah is needed
    #[arg(long)]
    binaries: bool,
    /// Build everything twice, in fresh folders, and compare
    #[arg(long)]
    verify: bool,
    /// Run the tests of the image afterwards (root): both architectures are needed
    #[arg(long = "try", conflicts_with_all = ["architectures", "binaries"])]
    try_it: bool,
}

/// What a node may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Architecture {
    /// amd64
    #[value(name = "x86_64")]
    X8664,
    /// arm64
    Aarch64,
}

impl Architecture {
    const ALL: [Self; 2] = [Self::X8664, Self::Aarch64];

    /// As Rust names it.
    fn name(self) -> &'static str {
        match self {
            Self::X8664 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// As images name it.
    fn oci_name(self) -> &'static str {
        match self {
            Self::X8664 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    fn target(self) -> String {
        format!("{}-unknown-linux-musl", self.name())
    }
}

/// What the image says about itself; all of it follows from the commit.
struct Origin {
    version: &'static str,
    revision: String,
    /// Seconds since the Unix epoch.
    committed: u64,
}

/// Builds what is asked for and says where it is.
///
/// # Errors
/// A tool is missing, a build fails, something is larger than allowed, or two builds differ.
pub(crate) fn run(options: &Options) -> Result<()> {
    let architectures = if options.architectures.is_empty() { Architecture::ALL.to_vec() } else { options.architectures.clone() };
    setup::install(setup::Group::Image)?;
    let object = build::ebpf()?;
    let origin = origin()?;
    let output = place::workspace().join(&options.output);
    std::fs::create_dir_all(&output)?;
    for architecture in architectures {
        let first = make(architecture, options, &object, &origin, &output, &place::target().join("image-build"))?;
        if options.verify {
            let again = output.join("verify");
            let second = make(architecture, options, &object, &origin, &again, &again.join("build"))?;
            ensure!(first == second, "two builds of {} differ: {first:?} and {second:?}", architecture.name());
            std::fs::remove_dir_all(&again)?;
            eprintln!("    two builds are equal");
        }
    }
    if options.try_it { try_image(&output, &object) } else { Ok(()) }
}

/// Builds the binary of the image for this machine's architecture and returns its path: what benchmarks measure.
///
/// # Errors
/// The architecture is not one of the image's, or the build fails.
pub(crate) fn static_binary(object: &Path) -> Result<PathBuf> {
    let here = std::env::consts::ARCH;
    let architecture = Architecture::ALL.into_iter().find(|architecture| architecture.name() == here);
    let architecture = architecture.with_context(|| format!("no image is built for {here}"))?;
    let folder = place::target().join("image-build");
    let binary = folder.join("gwready");
    std::fs::create_dir_all(&folder)?;
    binary::build(architecture, object, origin()?.committed, &folder, &binary)?;
    Ok(binary)
}

/// The tests of the package gwready-tests that need an image.
fn try_image(images: &Path, object: &PathBuf) -> Result<()> {
    setup::install(setup::Group::TryImage)?;
    let agent = build::binary("gwready", build::Profile::Dev, object)?;
    Step::cargo()
        .args(["test", "--workspace", "--features", "gwready-tests/image", "--test", "deploy_image"])
        .env(build::OBJECT_VARIABLE, object)
        .env("XTASK_IMAGES", images)
        .env("XTASK_BIN", agent)
        .env("XTASK_ENVOY", setup::envoy()?)
        .about("tests of the image")
        .run()
}

/// The two digests that must be the same in every build.
#[derive(Debug, PartialEq, Eq)]
struct Made {
    binary: String,
    image: Option<String>,
}

fn make(architecture: Architecture, options: &Options, object: &Path, origin: &Origin, output: &Path, build_folder: &Path) -> Result<Made> {
    std::fs::create_dir_all(output)?;
    let binary = output.join(format!("gwready-{}", architecture.name()));
    binary::build(architecture, object, origin.committed, build_folder, &binary)?;
    elf::check_static(&std::fs::read(&binary)?, architecture)?;
    within(&binary, LARGEST_BINARY)?;
    let digest = sha256(&binary)?;
    eprintln!("    {} {digest}", binary.display());
    let bill = output.join(format!("gwready-{}.cdx.json", architecture.name()));
    std::fs::write(&bill, sbom::render(&sbom::metadata(&architecture.target())?, &digest)?)?;
    if options.binaries {
        return Ok(Made { binary: digest, image: None });
    }
    let archive = output.join(format!("gwready-{}.oci.tar", architecture.oci_name()));
    let image = oci::build(architecture, &binary, origin, &archive)?;
    within(&archive, LARGEST_IMAGE)?;
    eprintln!("    {} {image}", archive.display());
    Ok(Made { binary: digest, image: Some(image) })
}

fn origin() -> Result<Origin> {
    let git = |args: &[&str]| Step::new("git").args(args).current_dir(&place::workspace()).read();
    let shown = git(&["show", "--no-patch", "--format=%H %ct", "HEAD"])?;
    let (revision, committed) = shown.trim().split_once(' ').context("git show printed no commit")?;
    let dirty = if git(&["status", "--porcelain"])?.is_empty() { "" } else { "-modified" };
    Ok(Origin { version: env!("CARGO_PKG_VERSION"), revision: format!("{revision}{dirty}"), committed: committed.parse()? })
}

fn within(file: &Path, limit: u64) -> Result<()> {
    let size = file.metadata()?.len();
    ensure!(size <= limit, "{} has {size} bytes, {limit} are allowed", file.display());
    eprintln!("    {} bytes of {limit} allowed", size);
    Ok(())
}

fn sha256(file: &Path) -> Result<String> {
    let printed = Step::new("sha256sum").arg(file).read()?;
    Ok(printed.split_whitespace().next().context("sha256sum printed nothing")?.to_owned())
}
