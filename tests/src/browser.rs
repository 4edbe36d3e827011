//! A real browser in a node: Chromium's headless shell, which lays pages out and paints them as the browser does.
//!
//! The shell and not the browser itself: a window of the browser is 500 pixels wide at least, and a phone's is not. Runs no
//! script of ours and talks to nobody but the page's own server: the namespace has no way out.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::Node;
use crate::paths;
use crate::wait::eventually;

/// The program, of the Debian package of the same name.
const SHELL: &str = "chromium-headless-shell";
/// Bound of one page load on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A painted page.
#[derive(Debug)]
pub struct Picture {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Three bytes for each pixel, row after row from the top.
    rgb: Vec<u8>,
}

impl Picture {
    /// Reads a PNG as the browser writes it.
    pub fn read(path: &Path) -> Result<Self> {
        let file = std::io::BufReader::new(fs::File::open(path)?);
        let mut reader = png::Decoder::new(file).read_info()?;
        let mut pixels = vec![0; reader.output_buffer_size().context("too large")?];
        let frame = reader.next_frame(&mut pixels)?;
        ensure!(frame.bit_depth == png::BitDepth::Eight, "{frame:?}");
        pixels.truncate(frame.buffer_size());
        let rgb = match frame.color_type {
            png::ColorType::Rgb => pixels,
            png::ColorType::Rgba => pixels.chunks_exact(4).flat_map(|pixel| pixel[..3].to_vec()).collect(),
            other => anyhow::bail!("{other:?}"),
        };
        Ok(Self { width: frame.width, height: frame.height, rgb })
    }

    /// The rows from `top` on all have one colour: nothing is painted there.
    #[must_use]
    pub fn is_blank_from(&self, top: u32) -> bool {
        let start = usize::try_from(top * self.width * 3).unwrap_or(usize::MAX);
        let rest = self.rgb.get(start..).unwrap_or_default();
        rest.chunks_exact(3).all(|pixel| pixel == &rest[..3])
    }
}

/// The document as the browser understood it, as HTML.
pub fn dump_dom(node: &Node, url: &str) -> Result<String> {
    browse(node, &["--dump-dom".to_owned()], url)
}

/// Paints a page in a window of this size, with scroll bars where it does not fit.
pub fn paint(node: &Node, url: &str, width: u32, height: u32) -> Result<Picture> {
    let file = node.fresh_path("picture").with_extension("png");
    browse(node, &[format!("--window-size={width},{height}"), format!("--screenshot={}", file.display())], url)?;
    let picture = Picture::read(&file).context("the browser painted nothing")?;
    if let Some(folder) = std::env::var_os("XTASK_PICTURES") {
        fs::create_dir_all(&folder)?;
        fs::copy(&file, Path::new(&folder).join(format!("{}-{width}x{height}.png", node.dir().file_name().unwrap_or_default().display())))?;
    }
    Ok(picture)
}

fn browse(node: &Node, options: &[String], url: &str) -> Result<String> {
    let profile = node.fresh_path("browser");
    let mut command = node.command(paths::installed(SHELL)?);
    // Its sandbox refuses to run as root. The page comes from the agent under test, in a namespace without a way out.
    command.args(["--no-sandbox", "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"]);
    command.arg(format!("--user-data-dir={}", profile.display())).env("HOME", &profile).args(options).arg(url);
    let (out, err) = (node.fresh_path("browser-out"), node.fresh_path("browser-err"));
    command.stdin(std::process::Stdio::null()).stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?);
    let mut child = node.space().spawn(command)?;
    let ended = eventually(PATIENCE, || child.try_wait()?.context("the browser still runs"));
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    let status = ended?;
    ensure!(status.success(), "{SHELL}: {status}: {}", fs::read_to_string(&err)?);
    Ok(fs::read_to_string(&out)?)
}
