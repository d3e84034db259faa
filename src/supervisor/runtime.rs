//! What runs in workers, and which journals it can go on from.

use std::sync::{Mutex, PoisonError};

use crate::domain::cluster::routing::{AGREEING, agree};
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::session::Failure;
use crate::engine::ports::dispatch::Runtime;

/// What the newest worker or zygote has said about itself.
pub struct KnownRuntime(Mutex<Runtime>);

impl KnownRuntime {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self(Mutex::new(Runtime { agent: None, code: String::new(), python: String::new(), replay: true }))
    }

    /// Something has said what it runs; `python` is its full version.
    pub fn learn(&self, python: &str, agent: Option<String>, code: String, replay: bool) {
        let learned = Runtime { agent, code, python: minor(python), replay };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = learned;
    }

    /// Whether it is `code`.
    pub fn runs(&self, code: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).code == code
    }

    /// What is known.
    pub fn get(&self) -> Runtime {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// `3.11` of `3.11.7`.
fn minor(python: &str) -> String {
    python.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
}

/// The code that goes on with the turn, as its journal has it.
pub fn recorded(journal: &[RecordedEntry]) -> Option<&str> {
    journal.iter().rev().find_map(|recorded| match &recorded.entry {
        Entry::Start { code, .. } | Entry::Taken { code, .. } => Some(code.as_str()),
        _ => None,
    })
}

/// Why a worker with this version of Python must not go on from `journal`, if it must not.
///
/// What counts is who wrote something: a worker that took the turn over and was refused has left only its name.
pub fn refusal(journal: &[RecordedEntry], python: &str) -> Option<Failure> {
    let python = minor(python);
    let mut writer = None;
    for recorded in journal {
        match &recorded.entry {
            Entry::Start { python, .. } | Entry::Taken { python, .. } => writer = Some(python),
            entry if entry.is_of_turn() => {
                if let Some(writer) = writer.filter(|writer| !agree(writer, &python)) {
                    return Some(unsupported(writer, &python));
                }
            }
            _ => {}
        }
    }
    None
}

fn unsupported(recorded: &str, python: &str) -> Failure {
    Failure::new(
        "python_unsupported",
        format!(
            "This turn was recorded on Python {recorded} and cannot be continued on Python {python}: only {} are known \
             to replay each other's turns. Nothing was run; start the server with Python {recorded}, then retry",
            AGREEING.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn journal(entries: &[Entry]) -> Vec<RecordedEntry> {
        entries.iter().map(|entry| RecordedEntry { at: Timestamp::from_millis(0), entry: entry.clone() }).collect()
    }

    fn start(python: &str) -> Entry {
        Entry::Start {
            code: "a".to_owned(),
            python: python.to_owned(),
            policy: false,
            abandoned: None,
            traceparent: None,
        }
    }

    fn taken(python: &str) -> Entry {
        Entry::Taken { code: "a".to_owned(), python: python.to_owned(), policy: None }
    }

    const WORD: Entry = Entry::Pause { timers: Vec::new(), context: None };

    #[test]
    fn versions_that_agree_go_on_from_each_other() {
        for (recorded, python) in [("3.11", "3.13.1"), ("3.13", "3.11.7"), ("3.14", "3.14.2"), ("3.10", "3.10.0")] {
            assert_eq!(refusal(&journal(&[start(recorded), WORD]), python), None, "{recorded} on {python}");
        }
    }

    #[test]
    fn others_are_refused_with_both_named() {
        for (recorded, python) in [("3.11", "3.14.0"), ("3.14", "3.12.1"), ("3.14", "3.15.0")] {
            let failure = refusal(&journal(&[start(recorded), WORD]), python).expect(recorded);
            assert_eq!(failure.code, "python_unsupported");
            let minor = minor(python);
            assert!(failure.message.contains(recorded) && failure.message.contains(&minor), "{}", failure.message);
        }
    }

    #[test]
    fn a_turn_that_has_said_nothing_begins_anywhere() {
        let answer = Entry::Expire { interrupt_id: crate::domain::InterruptId(uuid::Uuid::nil()) };
        assert_eq!(refusal(&journal(&[start("3.11"), taken("3.14"), answer]), "3.14.0"), None);
    }

    #[test]
    fn a_version_that_was_refused_does_not_count() {
        let tried = [start("3.12"), WORD, taken("3.14"), taken("3.12"), WORD];
        assert_eq!(refusal(&journal(&tried), "3.12.4"), None);
        assert!(refusal(&journal(&tried[..3]), "3.14.0").is_some());
    }
}
