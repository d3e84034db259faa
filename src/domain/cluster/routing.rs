//! Which of the servers that share a store goes on with a turn: one with the code that recorded it, while one is there.
//!
//! While a new version is rolled out, servers of both are there for a while. A journal is sure to replay under the code that
//! wrote it and may under another, so others take a turn where no server of that code is there any more, or where all of those
//! that are had no slot for [`super::Timings::starve`]. Whose code has failed with a turn ([`TurnCode::refused_by`]) leaves it to
//! those whose code has not, as long as one of them is there.

use std::collections::BTreeSet;

use crate::domain::journal::{CodeVersion, Entry, RecordedEntry};

/// Minor versions of Python on which hitl is tested, and whose journals were shown to replay each other's. This is the
/// only list: Python has it as `_core.PYTHONS`, and `make test-pythons` compares it with what it runs.
pub const AGREEING: [&str; 3] = ["3.11", "3.12", "3.13"];

/// Whether the one minor version of Python goes on from what the other one recorded.
pub fn agree(one: &str, other: &str) -> bool {
    one == other || (AGREEING.contains(&one) && AGREEING.contains(&other))
}

/// What servers compare: the agent's code, and with it the Python where no other one replays its journals. `None` where
/// nobody has said which code it is, as of a turn that has not begun.
pub fn routed_code(code: &str, python: &str) -> Option<CodeVersion> {
    match code {
        "" => None,
        code if AGREEING.contains(&python) => Some(code.replace('\0', "")),
        code => Some(format!("{code}/{python}").replace('\0', "")),
    }
}

/// The code for people and for figures: of a digest its beginning, of what its author calls it the first 32 characters.
pub fn short_code(code: &str) -> String {
    let (digest, python) = code.find('/').map_or((code, ""), |at| code.split_at(at));
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match digest.get(..8) {
        Some(beginning) if digest.len() == 16 && digest.bytes().all(is_digit) => format!("{beginning}{python}"),
        _ => code.chars().take(32).collect(),
    }
}

/// The code that has written to a journal last. Who took it up and wrote nothing has left only its name.
pub fn recorder(journal: &[RecordedEntry]) -> Option<CodeVersion> {
    let (mut taker, mut writer) = (None, None);
    for recorded in journal {
        match &recorded.entry {
            Entry::Start { code, python, .. } | Entry::Taken { code, python, .. } => taker = Some((code, python)),
            entry if entry.is_of_turn() => writer = taker,
            _ => {}
        }
    }
    writer.and_then(|(code, python)| routed_code(code, python))
}

/// What is known of a turn to those who might go on with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnCode {
    /// The code that goes on with it first: that had it last and did not fail with it. `None`: any.
    pub code: Option<CodeVersion>,
    /// The codes that have failed with it.
    pub refused_by: BTreeSet<CodeVersion>,
}

impl TurnCode {
    /// Taken up by `code`.
    pub fn taken_by(&self, code: Option<CodeVersion>) -> Self {
        Self { code, refused_by: self.refused_by.clone() }
    }

    /// `code` has failed with it, which `recorder` recorded.
    pub fn refused_by(&self, code: Option<CodeVersion>, recorder: Option<CodeVersion>) -> Self {
        Self { code: recorder, refused_by: self.refused_by.iter().cloned().chain(code).collect() }
    }

    /// Whether a server that runs `mine` may take it up now, where those that run `others` are there too and stay; `starved`:
    /// it could have gone on for so long that it does not matter any more who was to have it.
    pub fn may_be_taken(&self, mine: Option<&str>, others: &BTreeSet<CodeVersion>, starved: bool) -> bool {
        let has_failed = |code: &str| self.refused_by.contains(code);
        if mine.is_some_and(has_failed) {
            return others.iter().all(|code| has_failed(code));
        }
        let Some(code) = self.code.as_deref() else { return true };
        starved || mine == Some(code) || has_failed(code) || !others.contains(code)
    }

