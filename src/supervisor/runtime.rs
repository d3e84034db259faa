//! What runs in workers, and which journals it can go on from.

use std::sync::{Mutex, PoisonError};

use crate::domain::cluster::routing::{AGREEING, agree, short_code};
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::session::Failure;
use crate::engine::ports::dispatch::Runtime;

/// What the newest worker or zygote has said about itself.
pub struct KnownRuntime(Mutex<Runtime>);

impl KnownRuntime {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self(Mutex::new(Runtime { agent: None, code: String::new(), python: String::new(), replay: true, pin: false }))
    }

    /// Something has said what it runs; `python` is its full version.
    pub fn learn(&self, said: Runtime) {
        let learned = Runtime { python: minor(&said.python), ..said };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = learned;
    }

    /// Whether it is `code`.
    pub fn runs(&self, code: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).code == code
    }

    /// Whether it goes on with no turn that other code has recorded.
    pub fn pins(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pin
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

/// Why a worker with this version of Python, whose agent may be `pinned_to` its code, must not go on from `journal`, if it
/// must not.
///
/// What counts is who wrote something: a worker that took the turn over and was refused has left only its name.
pub fn refusal(journal: &[RecordedEntry], python: &str, pinned_to: Option<&str>) -> Option<Failure> {
    let python = minor(python);
    let (mut taker, mut writer) = (None, None);
    for recorded in journal {
        match &recorded.entry {
            Entry::Start { code, python, .. } | Entry::Taken { code, python, .. } => taker = Some((code, python)),
            entry if entry.is_of_turn() => {
                if let Some((_, under)) = taker.filter(|(_, under)| !agree(under, &python)) {
                    return Some(unsupported(under, &python));
                }
                writer = taker;
            }
            _ => {}
        }
    }
    let (wrote, _) = writer?;
    pinned_to.filter(|code| wrote != code).map(|code| pinned(wrote, code))
}

fn pinned(recorded: &str, code: &str) -> Failure {
    let (recorded, code) = (short_code(recorded), short_code(code));
    Failure::new(
        "code_pinned",
        format!(
            "This turn was recorded by code {recorded}, and its agent says pin=True: code {code} does not go on with it. \
             Nothing was run; start a server with code {recorded}, which takes it up"
        ),
    )
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
        started("a", python)
    }

    fn started(code: &str, python: &str) -> Entry {
        Entry::Start {
            code: code.to_owned(),
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
            assert_eq!(refusal(&journal(&[start(recorded), WORD]), python, None), None, "{recorded} on {python}");
        }
    }

    #[test]
    fn others_are_refused_with_both_named() {
        for (recorded, python) in [("3.11", "3.14.0"), ("3.14", "3.12.1"), ("3.14", "3.15.0")] {
            let failure = refusal(&journal(&[start(recorded), WORD]), python, None).expect(recorded);
            assert_eq!(failure.code, "python_unsupported");
            let minor = minor(python);
            assert!(failure.message.contains(recorded) && failure.message.contains(&minor), "{}", failure.message);
        }
    }

    #[test]
    fn a_turn_that_has_said_nothing_begins_anywhere() {
        let answer = Entry::Expire { interrupt_id: crate::domain::InterruptId(uuid::Uuid::nil()) };
        assert_eq!(refusal(&journal(&[start("3.11"), taken("3.14"), answer]), "3.14.0", None), None);
    }

    #[test]
    fn a_version_that_was_refused_does_not_count() {
        let tried = [start("3.12"), WORD, taken("3.14"), taken("3.12"), WORD];
        assert_eq!(refusal(&journal(&tried), "3.12.4", None), None);
        assert!(refusal(&journal(&tried[..3]), "3.14.0", None).is_some());
    }

    #[test]
    fn whoever_is_pinned_goes_on_with_what_its_own_code_wrote() {
        let taken_by = |code: &str| Entry::Taken { code: code.to_owned(), python: "3.11".to_owned(), policy: None };
        let of_v1 = [started("v1", "3.11"), WORD, taken_by("v2")];
        let failure = refusal(&journal(&of_v1), "3.11.2", Some("v2")).expect("another code wrote it");
        assert_eq!(failure.code, "code_pinned");
        assert!(
            failure.message.contains("recorded by code v1") && failure.message.contains("code v2 does not"),
            "{failure:?}"
        );
        assert!(failure.is_of_replay() && failure.is_mended_by_code());
        assert_eq!(refusal(&journal(&of_v1), "3.11.2", None), None);
        assert_eq!(refusal(&journal(&[&of_v1[..], &[taken_by("v1")]].concat()), "3.11.2", Some("v1")), None);
        // Nobody has written anything to it.
        assert_eq!(refusal(&journal(&[started("v1", "3.11"), taken_by("v2")]), "3.11.2", Some("v2")), None);
        // It went on with it before it was pinned.
        assert_eq!(refusal(&journal(&[&of_v1[..], &[WORD]].concat()), "3.11.2", Some("v2")), None);
    }
}
