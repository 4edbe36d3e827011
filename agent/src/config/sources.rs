//! Where the configuration comes from: file, environment, `--set`. Reads them; the values are parsed elsewhere.

use std::path::PathBuf;

use super::faults::{Faults, Origin};
use super::given::Given;
use super::overrides::{CONFIG_VARIABLE, take_settings, take_variables};
use super::yaml::parse_yaml;

/// What names this node when the configuration does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// The variable NODE_NAME, if set.
    pub node_name_variable: Option<String>,
    /// The kernel's host name.
    pub host_name: String,
}

/// The sources of one start, as plain values, so that a test can make them up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources {
    /// `--config`; it wins over `GWREADY_CONFIG`.
    pub file: Option<PathBuf>,
    /// Every variable of the environment.
    pub variables: Vec<(String, String)>,
    /// `--set` arguments.
    pub settings: Vec<String>,
    /// Names of the node.
    pub names: Host,
}

impl Sources {
    /// The sources of this process. Variables that are not UTF-8 can't be ours and are left out.
    #[must_use]
    pub fn of_this_process(file: Option<PathBuf>, settings: Vec<String>) -> Self {
        let variables: Vec<(String, String)> =
            std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?))).collect();
        let node_name_variable =
            variables.iter().find(|(name, text)| name == "NODE_NAME" && !text.is_empty()).map(|(_, text)| text.clone());
        let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { file, variables, settings, names: Host { node_name_variable, host_name } }
    }

    /// The configuration file, from `--config` or the environment.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        let from_variable =
            || self.variables.iter().find(|(name, text)| name == CONFIG_VARIABLE && !text.is_empty()).map(|(_, text)| text.into());
        self.file.clone().or_else(from_variable)
    }

    /// Reads all of them, weakest first.
    pub(super) fn read_given(&self, faults: &mut Faults) -> Given {
        let mut given = Given::default();
        if let Some(path) = self.file() {
            let origin = Origin::File(path.display().to_string());
            let tree = std::fs::read(&path)
                .map_err(|error| format!("can't be read: {error}"))
                .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned()))
                .and_then(|text| parse_yaml(&text));
            match tree {
                Ok(tree) => given.take_tree(&tree, &origin, faults),
                Err(sentence) => faults.add(origin, "", sentence),
            }
        }
        take_variables(&mut given, &self.variables, faults);
        take_settings(&mut given, &self.settings, faults);
        given
    }
}
