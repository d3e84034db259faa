//! The policy file: read at the start, and again whenever it has changed and settled.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;

use crate::domain::policy::{digest, file};
use crate::engine::access::policy_file::{LoadedPolicy, PolicyError, PolicyFault, PolicySource, RulesSource};

/// How often it is looked at. It is read each time: its text says whether it has changed, and it is small.
const INTERVAL: Duration = Duration::from_millis(500);

/// How a file was at one look.
#[derive(Debug, PartialEq, Eq)]
struct FileSnapshot {
    changed_at: Option<SystemTime>,
    text: Result<String, (PolicyFault, String)>,
}

impl FileSnapshot {
    fn at(path: &Path) -> Self {
        let changed_at = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let text = std::fs::read_to_string(path).map_err(|error| (fault_of(&error), error.to_string()));
        Self { changed_at, text }
    }

    fn read(&self, path: &Path) -> Result<LoadedPolicy, PolicyError> {
        let source = PolicySource::File(path.to_owned());
        let refused = |fault, why| PolicyError { from: source.clone(), why, fault };
        let text = self.text.as_ref().map_err(|(fault, why)| refused(*fault, why.clone()))?;
        let rules = file::read(text).map_err(|error| refused(PolicyFault::Rules, error.to_string()))?;
        Ok(LoadedPolicy { rules, digest: digest(text), source })
    }
}

fn fault_of(error: &std::io::Error) -> PolicyFault {
    match error.kind() {
        ErrorKind::NotFound => PolicyFault::Missing,
        ErrorKind::PermissionDenied => PolicyFault::Forbidden,
        _ => PolicyFault::NoText,
    }
}

/// Says when a file has settled: it was the same at two looks, one after the other.
#[derive(Debug, Default)]
struct Debounce {
    last: Option<FileSnapshot>,
    /// Whether what was seen last has been told.
    is_told: bool,
}

impl Debounce {
    /// What is to be taken at this look, if anything. What is half written may parse.
    fn see(&mut self, look: FileSnapshot) -> Option<&FileSnapshot> {
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
pub fn load(path: &Path) -> Result<LoadedPolicy, PolicyError> {
    FileSnapshot::at(path).read(path)
}

/// A policy file that is looked at again and again.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    debounce: Debounce,
}

impl WatchedFile {
    /// The file at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self { path, debounce: Debounce::default() }
    }

    async fn next(&mut self) -> Result<LoadedPolicy, PolicyError> {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Some(read) = self.look().await {
                return read;
            }
        }
    }

    /// What there is to be told of at this look.
    async fn look(&mut self) -> Option<Result<LoadedPolicy, PolicyError>> {
        let (path, mut before) = (self.path.clone(), std::mem::take(&mut self.debounce));
        let look = move || {
            let read = before.see(FileSnapshot::at(&path)).map(|look| look.read(&path));
            (before, read)
        };
        let read;
        (self.debounce, read) = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        read
    }
}

impl RulesSource for WatchedFile {
    fn changed(&mut self) -> BoxFuture<'_, Result<LoadedPolicy, PolicyError>> {
        Box::pin(self.next())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn look(changed: u64, text: &str) -> FileSnapshot {
        FileSnapshot {
            changed_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(changed)),
            text: Ok(text.to_owned()),
        }
    }

    #[test]
    fn only_what_can_be_read_is_told_what_a_rule_looks_like() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.toml");
        assert!(load(&path).unwrap_err().hint().contains("working directory"));
        std::fs::write(&path, "[[rule]]\nname = 1\n").unwrap();
        assert!(load(&path).unwrap_err().hint().contains("[[rule]]"));
        let wrong = "[[rule]]\nname = \"pay\"\ntool = \"pay\"\neffect = \"deny\"\nwhen = \"args.amount >\"";
        std::fs::write(&path, wrong).unwrap();
        let refused = load(&path).unwrap_err();
        assert!(refused.hint().contains("an expression of CEL"), "{refused}");
        assert!(load(directory.path()).unwrap_err().hint().contains("file of text"));
        std::fs::write(&path, b"name = \"\xff\"").unwrap();
        assert!(load(&path).unwrap_err().hint().contains("UTF-8"));
        // Whoever runs the tests may be somebody who can read everything.
        assert_eq!(fault_of(&ErrorKind::PermissionDenied.into()), PolicyFault::Forbidden);
    }

    #[test]
    fn a_file_is_taken_once_when_it_was_the_same_at_two_looks() {
        let mut debounce = Debounce::default();
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
            let taken = debounce.see(seen).map(|look| look.text.clone());
            assert_eq!(taken, is_taken.then_some(text));
        }
    }

    #[tokio::test]
    async fn what_is_half_written_is_not_taken_also_where_it_parses() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.toml");
        let rule = |tool: &str| format!("[[rule]]\nname = \"{tool}\"\neffect = \"deny\"\ntool = \"{tool}\"\n");
        let mut watched = WatchedFile::new(path.clone());
        std::fs::write(&path, rule("pay")).unwrap();
        assert!(watched.look().await.is_none());
        std::fs::write(&path, rule("pay") + &rule("refund")).unwrap();
        assert!(watched.look().await.is_none());
        assert_eq!(watched.look().await.unwrap().unwrap().rules.len(), 2);
        assert!(watched.look().await.is_none(), "it is told once");
    }

    #[test]
    fn a_file_that_cannot_be_read_settles_as_any_other() {
        let (directory, mut debounce) = (std::env::temp_dir(), Debounce::default());
        let gone = directory.join("hitl-no-such-policy.toml");
        assert!(debounce.see(FileSnapshot::at(&gone)).is_none());
        assert!(debounce.see(FileSnapshot::at(&gone)).is_some_and(|look| look.read(&gone).is_err()));
    }
}
