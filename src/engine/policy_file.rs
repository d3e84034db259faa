//! The policy file: read at the start, and again whenever it has changed and settled. What cannot be read changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::{Engine, clock};
use crate::domain::audit::{Action, Deed};
use crate::domain::digest::hex;
use crate::domain::policy::{Rules, file};
use crate::domain::{Error, Timestamp};
use crate::store::StoreExt;

/// How often it is looked at. It is read each time: its text says whether it has changed, and it is small.
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

/// What a file says.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// Its rules.
    pub rules: Rules,
    /// The digest of its text: `sha256:` and what `sha256sum` says.
    pub digest: String,
}

/// How the policy file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatus {
    /// How many rules hold.
    pub rules: usize,
    /// Of the file that they are from.
    pub digest: String,
    /// Since when.
    pub loaded_at: Timestamp,
    /// Why the file as it is now does not count; the rules are those from before.
    pub error: Option<String>,
}

/// How a file was at one look.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    changed_at: Option<SystemTime>,
    text: Result<String, String>,
}

impl Look {
    fn at(path: &Path) -> Self {
        let changed_at = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        Self { changed_at, text: std::fs::read_to_string(path).map_err(|error| error.to_string()) }
    }

    fn read(&self, path: &Path) -> Result<PolicyFile, PolicyError> {
        let refused = |why: String| PolicyError { path: path.to_owned(), why };
        let text = self.text.as_deref().map_err(|why| refused(why.to_owned()))?;
        let rules = file::read(text).map_err(|error| refused(error.to_string()))?;
        Ok(PolicyFile { rules, digest: format!("sha256:{}", hex(&Sha256::digest(text))) })
    }
}

/// Says when a file has settled: it was the same at two looks, one after the other.
#[derive(Debug, Default)]
struct Settling {
    last: Option<Look>,
    /// Whether what was seen last has been told.
    is_told: bool,
}

impl Settling {
    /// What is to be taken at this look, if anything. What is half written may parse.
    fn see(&mut self, look: Look) -> Option<&Look> {
        if self.last.as_ref() == Some(&look) {
            let is_new = !std::mem::replace(&mut self.is_told, true);
            return self.last.as_ref().filter(|_| is_new);
        }
        *self = Self { last: Some(look), is_told: false };
        None
    }
}

/// Reads a policy file.
///
/// # Errors
/// [`PolicyError`].
pub fn load(path: &Path) -> Result<PolicyFile, PolicyError> {
    Look::at(path).read(path)
}

impl Engine {
    /// Has the rules of the file at `path` hold, `file` being what was read of it, and follows its changes until the
    /// engine stops.
    ///
    /// # Errors
    /// The store's: the audit tells which rules hold.
    pub async fn follow_policy(self: &Arc<Self>, path: PathBuf, file: PolicyFile) -> Result<(), Error> {
        self.take_policy(&Ok(file)).await?;
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let mut settling = Settling::default();
            // What was read and is not in the audit yet.
            let mut waiting = None;
            loop {
                tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    () = tokio::time::sleep(INTERVAL) => {}
                }
                let (path, mut before) = (path.clone(), settling);
                let look = move || {
                    let read = before.see(Look::at(&path)).map(|look| look.read(&path));
                    (before, read)
                };
                let read;
                (settling, read) = tokio::task::spawn_blocking(look).await.unwrap_or_default();
                let Some(read) = read.or(waiting.take()) else { continue };
                if let Err(error) = engine.take_policy(&read).await {
                    tracing::error!(%error, "the policy file was read, but cannot be told to the audit; trying again");
                    waiting = Some(read);
                }
            }
        });
        Ok(())
    }

    /// Has what was read of the policy file hold, once the audit tells of it.
    async fn take_policy(&self, read: &Result<PolicyFile, PolicyError>) -> Result<(), Error> {
        let before = self.policies.status();
        let deed = match read {
            Ok(file) => {
                let is_as_before =
                    before.as_ref().is_some_and(|status| status.digest == file.digest && status.error.is_none());
                let deed = Deed::new(Action::PolicyLoaded)
                    .with("from", before.map(|status| status.digest))
                    .with("to", file.digest.as_str())
                    .with("rules", file.rules.len());
                (!is_as_before).then_some(deed)
            }
            Err(error) => {
                let is_as_before =
                    before.as_ref().is_some_and(|status| status.error.as_deref() == Some(error.why.as_str()));
                let deed = Deed::new(Action::PolicyRefused)
                    .with("keeps", before.map(|status| status.digest))
                    .with("error", error.why.as_str());
                (!is_as_before).then_some(deed)
            }
        };
        if let Some(deed) = deed {
            self.store.transact(move |tx| tx.append_audit(deed.clone(), clock::now())).await?;
            self.policies.take(read.clone());
        }
        Ok(())
    }

    /// How the policy file is; `None` where there is none.
    pub fn policy_status(&self) -> Option<PolicyStatus> {
        self.policies.status()
    }
}

impl PolicyStatus {
    /// That of rules that hold from now on.
    pub fn of(file: &PolicyFile) -> Self {
        Self { rules: file.rules.len(), digest: file.digest.clone(), loaded_at: clock::now(), error: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(changed: u64, text: &str) -> Look {
        Look { changed_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(changed)), text: Ok(text.to_owned()) }
    }

    #[test]
    fn a_file_is_taken_once_when_it_was_the_same_at_two_looks() {
        let mut settling = Settling::default();
        for (seen, is_taken) in [
            (look(1, "whole"), false),
            (look(1, "whole"), true),
            (look(1, "whole"), false),
            // While it is written.
            (look(2, ""), false),
            (look(3, "ha"), false),
            (look(3, "half"), false),
            (look(4, "half"), false),
            (look(4, "half"), true),
            // And then it is touched.
            (look(4, "half"), false),
            (look(5, "half"), false),
            (look(5, "half"), true),
        ] {
            let text = seen.text.clone();
            let taken = settling.see(seen).map(|look| look.text.clone());
            assert_eq!(taken, is_taken.then_some(text));
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_settles_as_any_other() {
        let (directory, mut settling) = (std::env::temp_dir(), Settling::default());
        let gone = directory.join("hitl-no-such-policy.toml");
        assert!(settling.see(Look::at(&gone)).is_none());
        assert!(settling.see(Look::at(&gone)).is_some_and(|look| look.read(&gone).is_err()));
    }
}
