//! Every rule: what fits is left alone, and what does not is told as what it is.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::problem::ProblemKind;
use super::*;
use crate::domain::audit::{Action, AuditRow, Deed, Head};
use crate::domain::seeds::Random;
use crate::domain::{SessionId, Timestamp};
use crate::store::copying::lines;
use crate::store::copying::tables::{TABLES, Table};

const WAITING: u128 = 1;
const IDLE: u128 = 2;
const FAILED: u128 = 3;

/// What a row has where a test does not care: enough to be read.
const ANY: [(&str, &[(&str, &str)]); 7] = [
    ("sessions", &[("seq", "1"), ("agent", "a"), ("created_at", "1"), ("updated_at", "1")]),
    ("messages", &[("message", r#"{"role": "user", "content": "hello"}"#)]),
    (
        "turns",
        &[
            ("message", r#"{"role": "user", "content": "hello"}"#),
            ("created_at", "1"),
            ("epoch", "1"),
            ("recoveries", "0"),
            ("worked_ms", "0"),
            ("parked", "f"),
        ],
    ),
    ("journal", &[("at", "1")]),
    (
        "interrupts",
        &[
            ("seq", "1"),
            ("type", "custom"),
            ("payload", "{}"),
            ("built_in_schema", "f"),
            ("created_at", "1"),
            ("lets_run", "f"),
        ],
    ),
    (
        "outbox",
        &[
            ("reminder", "0"),
            ("event", "session.idle"),
            ("body", "{}"),
            ("created_at", "1"),
            ("leased", "f"),
            ("attempts", "0"),
        ],
    ),
    ("keys", &[("seq", "1"), ("name", "ada"), ("scopes", "[\"read\"]"), ("key_groups", "[]"), ("created_at", "1")]),
];

/// What an entry of that kind has besides.
fn body(entry: &str) -> &'static [(&'static str, &'static str)] {
    match entry {
        "start" => &[("body", r#"["code", "3.11"]"#)],
        "ask" => &[("path", "0"), ("kind", "interrupt"), ("name", "ask")],
        "answer" => &[("body", "true")],
        _ => &[],
    }
}

/// A store's rows, as somebody could have written them.
struct World(BTreeMap<&'static str, Vec<BTreeMap<&'static str, String>>>);

fn id(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

fn list(ids: &[u128]) -> String {
    format!("\\x{}", ids.iter().map(|id| format!("{id:032x}")).collect::<String>())
}

impl World {
    fn add(&mut self, table: &'static str, cells: &[(&'static str, &str)]) {
        let any = ANY.iter().find(|(name, _)| *name == table).map(|(_, cells)| *cells).unwrap_or_default();
        let row = any.iter().chain(cells).map(|(name, text)| (*name, (*text).to_owned())).collect();
        self.0.entry(table).or_default().push(row);
    }

    /// One session that waits for an answer, one that has ended a turn, whose journal was removed, and one whose turn can be
    /// taken up again; a notice that has gone out, and two that are to follow.
    fn whole() -> Self {
        let mut world = Self(BTreeMap::new());
        let waits = [("status", "interrupted"), ("pending", &list(&[21])), ("total_messages", "2")];
        world.add("sessions", &[&[("id", id(WAITING).as_str()), ("turn", &id(11))], &waits[..]].concat());
        world.add(
            "sessions",
            &[
                ("id", &id(IDLE)),
                ("status", "idle"),
                ("total_messages", "0"),
                ("response", "{\"role\": \"assistant\", \"content\": \"done\"}"),
            ],
        );
        let failed = [("status", "error"), ("turn", &id(13)), ("pending", &list(&[23])), ("total_messages", "0")];
        world.add("sessions", &[&[("id", id(FAILED).as_str())], &failed[..]].concat());
        for idx in ["0", "1"] {
            world.add("messages", &[("session", &id(WAITING)), ("idx", idx)]);
        }
        world.add("turns", &[("id", &id(11)), ("session", &id(WAITING)), ("parked", "t")]);
        let over = [("ended_at", "5"), ("compacted", "t")];
        world.add("turns", &[&[("id", id(12).as_str()), ("session", &id(IDLE))], &over[..]].concat());
        let suspended = [("ended_at", "5"), ("suspended_code", "c"), ("compacted", "f")];
        world.add("turns", &[&[("id", id(13).as_str()), ("session", &id(FAILED))], &suspended[..]].concat());
        for (session, turn, asked) in [(WAITING, 11, 21), (FAILED, 13, 23)] {
            // As they may lie in a database: in no order.
            world.entry(session, turn, "3", "ask", Some(asked));
            world.entry(session, turn, "2", "answer", Some(asked + 10));
            world.entry(session, turn, "1", "ask", Some(asked + 10));
            world.entry(session, turn, "0", "start", None);
            let (session, turn) = (id(session), id(turn));
            let interrupt = [("session", session.as_str()), ("turn", &turn)];
            let due = if asked == 21 { vec![("due_at", "9")] } else { vec![] };
            let pending = [("status", "pending"), ("expires_at", "9")];
            world.add("interrupts", &[&[("id", id(asked).as_str())], &interrupt[..], &pending, &due].concat());
            let resolved = [("status", "resolved")];
            world.add("interrupts", &[&[("id", id(asked + 10).as_str())], &interrupt[..], &resolved].concat());
        }
        for (seq, status, due) in
            [("1", "delivered", None), ("3", "pending", None), ("2", "pending", Some(("due_at", "7")))]
        {
            let notice =
                [("session", id(IDLE)), ("id", id(31)), ("seq", seq.to_owned()), ("status", status.to_owned())];
            let mut cells: Vec<(&'static str, &str)> =
                notice.iter().map(|(name, text)| (*name, text.as_str())).collect();
            cells.push(("url", "https://example.org/a?token=secret"));
            cells.push(("origin", "https://example.org"));
            cells.extend(due);
            world.add("outbox", &cells);
        }
        let mut head = Head::nothing();
        for number in [WAITING, IDLE] {
            let deed = Deed::new(Action::Asked).session(SessionId(Uuid::from_u128(number))).with("line", "a\tb\n");
            let row = AuditRow::after(&head, deed, Timestamp::from_millis(1_700_000_000_000));
            head = row.head();
            world.audited(&row);
        }
        world
    }

    fn entry(&mut self, session: u128, turn: u128, idx: &str, entry: &str, interrupt: Option<u128>) {
        let (session, turn, interrupt) = (id(session), id(turn), interrupt.map(id));
        let mut cells = vec![("session", session.as_str()), ("turn", &turn), ("idx", idx), ("entry", entry)];
        cells.extend(interrupt.as_deref().map(|interrupt| ("interrupt", interrupt)));
        cells.extend(body(entry));
        self.add("journal", &cells);
    }

    fn audited(&mut self, row: &AuditRow) {
        let (seq, at) = (row.seq.to_string(), row.at.millis().to_string());
        let (details, session) =
            (serde_json::to_string(&row.details).unwrap(), row.session_id.map(|id| id.0.to_string()));
        let mut cells =
            vec![("seq", seq.as_str()), ("at", &at), ("action", row.action.as_str()), ("details", &details)];
        cells.extend([("prev", row.prev.as_str()), ("hash", &row.hash)]);
        cells.extend(session.as_deref().map(|session| ("session", session)));
        self.add(AUDIT, &cells);
    }

    /// The row at that place of a table.
    fn row(&mut self, table: &'static str, place: usize) -> &mut BTreeMap<&'static str, String> {
        &mut self.0.get_mut(table).unwrap()[place]
    }

    fn set(mut self, table: &'static str, place: usize, name: &'static str, text: &str) -> Self {
        self.row(table, place).insert(name, text.to_owned());
        self
    }

    fn clear(mut self, table: &'static str, place: usize, name: &'static str) -> Self {
        self.row(table, place).remove(name).unwrap();
        self
    }

    fn without(mut self, table: &'static str, place: usize) -> Self {
        self.0.get_mut(table).unwrap().remove(place);
        self
    }

    fn batch(&self, table: &'static Table) -> RowBatch {
        let mut lines = Vec::new();
        let rows = self.0.get(table.name).map(Vec::as_slice).unwrap_or_default();
        for row in rows {
            for name in row.keys() {
                assert!(table.columns.iter().any(|column| column.name == *name), "{} has no {name}", table.name);
            }
            for (index, column) in table.columns.iter().enumerate() {
                lines::push(&mut lines, index == 0, row.get(column.name).map(String::as_str));
            }
            lines.push(b'\n');
        }
        RowBatch { table, lines, rows: rows.len() as u64 }
    }

    fn problems(&self) -> Vec<StoreProblem> {
        let mut checker = Checker::new();
        TABLES.iter().for_each(|table| checker.take(&self.batch(table)));
        let found = checker.finish();
        assert_eq!(found.more, 0);
        found.told
    }

    /// The kinds of all that is told, and in which sessions.
    fn found(&self) -> Vec<(ProblemKind, Option<u128>)> {
        let told = |problem: StoreProblem| (problem.kind, problem.session.map(|id| id.as_u128()));
        let mut found: Vec<_> = self.problems().into_iter().map(told).collect();
        found.sort_by_key(|(kind, session)| (kind.as_str(), *session));
        found
    }
}

/// Tells exactly that, of one session.
#[track_caller]
fn tells(world: &World, kind: ProblemKind, session: u128) {
    assert_eq!(world.found(), [(kind, Some(session))]);
}

#[test]
fn what_fits_is_left_alone() {
    assert_eq!(World::whole().problems(), []);
    assert_eq!(World(BTreeMap::new()).problems(), []);
}

#[test]
fn the_order_of_a_tables_rows_says_nothing() {
    let mut random = Random(7);
    for _ in 0..50 {
        let mut world = World::whole();
        for (table, rows) in &mut world.0 {
            if *table != AUDIT {
                rows.sort_by_cached_key(|_| random.draw());
            }
        }
        assert_eq!(world.problems(), []);
    }
}

#[test]
fn a_message_that_is_missing_or_not_counted() {
    tells(&World::whole().without("messages", 0), ProblemKind::Messages, WAITING);
    tells(&World::whole().without("messages", 1), ProblemKind::Messages, WAITING);
    tells(&World::whole().set("messages", 1, "idx", "4"), ProblemKind::Messages, WAITING);
    tells(&World::whole().set("sessions", 1, "total_messages", "1"), ProblemKind::Messages, IDLE);
}

#[test]
fn a_row_whose_session_or_turn_is_gone() {
    let gone = World::whole().without("sessions", 1).found();
    // Its turn; notices outlive their session.
    assert_eq!(gone, [(ProblemKind::Orphan, Some(IDLE))]);
    // As SQLite tells of one whose session it does not find.
    assert_eq!(World::whole().clear("turns", 1, "session").found(), [(ProblemKind::Orphan, None)]);
    // An entry is looked up by its session too.
    let elsewhere = World::whole().set("journal", 0, "session", &id(IDLE)).found();
    assert!(elsewhere.contains(&(ProblemKind::Orphan, Some(IDLE))));
    let gone = World::whole().without("turns", 0).found();
    let orphans = gone.iter().filter(|(kind, _)| *kind == ProblemKind::Orphan).count();
    assert_eq!(orphans, 4 + 2);
    assert!(gone.contains(&(ProblemKind::Turn, Some(WAITING))));
}

#[test]
fn a_session_and_its_turn_that_contradict_each_other() {
    let over = World::whole().set("turns", 0, "ended_at", "9").found();
    assert_eq!(over, [(ProblemKind::Turn, Some(WAITING))]);
    let open = World::whole().clear("turns", 1, "ended_at").set("turns", 1, "compacted", "f");
    tells(&open, ProblemKind::Turn, IDLE);
    tells(&World::whole().set("sessions", 1, "turn", &id(12)), ProblemKind::Turn, IDLE);
    tells(&World::whole().clear("turns", 2, "suspended_code"), ProblemKind::Turn, FAILED);
    // Somebody else's.
    let theirs = World::whole().set("sessions", 1, "status", "running").set("sessions", 1, "turn", &id(13));
    tells(&theirs, ProblemKind::Turn, IDLE);
}

#[test]
fn a_turn_that_nothing_wakes() {
    let mut world = World::whole().set("sessions", 0, "status", "running").clear("sessions", 0, "pending");
    world.row("interrupts", 0).insert("status", "resolved".to_owned());
    world.entry(WAITING, 11, "4", "answer", Some(21));
    tells(&world, ProblemKind::Asleep, WAITING);
    assert_eq!(world.set("turns", 0, "wake_at", "99").problems(), []);
}

#[test]
fn whatever_waits_waits_everywhere() {
    // The head, the interrupt and the journal, one of them at a time.
    let head = World::whole().set("sessions", 0, "pending", &list(&[]));
    assert!(head.found().iter().all(|found| *found == (ProblemKind::Pending, Some(WAITING))));
    assert_eq!(head.found().len(), 3);
    tells(&World::whole().set("interrupts", 0, "status", "expired"), ProblemKind::Pending, WAITING);
    let mut answered = World::whole();
    answered.entry(WAITING, 11, "4", "answer", Some(21));
    tells(&answered, ProblemKind::Pending, WAITING);
    let mut asked = World::whole();
    asked.entry(FAILED, 13, "4", "ask", Some(77));
    tells(&asked, ProblemKind::Pending, FAILED);
    let unreadable = World::whole().set("sessions", 2, "pending", "\\x00").found();
    assert!(unreadable.contains(&(ProblemKind::Unreadable, Some(FAILED))));
}

#[test]
fn an_interrupt_that_does_not_expire() {
    tells(&World::whole().clear("interrupts", 0, "due_at"), ProblemKind::Expiry, WAITING);
    assert_eq!(World::whole().clear("interrupts", 0, "due_at").clear("interrupts", 0, "expires_at").problems(), []);
}

#[test]
fn a_journal_with_a_gap_or_without_an_end() {
    tells(&World::whole().without("journal", 3), ProblemKind::Journal, WAITING);
    let mut left = World::whole();
    left.entry(IDLE, 12, "0", "start", None);
    tells(&left, ProblemKind::Journal, IDLE);
}

#[test]
fn notices_that_do_not_go_out_in_order() {
    tells(&World::whole().clear("outbox", 2, "due_at"), ProblemKind::Lane, IDLE);
    tells(&World::whole().set("outbox", 1, "due_at", "8"), ProblemKind::Lane, IDLE);
    // One that was given up, and is tried again, waits for the one behind it.
    assert_eq!(World::whole().set("outbox", 1, "seq", "0").problems(), []);
    // Another address is another lane.
    assert_eq!(World::whole().set("outbox", 1, "due_at", "8").set("outbox", 1, "url", "https://b").problems(), []);
    let told = World::whole().clear("outbox", 2, "due_at").problems();
    assert!(!told[0].what.contains("secret"));
}

#[test]
fn an_audit_that_was_changed() {
    let changed = World::whole().set(AUDIT, 0, "actor", "mallory");
    let left_out = World::whole().without(AUDIT, 0);
    let unreadable = World::whole().set(AUDIT, 1, "action", "danced");
    let says_two_things = World::whole().set(AUDIT, 0, "details", "{\"line\":\"x\",\"line\":\"a\\tb\\n\"}");
    for world in [changed, left_out, unreadable, says_two_things] {
        assert_eq!(world.found(), [(ProblemKind::Audit, None)]);
    }
}

#[test]
fn what_is_no_json_is_told_and_not_shown() {
    let world = World::whole().set("interrupts", 0, "payload", "{\"token\": \"secret\"");
    tells(&world, ProblemKind::Unreadable, WAITING);
    let [problem] = &world.problems()[..] else { panic!() };
    assert_eq!(
        problem.what,
        format!("payload of a row of interrupts ({}) is no JSON, from line 1, byte 18 on", id(21))
    );
}

#[test]
fn what_a_server_could_not_read_is_told_by_its_column_alone() {
    let message = r#"{"role": "user", "content": {"token": "secret"}}"#;
    for (table, place, column, text, session, named) in [
        ("sessions", 0, "status", "secret", WAITING, format!("a row of sessions ({})", id(WAITING))),
        ("sessions", 1, "response", r#""secret""#, IDLE, format!("a row of sessions ({})", id(IDLE))),
        ("messages", 1, "message", message, WAITING, "message 1".to_owned()),
        ("turns", 1, "message", message, IDLE, format!("a row of turns ({})", id(12))),
        ("turns", 1, "recoveries", "-1", IDLE, format!("a row of turns ({})", id(12))),
        ("journal", 3, "body", r#"{"secret": 1}"#, WAITING, format!("entry 0 of turn {}", id(11))),
        ("journal", 0, "kind", "", WAITING, format!("entry 3 of turn {}", id(11))),
        ("interrupts", 1, "allowed_decisions", r#"["secret"]"#, WAITING, format!("a row of interrupts ({})", id(31))),
        ("interrupts", 1, "status", "secret", WAITING, format!("a row of interrupts ({})", id(31))),
        ("outbox", 0, "event", "secret", IDLE, format!("a row of outbox ({})", id(31))),
    ] {
        let world = match text {
            "" => World::whole().clear(table, place, column),
            _ => World::whole().set(table, place, column, text),
        };
        let problems = world.problems();
        let problem = problems.iter().find(|problem| problem.kind == ProblemKind::Unreadable).unwrap();
        assert_eq!(problem.session, Some(Uuid::from_u128(session)), "{table}.{column}");
        // A step that has no kind is no step, which is seen behind all of its columns.
        let said = if text.is_empty() { "interrupt" } else { column };
        assert_eq!(problem.what, format!("{named} cannot be read at its {said}"));
        assert!(!problem.what.contains("secret"), "{}", problem.what);
    }
}

#[test]
fn a_key_of_which_nobody_can_tell_what_it_may_do() {
    let digest = format!("\\x{}", "0".repeat(64));
    let mut world = World::whole();
    world.add("keys", &[("id", &id(41)), ("digest", &digest)]);
    assert_eq!(world.problems(), []);
    for (column, text) in [("scopes", r#"["danced"]"#), ("key_groups", "7"), ("digest", "\\x00")] {
        world.row("keys", 0).insert(column, text.to_owned());
        assert_eq!(world.found(), [(ProblemKind::Unreadable, None)], "{column}");
        world.0.remove("keys");
        world.add("keys", &[("id", &id(41)), ("digest", &digest)]);
    }
}

#[test]
fn numbers_that_would_be_given_away_twice() {
    let counted = |last_session, last_event| {
        let mut checker = Checker::new();
        checker.counted(Ok(StoreHead { id: [0; 16], last_event, swept: 0, last_session }));
        let world = World::whole().set("sessions", 2, "seq", "7").set("journal", 2, "event", "40");
        TABLES.iter().for_each(|table| checker.take(&world.batch(table)));
        checker.finish().told.iter().map(|problem| problem.kind).collect::<Vec<_>>()
    };
    assert_eq!(counted(7, 40), []);
    assert_eq!(counted(6, 40), [ProblemKind::Counter]);
    assert_eq!(counted(7, 39), [ProblemKind::Counter]);
}

#[test]
fn thousands_of_problems_are_counted() {
    let mut checker = Checker::new();
    for _ in 0..1500 {
        checker.found(StoreProblem { kind: ProblemKind::File, session: None, what: "broken".to_owned() });
    }
    let found = checker.finish();
    assert_eq!((found.told.len(), found.more), (1000, 500));
}

#[test]
fn what_cannot_be_read_to_its_end_is_told_without_what_would_follow_from_it() {
    let mut checker = Checker::new();
    // Neither its messages nor its turn came.
    checker.take(&World::whole().batch(&TABLES[0]));
    let found = checker.broken_off("the disk is malformed");
    let told: Vec<_> = found.told.iter().map(|problem| (problem.kind, problem.what.as_str())).collect();
    assert_eq!(told, [(ProblemKind::Unreadable, "nothing could be read any more: the disk is malformed")]);
}
