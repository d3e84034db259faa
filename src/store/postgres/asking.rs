//! Questions as calls, and answers from their rows.

use tokio_postgres::Row;

use super::cells::PostgresCells;
use super::connection::SqlCall;
use super::lists::{self, whole_page};
use super::param::{Param, SqlParam};
use super::sql;
use crate::domain::audit::Head;
use crate::domain::cluster::routing::TurnCode;
use crate::domain::event::{EventBody, NumberedEvent, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::run_state::JournalPosition;
use crate::domain::{Error, SessionId, StoreId, Timestamp};
use crate::store::carried::Carried;
use crate::store::kept::KeptForms;
use crate::store::record::Turn;
use crate::store::rows::readable::without_nulls;
use crate::store::rows::{self, Cells, entries, notices::notice};
use crate::store::shared::question::{
    Answer, SessionSlice, StoreQuestion, StoredInterrupt, StoredNotice, StoredTurn, Version,
};

pub(super) const INTERRUPTS: &str = sql!("interrupts/select");
const TURNS: &str = sql!("turns/select");
const NOTICES: &str = sql!("outbox/select");

/// How many columns of sessions/slice are before those of the session, which come after the number of its newest event, those
/// of its turn, and those of an interrupt.
const SESSION_OF_SLICE: usize = 1;
const PROMOTIONS_OF_SLICE: usize = 4;
const TURN_OF_SLICE: usize = 21;
const INTERRUPT_OF_SLICE: usize = 42;

/// The rows of one call after the other.
pub(super) struct Replies(std::vec::IntoIter<Vec<Row>>);

impl Replies {
    pub(super) fn new(rows: Vec<Vec<Row>>) -> Self {
        Self(rows.into_iter())
    }

    pub(super) fn next(&mut self) -> Vec<Row> {
        self.0.next().unwrap_or_default()
    }

    /// The numbers of the newest events of sessions, whose slices are the rows of these of the next calls.
    pub(super) fn last_events(&self, slices: &[(SessionId, usize)]) -> Result<Vec<(SessionId, u64)>, Error> {
        let rows = |call: usize| self.0.as_slice().get(call).into_iter().flatten();
        let heads = slices.iter().filter_map(|(id, call)| Some((*id, rows(*call).find(|row| !is_interrupt(row))?)));
        heads.map(|(id, head)| Ok((id, PostgresCells::new("events", head).number()?))).collect()
    }

    /// What `read` makes of the rows of the next call before the first that cannot be read, and why that one cannot.
    fn until_unreadable<T>(
        &mut self,
        table: &'static str,
        mut read: impl FnMut(&mut PostgresCells<'_>) -> Result<T, Error>,
    ) -> Result<(Vec<T>, Option<Error>), Error> {
        let mut all = Vec::new();
        for row in self.next() {
            match read(&mut PostgresCells::new(table, &row)) {
                Err(why @ Error::Unreadable(_)) => return Ok((all, Some(why))),
                read => all.push(read?),
            }
        }
        Ok((all, None))
    }

    /// What `read` makes of each row of the next call.
    fn all<T>(
        &mut self,
        table: &'static str,
        mut read: impl FnMut(&mut PostgresCells<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.next().iter().map(|row| read(&mut PostgresCells::new(table, row))).collect()
    }

    /// What `read` makes of the first row of the next call.
    fn one<T>(
        &mut self,
        table: &'static str,
        read: impl FnOnce(&mut PostgresCells<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.next().first().map(|row| read(&mut PostgresCells::new(table, row))).transpose()
    }
}

/// Parameters of a statement.
macro_rules! params {
    ($($param:expr),* $(,)?) => { vec![$(Box::new($param) as $crate::store::postgres::param::Param),*] };
}
pub(super) use params;

pub(super) fn text(text: &str) -> Param {
    Box::new(without_nulls(text).into_owned())
}

/// The calls whose rows answer questions.
#[derive(Default)]
pub(super) struct AskedCalls {
    pub(super) calls: Vec<SqlCall>,
    /// The sessions of which one has a slice: that tells the number of the newest event too, and nothing else is asked for it.
    pub(super) slices: Vec<(SessionId, usize)>,
}

impl AskedCalls {
    pub(super) fn of(questions: &[StoreQuestion]) -> Self {
        let mut asked = Self::default();
        for question in questions {
            match question {
                StoreQuestion::LastEventOf(id) if questions.contains(&StoreQuestion::Session(*id)) => continue,
                StoreQuestion::Session(id) => asked.slices.push((*id, asked.calls.len())),
                _ => {}
            }
            asked.calls.extend(calls(question));
        }
        asked
    }
}

/// The calls whose rows answer a question.
pub(super) fn calls(question: &StoreQuestion) -> Vec<SqlCall> {
    let interrupts = |condition: &str, params| SqlCall::new(format!("{INTERRUPTS} {condition}"), params);
    let turns = |condition: &str, params| SqlCall::new(format!("{TURNS} {condition}"), params);
    let plain = |sql: &'static str| vec![SqlCall::new(sql, Vec::new())];
    match question {
        StoreQuestion::StoreId => plain(sql!("store/id")),
        StoreQuestion::Session(id) => by(sql!("sessions/slice"), id.0),
        StoreQuestion::Messages(id) => {
            vec![SqlCall::new(sql!("messages/of_session"), params![id.0, 0_i64, i64::MAX])]
        }
        StoreQuestion::MessagesPage { session, first, limit } => {
            let params = params![session.0, rows::count(*first), rows::count(*limit)];
            vec![SqlCall::new(sql!("messages/of_session"), params)]
        }
        StoreQuestion::Turn(id) => vec![turns("WHERE id = $1", params![id.0])],
        StoreQuestion::Journal(id) => vec![SqlCall::new(sql!("journal/of_turn"), params![id.0, 0_i64, i64::MAX])],
        StoreQuestion::LastEntry(id) => by(sql!("journal/last"), id.0),
        StoreQuestion::JournalPage { turn, first, limit } => {
            vec![SqlCall::new(sql!("journal/of_turn"), params![turn.0, rows::integer(*first), rows::count(*limit)])]
        }
        StoreQuestion::AskingStep(turn, interrupt) => {
            vec![SqlCall::new(sql!("journal/asking"), params![turn.0, interrupt.0])]
        }
        StoreQuestion::BegunStep(turn, path) => {
            vec![SqlCall::new(sql!("journal/begun"), vec![Box::new(turn.0), text(path)])]
        }
        StoreQuestion::WithApprovers(turn) => vec![interrupts(sql!("interrupts/with_approvers"), params![turn.0])],
        StoreQuestion::Interrupt(id) => vec![interrupts("WHERE id = $1", params![id.0])],
        StoreQuestion::SessionOfTurn(id) => by(sql!("turns/session"), id.0),
        StoreQuestion::SenderOfTurn(id) => by(sql!("turns/sender"), id.0),
        StoreQuestion::SessionOfInterrupt(id) => by(sql!("interrupts/session"), id.0),
        StoreQuestion::Reply { scope, key } => vec![SqlCall::new(sql!("replies/select"), vec![text(scope), text(key)])],
        StoreQuestion::Carried(turn) => by(sql!("carried_turns/select"), turn.0),
        StoreQuestion::Notice(id) => {
            let sql = format!("{NOTICES} WHERE id = $1 AND reminder = $2");
            vec![SqlCall::new(sql, params![id.event, i64::from(id.reminder)])]
        }
        StoreQuestion::Lane { session, url, limit } => {
            let sql = format!("{NOTICES} {}", sql!("outbox/lane"));
            vec![SqlCall::new(sql, vec![Box::new(session.0), text(url), Box::new(rows::count(*limit))])]
        }
        StoreQuestion::Seen(interrupt, actor) => {
            vec![SqlCall::new(sql!("deeds/has_seen"), vec![Box::new(interrupt.0), text(actor)])]
        }
        StoreQuestion::Keys => plain(sql!("keys/select")),
        StoreQuestion::SignIns => plain(sql!("sign_ins/select")),
        StoreQuestion::PushedPolicy => plain(sql!("policy/select")),
        StoreQuestion::CountSessions => plain(sql!("sessions/count")),
        StoreQuestion::LastEvent => plain(sql!("events/last")),
        StoreQuestion::LastEventOf(id) => by(sql!("events/last_of_session"), id.0),
        StoreQuestion::AuditHead => plain(sql!("audit_chain/head")),
        StoreQuestion::EventsAfter { after, session, limit } => events_after(*after, *session, *limit),
        StoreQuestion::Sessions(query) => vec![lists::sessions(query)],
        StoreQuestion::Interrupts(query) => vec![lists::interrupts(query)],
        StoreQuestion::Notices(query) => vec![lists::notices(query)],
        StoreQuestion::Audit(query) => vec![lists::audit(query)],
    }
}

fn by<T: SqlParam + 'static>(sql: &'static str, param: T) -> Vec<SqlCall> {
    vec![SqlCall::new(sql, params![param])]
}

/// The events, the interrupts that they are about, and entries of journals that are told.
fn events_after(after: u64, session: Option<SessionId>, limit: usize) -> Vec<SqlCall> {
    let (after, limit) = (rows::integer(after), rows::count(limit));
    match session {
        None => vec![
            SqlCall::new(sql!("events/after"), params![after, limit]),
            SqlCall::new(format!("{INTERRUPTS} {}", sql!("events/interrupts_after")), params![after, limit]),
            SqlCall::new(sql!("events/told"), params![after, limit]),
        ],
        Some(id) => vec![
            SqlCall::new(sql!("events/after_of_session"), params![after, limit, id.0]),
            SqlCall::new(
                format!("{INTERRUPTS} {}", sql!("events/interrupts_after_of_session")),
                params![after, limit, id.0],
            ),
            SqlCall::new(sql!("events/told_of_session"), params![after, limit, id.0]),
        ],
    }
}

/// The answer, from the rows of the calls.
pub(super) fn answer(question: StoreQuestion, replies: &mut Replies, forms: &KeptForms) -> Result<Answer, Error> {
    let stored = |cells: &mut PostgresCells<'_>| {
        let (place, interrupt) = rows::interrupt(cells, forms)?;
        Ok(StoredInterrupt { place, interrupt })
    };
    Ok(match question {
        StoreQuestion::StoreId => {
            let id = replies.one("meta", |cells| cells.uuid().map(StoreId))?;
            Answer::StoreId(id.ok_or_else(|| Error::Internal("the store does not say which one it is".to_owned()))?)
        }
        StoreQuestion::Session(_) => {
            let (promotions, slice) = slice(&replies.next(), stored)?;
            Answer::Session { promotions, slice: slice.map(Box::new) }
        }
        StoreQuestion::Messages(_) | StoreQuestion::MessagesPage { .. } => {
            Answer::Messages(replies.all("messages", |cells| cells.json())?)
        }
        StoreQuestion::Turn(_) => Answer::Turn(replies.one("turns", turn)?.map(Box::new)),
        StoreQuestion::Journal(_) | StoreQuestion::LastEntry(_) | StoreQuestion::JournalPage { .. } => {
            Answer::Entries(replies.all("journal", |cells| entries::recorded(cells))?)
        }
        StoreQuestion::AskingStep(..) | StoreQuestion::BegunStep(..) => {
            Answer::Step(replies.one("journal", |cells| entries::step(cells))?.map(Box::new))
        }
        StoreQuestion::WithApprovers(_) => {
            Answer::Asked(replies.all("interrupts", |cells| Ok(rows::interrupt(cells, forms)?.1))?)
        }
        StoreQuestion::Interrupt(_) => Answer::Interrupt(replies.one("interrupts", stored)?.map(Box::new)),
        StoreQuestion::SessionOfTurn(_) => Answer::Whose(replies.one("turns", |cells| cells.uuid().map(SessionId))?),
        StoreQuestion::SessionOfInterrupt(_) => {
            Answer::Whose(replies.one("interrupts", |cells| cells.uuid().map(SessionId))?)
        }
        StoreQuestion::SenderOfTurn(_) => Answer::Sender(replies.one("turns", |cells| cells.plain())?.flatten()),
        StoreQuestion::Reply { .. } => Answer::Reply(replies.one("replies", |cells| rows::reply(cells))?),
        StoreQuestion::Carried(_) => Answer::Carried(replies.one("carried_turns", carried)?),
        StoreQuestion::Notice(_) => Answer::Notices(replies.all("outbox", stored_notice)?),
        StoreQuestion::Lane { .. } => {
            let (notices, unreadable) = replies.until_unreadable("outbox", stored_notice)?;
            Answer::Lane(notices, unreadable)
        }
        StoreQuestion::Seen(..) => Answer::Seen(replies.one("deeds", |cells| cells.plain())?.unwrap_or_default()),
        StoreQuestion::Keys => Answer::Keys(replies.all("keys", |cells| rows::key(cells))?),
        StoreQuestion::SignIns => Answer::SignIns(replies.all("sign_ins", |cells| rows::sign_in(cells))?),
        StoreQuestion::PushedPolicy => Answer::PushedPolicy(replies.one("policy", |cells| rows::pushed_policy(cells))?),
        StoreQuestion::CountSessions | StoreQuestion::LastEvent | StoreQuestion::LastEventOf(_) => {
            let table = if question == StoreQuestion::CountSessions { "sessions" } else { "events" };
            Answer::Number(replies.one(table, |cells| cells.number())?.unwrap_or_default())
        }
        StoreQuestion::AuditHead => Answer::Head(head(replies)?),
        StoreQuestion::EventsAfter { limit, .. } => Answer::Events(events(replies, forms, limit)?),
        StoreQuestion::Sessions(query) => {
            Answer::Sessions(lists::page("sessions", &replies.next(), query.limit, |cells| {
                rows::titled_session(cells)
            })?)
        }
        StoreQuestion::Interrupts(query) => {
            let read = |cells: &mut PostgresCells<'_>| rows::interrupt(cells, forms);
            Answer::Interrupts(lists::page("interrupts", &replies.next(), query.limit, read)?)
        }
        StoreQuestion::Notices(query) => {
            Answer::NoticePage(lists::page("outbox", &replies.next(), query.limit, |cells| notice(cells))?)
        }
        // Nobody is to take what is left of it for all that was done.
        StoreQuestion::Audit(query) => {
            Answer::Audit(whole_page("deeds", &replies.next(), query.limit, |cells| rows::audit(cells))?)
        }
    })
}

/// Whether a row of sessions/slice is an interrupt, and not the session.
fn is_interrupt(row: &Row) -> bool {
    !matches!(row.try_get::<_, Option<i64>>(INTERRUPT_OF_SLICE), Ok(None))
}

/// The promotions of a sessions/slice, and the session where it is there.
fn slice(
    rows: &[Row],
    stored: impl Fn(&mut PostgresCells<'_>) -> Result<StoredInterrupt, Error>,
) -> Result<(u64, Option<SessionSlice>), Error> {
    let (pending, heads): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| is_interrupt(row));
    let Some(head) = heads.first() else {
        return Err(Error::Internal("the database told nothing of a session".to_owned()));
    };
    let promotions = PostgresCells::after(PROMOTIONS_OF_SLICE, "sessions", head).number()?;
    let mut cells = PostgresCells::after(SESSION_OF_SLICE, "sessions", head);
    if cells.plain::<Option<i64>>()?.is_none() {
        return Ok((promotions, None));
    }
    cells.rewind();
    let version = Version { count: cells.number()?, token: cells.plain::<i64>()?.cast_unsigned() };
    let latest = cells.plain::<Option<i64>>()?.map(Timestamp::from_millis);
    // What was read above.
    cells.number()?;
    let session = rows::session(&mut cells).map(|(_, session)| session);
    let mut newest = PostgresCells::after(TURN_OF_SLICE, "turns", head);
    let turn = match newest.plain::<Option<i64>>()? {
        None => Ok(None),
        Some(_) => {
            newest.rewind();
            turn(&mut newest).map(Some)
        }
    };
    let interrupt = |row: &&Row| stored(&mut PostgresCells::after(INTERRUPT_OF_SLICE, "interrupts", row));
    let pending = pending.iter().map(interrupt).collect::<Result<Vec<_>, Error>>().map(|mut pending| {
        // The database says nothing of the order of what it puts together.
        pending.sort_unstable_by_key(|stored| stored.place);
        pending
    });
    Ok((promotions, Some(SessionSlice { version, latest, session, turn, pending })))
}

/// Where the audit ends.
pub(super) fn head(replies: &mut Replies) -> Result<Head, Error> {
    let head = replies.one("audit_chain", |cells| Ok(Head { seq: cells.number()?, hash: cells.plain()? }))?;
    Ok(head.unwrap_or_else(Head::nothing))
}

fn turn(cells: &mut PostgresCells<'_>) -> Result<StoredTurn, Error> {
    let (place, turn) = (cells.number()?, rows::turn(cells)?);
    let (is_compacted, entries) = (cells.plain()?, cells.number()?);
    let code = TurnCode { code: cells.plain()?, refused_by: cells.json_or_none()?.unwrap_or_default() };
    Ok(StoredTurn { place, turn: Turn { code, ..turn }, entries, is_compacted })
}

fn stored_notice(cells: &mut PostgresCells<'_>) -> Result<StoredNotice, Error> {
    let (place, notice) = notice(cells)?;
    Ok(StoredNotice { place, notice })
}

fn carried(cells: &mut PostgresCells<'_>) -> Result<Carried, Error> {
    let (entries, digest) = (cells.plain::<Option<i64>>()?, cells.plain::<Option<String>>()?);
    let entries = entries.and_then(|entries| usize::try_from(entries).ok());
    Ok(Carried { left_at: entries.zip(digest).map(|(entries, digest)| JournalPosition { entries, digest }) })
}

fn events(replies: &mut Replies, forms: &KeptForms, limit: usize) -> Result<Vec<NumberedEvent>, Error> {
    let events: Vec<(u64, StoredEvent)> = replies.all("events", |cells| rows::event(cells))?;
    let mut interrupts: Vec<Interrupt> = Vec::new();
    for row in replies.next() {
        match rows::interrupt(&mut PostgresCells::new("interrupts", &row), forms) {
            // What is to come after it is for others too.
            Err(Error::Unreadable(_)) => {}
            read => interrupts.push(read?.1),
        }
    }
    let view = |(number, event): (u64, StoredEvent)| {
        let interrupt = match event.what {
            EventBody::Interrupt { interrupt_id, .. } | EventBody::Triage { interrupt_id, .. } => {
                interrupts.iter().find(|interrupt| interrupt.interrupt_id == interrupt_id).cloned()
            }
            EventBody::Session { .. } => None,
        };
        NumberedEvent { number, event: event.view(interrupt) }
    };
    let told = replies.all("journal", |cells| entries::told(cells))?;
    Ok(NumberedEvent::in_order(events.into_iter().map(view).collect(), told, limit))
}