    /// Whether a server that runs `mine` and has failed with it lets go of it for one of those that run `others`, where the turn
    /// is what `recorder` recorded: not of what it recorded itself, which others replay no better.
    pub fn is_left_to(&self, others: &BTreeSet<CodeVersion>, mine: Option<&str>, recorder: Option<&str>) -> bool {
        let could = |code: &String| Some(code.as_str()) != mine && !self.refused_by.contains(code);
        recorder.is_some() && recorder != mine && others.iter().any(could)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::Timestamp;

    pub(crate) fn turn(code: Option<&str>, refused_by: &[&str]) -> TurnCode {
        let refused_by = refused_by.iter().map(|&code| code.to_owned()).collect();
        TurnCode { code: code.map(str::to_owned), refused_by }
    }

    fn others(codes: &[&str]) -> BTreeSet<CodeVersion> {
        codes.iter().map(|&code| code.to_owned()).collect()
    }

    type RoutingCase = (Option<&'static str>, &'static [&'static str], &'static [&'static str], [bool; 2]);

    /// A turn, by who recorded it and who refused it; which codes other servers run; whether one with `v2` takes it at once,
    /// and once it has starved. The database decides the same (`store::postgres::tests::routing`).
    pub(crate) const TABLE: [RoutingCase; 14] = [
        // By nobody, as before there was a column, or before it began: anybody's.
        (None, &[], &["v1"], [true, true]),
        (None, &[], &[], [true, true]),
        // Its own.
        (Some("v2"), &[], &["v1", "v2"], [true, true]),
        // Of v1: v1's while one is there, unless all of those have no slot.
        (Some("v1"), &[], &["v1"], [false, true]),
        (Some("v1"), &[], &["v1", "v3"], [false, true]),
        (Some("v1"), &[], &["v2", "v3"], [true, true]),
        (Some("v1"), &[], &[], [true, true]),
        // This code has failed with it: whoever has not goes before, however long that takes.
        (Some("v1"), &["v2"], &["v1"], [false, false]),
        (Some("v1"), &["v2"], &["v2", "v3"], [false, false]),
        (Some("v1"), &["v2"], &["v2"], [true, true]),
        (Some("v1"), &["v2"], &[], [true, true]),
        // So has the one that recorded it.
        (Some("v1"), &["v1"], &["v1"], [true, true]),
        (Some("v1"), &["v1", "v2"], &["v1"], [true, true]),
        (Some("v1"), &["v1", "v2"], &["v1", "v3"], [false, false]),
    ];

    #[test]
    fn a_turn_goes_to_the_code_that_recorded_it_while_that_is_there_and_has_a_slot() {
        for (code, refused_by, there, expected) in TABLE {
            let (turn, there) = (turn(code, refused_by), others(there));
            let taken = [false, true].map(|starved| turn.may_be_taken(Some("v2"), &there, starved));
            assert_eq!(taken, expected, "{turn:?} beside {there:?}");
        }
    }

    #[test]
    fn every_turn_is_taken_by_some_server_that_is_there() {
        let codes = ["v1", "v2", "v3"];
        let subsets = |mask: usize| -> Vec<&str> {
            codes.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0).map(|(_, code)| *code).collect()
        };
        for there in (1..8).map(subsets) {
            for code in [None, Some("v1")] {
                for refused_by in (0..8).map(subsets) {
                    let turn = turn(code, &refused_by);
                    let takes = |mine: &&str| turn.may_be_taken(Some(mine), &others(&there), false);
                    assert!(there.iter().any(takes), "{turn:?} is nobody's of {there:?}");
                }
            }
        }
    }

    #[test]
    fn what_another_code_recorded_is_let_go_of_while_somebody_has_not_failed_with_it() {
        let left = |refused_by: &[&str], there: &[&str], recorder: Option<&str>| {
            turn(Some("v2"), refused_by).is_left_to(&others(there), Some("v2"), recorder)
        };
        assert!(left(&[], &["v1"], Some("v1")));
        assert!(left(&[], &["v2", "v3"], Some("v1")));
        assert!(!left(&[], &["v2"], Some("v1")));
        assert!(!left(&[], &[], Some("v1")));
        assert!(!left(&["v1"], &["v1", "v2"], Some("v1")));
        assert!(!left(&[], &["v1"], Some("v2")));
        assert!(!left(&[], &["v1"], None));
    }

    #[test]
    fn who_has_failed_with_a_turn_is_remembered_and_who_recorded_it_is_first() {
        let turn = turn(Some("v2"), &["v0"]).refused_by(Some("v2".to_owned()), Some("v1".to_owned()));
        assert_eq!(turn, super::tests::turn(Some("v1"), &["v0", "v2"]));
        assert_eq!(turn.taken_by(Some("v3".to_owned())), super::tests::turn(Some("v3"), &["v0", "v2"]));
    }

    #[test]
    fn the_recorder_is_who_wrote_last_and_not_who_took_it_up_in_vain() {
        let taken = |code: &str| Entry::Taken { code: code.to_owned(), python: "3.12".to_owned(), policy: None };
        let word = || Entry::Pause { timers: Vec::new(), context: None };
        let answer = || Entry::Expire { interrupt_id: crate::domain::InterruptId(uuid::Uuid::nil()) };
        let by = |entries: &[Entry]| {
            let at = Timestamp::from_millis(0);
            recorder(&entries.iter().map(|entry| RecordedEntry { at, entry: entry.clone() }).collect::<Vec<_>>())
        };
        assert_eq!(by(&[taken("v1"), answer()]), None);
        assert_eq!(by(&[taken("v1"), word(), answer(), taken("v2")]).as_deref(), Some("v1"));
        assert_eq!(by(&[taken("v1"), word(), taken("v2"), word()]).as_deref(), Some("v2"));
        assert_eq!(by(&[taken(""), word()]), None);
    }

    #[test]
    fn a_digest_is_told_by_its_beginning_and_another_name_as_it_is() {
        for (code, short) in [
            ("607d493f6a53b60b", "607d493f"),
            ("607d493f6a53b60b/3.14", "607d493f/3.14"),
            ("2026-11-28", "2026-11-28"),
            ("607d493f6a53b60g", "607d493f6a53b60g"),
            ("release/607d493f", "release/607d493f"),
        ] {
            assert_eq!(short_code(code), short);
        }
        assert_eq!(short_code(&"ä".repeat(40)), "ä".repeat(32));
    }

    #[test]
    fn a_python_that_replays_nobody_elses_journals_makes_another_code() {
        assert_eq!(routed_code("v1", "3.11"), routed_code("v1", "3.13"));
        assert_ne!(routed_code("v1", "3.13"), routed_code("v1", "3.14"));
        assert_eq!(routed_code("", "3.14"), None);
    }
}
