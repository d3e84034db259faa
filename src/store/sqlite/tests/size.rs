//! How much disk a parked session takes, how many pages a commit writes, and what it makes on the way.

use serde_json::json;

use super::*;
use crate::domain::event::StoredEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Ending, Entry};
use crate::domain::message::ChatMessage;
use crate::domain::session::{Phase, Session};
use crate::domain::status::InterruptStatus;
use crate::domain::{Error, InterruptId, SessionId, TurnId};
use crate::store::contract::fixture::*;
use crate::store::kept::KeptForms;
use crate::store::record::Turn;
use crate::store::sqlite::connection::{self, Handle};
use crate::store::{Store, Transaction};

const SESSIONS: u64 = 20_000;
/// Bytes that each may take beyond the text of its message.
const LIMIT: u64 = 1_536;

const TEXT: &str = "delete the old logs file";

/// One session, written as the engine writes it.
struct Written {
    session: Session,
    turn: Turn,
    interrupt: Interrupt,
    epoch: u64,
}

impl Written {
    fn new(number: u64) -> Self {
        // Version 7 as the engine draws them: first the time, then chance.
        let id = |salt: u64| {
            let time = u128::from(1_700_000_000_000 + number);
            let chance = u128::from((number * 7 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            uuid::Uuid::from_u128((time << 80) | (0x7000 << 64) | chance)
        };
        let (session_id, turn_id, interrupt_id) = (SessionId(id(1)), TurnId(id(2)), InterruptId(id(3)));
        let interrupt = Interrupt {
            interrupt_id,
            session_id,
            turn_id,
            args_digest: Some(format!("sha256:{}", "0123456789abcdef".repeat(4))),
            tool_call_id: Some("call_0123456789abcdef01234567".to_owned()),
            ..approval(1, 1, "delete_file")
        };
        Self {
            session: Session { id: session_id, ..session(1) },
            turn: Turn::new(turn_id, session_id, message(TEXT), None, at(0)),
            interrupt,
            epoch: 0,
        }
    }

    fn become_(&mut self, tx: &mut dyn Transaction, phase: Phase) -> Result<(), Error> {
        self.session.phase = phase;
        tx.update_session(&self.session)?;
        tx.append_event(&StoredEvent::session(self.session.id, self.session.status(), None), at(0)).map(drop)
    }

    fn create(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        tx.insert_session(&self.session, &[])
    }

    fn send(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let turn = self.turn.id;
        tx.insert_turn(&self.turn)?;
        self.become_(tx, Phase::Running { turn })?;
        self.epoch = tx.claim_turn(turn, me(), 0)?;
        let start = Entry::Start {
            code: "0123456789abcdef".to_owned(),
            python: "3.11".to_owned(),
            policy: false,
            abandoned: None,
            traceparent: None,
        };
        tx.append(turn, self.epoch, &start, at(0)).map(drop)
    }

    fn step(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let entry = step("complete", json!({"tool_calls": [{"name": "delete_file"}]}));
        tx.append(self.turn.id, self.epoch, &entry, at(0)).map(drop)
    }

    fn ask(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let (turn, interrupt_id) = (self.turn.id, self.interrupt.interrupt_id);
        let Entry::Step { mut step, .. } = step("delete_file", json!(null)) else { unreachable!() };
        step.arguments = object(json!({"path": "0123456789abcdef0123456789abcdef"}));
        tx.append(turn, self.epoch, &Entry::Ask { step, interrupt_id }, at(0))?;
        tx.insert_interrupt(&self.interrupt)?;
        tx.append_event(&StoredEvent::interrupt(&self.interrupt), at(0))?;
        self.become_(tx, Phase::Interrupted { turn, pending: vec![interrupt_id] })?;
        tx.append(turn, self.epoch, &Entry::Pause { timers: Vec::new(), context: None }, at(0)).map(drop)
    }

    fn park(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        tx.park_turn(self.turn.id, self.epoch, None, 1234)
    }

    fn answer(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let (turn, interrupt_id, value) = (self.turn.id, self.interrupt.interrupt_id, json!({"approved": true}));
        let status = InterruptStatus::Resolved;
        let answered =
            Interrupt { status, value: Some(value.clone()), resolved_at: Some(at(1)), ..self.interrupt.clone() };
        tx.update_outcome(&answered)?;
        tx.append_foreign(turn, &Entry::Answer { interrupt_id, value }, at(1))?;
        tx.append_event(&StoredEvent::interrupt(&answered), at(1))?;
        self.become_(tx, Phase::Running { turn })
    }

    fn claim(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        self.epoch = tx.claim_turn(self.turn.id, me(), 0)?;
        Ok(())
    }

    fn end(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let response = ChatMessage { content: Some("Deleted.".to_owned()), ..ChatMessage::default() };
        tx.append(self.turn.id, self.epoch, &Entry::End { ending: Ending::Done }, at(2))?;
        tx.set_messages(self.session.id, &[message(TEXT), response.clone()])?;
        self.become_(tx, Phase::Idle { response: Some(response) })?;
        tx.end_turn(self.turn.id, at(2))
    }
}

/// Stores parked sessions, of which 50 are at work at once, so that the rows of one do not lie side by side.
async fn store_parked(path: &Path, sessions: u64) {
    let store = open(path);
    for first in (0..sessions).step_by(1000) {
        let written = change(&store, move |tx| {
            for first in (first..(first + 1000).min(sessions)).step_by(50) {
                let mut window: Vec<Written> = (first..first + 50).map(Written::new).collect();
                for part in [Written::create, Written::send, Written::step, Written::ask, Written::park] {
                    window.iter_mut().try_for_each(|written| part(written, tx))?;
                }
            }
            Ok(())
        });
        written.await.unwrap();
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_parked_session_takes_little_disk() {
    let (_directory, path) = place();
    store_parked(&path, SESSIONS).await;
    let each = std::fs::metadata(&path).unwrap().len() / SESSIONS;
    let connection = rusqlite::Connection::open(&path).unwrap();
    let mut statement =
        connection.prepare("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC").unwrap();
    let parts: Vec<(String, i64)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap();
    let parts: Vec<_> = parts.into_iter().map(|(name, bytes)| (name, bytes / SESSIONS as i64)).collect();
    println!("{each} {parts:#?}");
    let text = TEXT.len() as u64;
    assert!(each - text <= LIMIT, "{} bytes: {parts:?}", each - text);
}

/// The pages that each kind of commit writes on a file of some size.
#[tokio::test]
async fn a_commit_writes_few_pages() {
    let (_directory, path) = place();
    store_parked(&path, 2_000).await;
    let mut connection = connection::open_writer(&path).unwrap();
    let pages = std::sync::Arc::new(std::sync::atomic::AtomicI32::new(0));
    let counted = pages.clone();
    let count = move |_: &mut rusqlite::hooks::Wal, in_log: i32| {
        counted.store(in_log, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    };
    connection.wal_hook(Some(count)).unwrap();
    type Part = fn(&mut Written, &mut dyn Transaction) -> Result<(), Error>;
    let parts: [(&str, f64, Part); 8] = [
        ("create", 6.5, Written::create),
        ("send", 13.0, Written::send),
        ("step", 2.5, Written::step),
        ("ask", 13.5, Written::ask),
        ("park", 3.0, Written::park),
        ("answer", 9.5, Written::answer),
        ("claim", 3.0, Written::claim),
        ("end", 11.0, Written::end),
    ];
    // Several, because a page that is just full makes a commit write three more.
    const TIMES: i32 = 20;
    let mut log = 0;
    let mut totals = [0; 8];
    for number in 0..TIMES {
        let mut written = Written::new(2_000 + number as u64);
        for ((_, _, part), total) in parts.iter().zip(&mut totals) {
            connection::run(&connection, "BEGIN IMMEDIATE").unwrap();
            part(&mut written, &mut Handle::new(&connection, &KeptForms::default())).unwrap();
            connection::run(&connection, "COMMIT").unwrap();
            let now = pages.load(std::sync::atomic::Ordering::SeqCst);
            *total += now - log;
            log = now;
        }
    }
    for ((name, most, _), total) in parts.iter().zip(totals) {
        let each = f64::from(total) / f64::from(TIMES);
        println!("{name}: {each:.1}");
        assert!(each <= *most, "{name}: {each:.1} pages a commit");
    }
}

/// A table in between has a cache of its own, which takes longer to be made than most statements to be run.
#[tokio::test]
async fn what_most_commits_write_needs_no_table_in_between() {
    let (_directory, path) = place();
    open(&path).close().await.unwrap();
    let connection = connection::open_writer(&path).unwrap();
    let frequent = [
        include_str!("../sql/sessions/update.sql"),
        include_str!("../sql/turns/insert.sql"),
        include_str!("../sql/turns/write_life.sql"),
        include_str!("../sql/turns/found.sql"),
        include_str!("../sql/journal/append.sql"),
        include_str!("../sql/journal/append_told.sql"),
        include_str!("../sql/interrupts/insert.sql"),
        include_str!("../sql/interrupts/update_outcome.sql"),
        include_str!("../sql/events/append.sql"),
        include_str!("../sql/audit/head.sql"),
        include_str!("../sql/audit/append.sql"),
        include_str!("../sql/messages/insert.sql"),
    ];
    for sql in frequent {
        let mut statement = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let opcode: String = row.get(1).unwrap();
            assert!(!["OpenEphemeral", "SorterOpen"].contains(&opcode.as_str()), "{opcode}: {sql}");
        }
    }
}
