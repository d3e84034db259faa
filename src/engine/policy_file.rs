//! The policy file: read at the start, and again whenever it changes. What cannot be read changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Engine, clock};
use crate::domain::Timestamp;
use crate::domain::policy::{Rules, file};

/// How often it is looked at. Looking takes a system call.
const INTERVAL: Duration = Duration::from_millis(500);

/// Why a file gives no rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy in {} cannot be used: {why}", path.display())]
pub struct PolicyError {
    /// Which.
    pub path: PathBuf,
    /// What is wrong; with the line where it is the text.
    pub why: String,
}

/// How the policy file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatus {
    /// How many rules hold.
    pub rules: usize,
    /// Since when.
    pub loaded_at: Timestamp,
    /// Why the file as it is now does not count; the rules are those from before.
    pub error: Option<String>,
}

/// What tells one state of a file from another without reading it.
type Stamp = Option<(SystemTime, u64)>;

/// Reads a policy file.
///
/// # Errors
/// [`PolicyError`].
pub fn load(path: &Path) -> Result<Rules, PolicyError> {
    let refused = |why: String| PolicyError { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    file::read(&text).map_err(|error| refused(error.to_string()))
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl Engine {
    /// Has the rules of the file at `path` hold, `rules` being what was read of it, and follows its changes until the
    /// engine stops.
    pub fn follow_policy(self: &Arc<Self>, path: PathBuf, rules: Rules) {
        self.policies.loaded(rules);
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            // What changed between the reading and now is read again.
            let mut seen: Stamp = None;
            loop {
                tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    () = tokio::time::sleep(INTERVAL) => {}
                }
                let (path, before) = (path.clone(), seen);
                let look = move || {
                    let now = stamp(&path);
                    (now, (now != before || now.is_none()).then(|| load(&path)))
                };
                let Ok((now, read)) = tokio::task::spawn_blocking(look).await else { continue };
                seen = now;
                if let Some(read) = read {
                    engine.policies.reload(read);
                }
            }
        });
    }

    /// How the policy file is; `None` where there is none.
    pub fn policy_status(&self) -> Option<PolicyStatus> {
        self.policies.status()
    }
}

impl PolicyStatus {
    /// That of rules that hold from now on.
    pub fn of(rules: &Rules) -> Self {
        Self { rules: rules.len(), loaded_at: clock::now(), error: None }
    }
}
