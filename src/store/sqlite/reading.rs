//! What can be read, in SQL.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Params, params, params_from_iter};

use super::connection::{self, Handle};
use super::rows::{self, Cells as _, SqliteCells};
use super::{entries, sql};
use crate::domain::access::{Key, SignIn};
use crate::domain::audit::{AuditRow, Head};
use crate::domain::event::{EventBody, EventView, NumberedEvent, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::RecordedEntry;
use crate::domain::message::ChatMessage;
use crate::domain::policy::PushedPolicy;
use crate::domain::session::Session;
use crate::domain::status::InterruptStatus;
use crate::domain::turn::Life;
use crate::domain::{Error, InterruptId, SessionId, StoreId, Timestamp, TurnId};
use crate::store::Reader;
use crate::store::clock::{Clock, WallClock};
use crate::store::query::{AuditQuery, InterruptQuery, Order, Page, SessionQuery, SessionSearch, TitledSession};
use crate::store::record::{StoredReply, Turn};

/// So many numbers of events are gone through sooner than the journals of a session.
const NEAR: u64 = 1000;

impl Handle<'_> {
    /// Every row of `table` that `sql` gives.
    pub(super) fn all<T>(
        &self,
        table: &'static str,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&mut SqliteCells<'_, '_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        #[cfg(test)]
        super::statements::reads(table, sql);
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| self.error(&error))?;
        let mut rows = statement.query(params).map_err(|error| self.error(&error))?;
        let mut items = Vec::new();
        while let Some(row) = rows.next().map_err(|error| self.error(&error))? {
            items.push(read(&mut SqliteCells::new(table, row))?);
        }
        Ok(items)
    }

    /// The first row of `table` that `sql` gives.
    pub(super) fn one<T>(
        &self,
        table: &'static str,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&mut SqliteCells<'_, '_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut read = Some(read);
        self.find(table, sql, params, |cells| read.take().map(|read| read(cells)).transpose())
    }

    /// What `read` finds first in the rows of `table` that `sql` gives.
    pub(super) fn find<T>(
        &self,
        table: &'static str,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&mut SqliteCells<'_, '_>) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        #[cfg(test)]
        super::statements::reads(table, sql);
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| self.error(&error))?;
        let mut rows = statement.query(params).map_err(|error| self.error(&error))?;
        while let Some(row) = rows.next().map_err(|error| self.error(&error))? {
            if let Some(found) = read(&mut SqliteCells::new(table, row))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Entries of journals that are told, with a number above `after`.
    fn told_after(
        &self,
        after: u64,
        session: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<(u64, Option<EventView>)>, Error> {
        let (first, most) = (rows::integer(after), rows::count(limit));
        let Some(id) = session else {
            return self.all("journal", sql!("events/told"), params![first, most], |cells| entries::told(cells));
        };
        // Whoever was away for a moment has few numbers to go through, and whoever was for long fewer of its own entries.
        let is_near = self.last_event()?.saturating_sub(after) <= NEAR;
        let sql = if is_near { sql!("events/told_of_session") } else { sql!("events/told_of_session_far") };
        self.all("journal", sql, params![first, most, id.0.as_bytes()], |cells| entries::told(cells))
    }

    /// The place of a session in the order of arrival.
    pub(super) fn session_seq(&self, id: SessionId) -> Result<Option<u64>, Error> {
        if let Some((_, seq)) = self.session.get().filter(|(last, _)| *last == id) {
            return Ok(Some(seq));
        }
        let seq = self.one("sessions", sql!("sessions/seq"), [id.0.as_bytes()], |cells| cells.number())?;
        self.session.set(seq.map(|seq| (id, seq)));
        Ok(seq)
    }

    /// A page of what can be read: a list is for those who look for something else than the row that cannot be.
    pub(super) fn page<T>(
        &self,
        table: &'static str,
        filter: &Filter,
        limit: usize,
        mut read: impl FnMut(&mut SqliteCells<'_, '_>) -> Result<(u64, T), Error>,
    ) -> Result<Page<T>, Error> {
        self.page_of(table, filter, limit, |cells| match read(cells) {
            Err(Error::Unreadable(why)) => {
                tracing::error!(why, "a row of the store cannot be read, and is left out of a list");
                Ok((cells.first()?, None))
            }
            read => read.map(|(seq, item)| (seq, Some(item))),
        })
    }

    /// A page of rows, each of which has to be read.
    fn whole_page<T>(
        &self,
        table: &'static str,
        filter: &Filter,
        limit: usize,
        mut read: impl FnMut(&mut SqliteCells<'_, '_>) -> Result<(u64, T), Error>,
    ) -> Result<Page<T>, Error> {
        self.page_of(table, filter, limit, |cells| read(cells).map(|(seq, item)| (seq, Some(item))))
    }

    fn page_of<T>(
        &self,
        table: &'static str,
        filter: &Filter,
        limit: usize,
        read: impl FnMut(&mut SqliteCells<'_, '_>) -> Result<(u64, Option<T>), Error>,
    ) -> Result<Page<T>, Error> {
        let limit = limit.max(1);
        // One row more than asked for tells whether there is a next page.
        let sql = filter.sql(limit.saturating_add(1));
        let mut rows = self.all(table, &sql, params_from_iter(filter.params()), read)?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().map(|(seq, _)| *seq) } else { None };
        Ok(Page { items: rows.into_iter().filter_map(|(_, item)| item).collect(), next })
    }
}

impl Reader for Handle<'_> {
    fn store_id(&self) -> Result<StoreId, Error> {
        let id = self.one("store", sql!("store/id"), [], |cells| cells.uuid().map(StoreId))?;
        id.ok_or_else(|| Error::Internal("the store does not say which one it is".to_owned()))
    }

    fn now(&self) -> Timestamp {
        WallClock.now()
    }

    fn promotions(&self) -> u64 {
        0
    }

    fn session(&self, id: SessionId) -> Result<Option<Session>, Error> {
        let sql = concat!(sql!("sessions/select"), "WHERE id = ?1");
        let found = self.one("sessions", sql, [id.0.as_bytes()], |cells| rows::session(cells))?;
        self.session.set(found.as_ref().map(|(seq, _)| (id, *seq)));
        Ok(found.map(|(_, session)| session))
    }

    fn messages(&self, id: SessionId) -> Result<Vec<ChatMessage>, Error> {
        self.messages_page(id, 0, usize::MAX)
    }

    fn messages_page(&self, id: SessionId, first: usize, limit: usize) -> Result<Vec<ChatMessage>, Error> {
        let params = params![id.0.as_bytes(), rows::count(first), rows::count(limit)];
        self.all("messages", sql!("messages/of_session"), params, |cells| cells.json())
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Page<TitledSession>, Error> {
        let read = |cells: &mut SqliteCells<'_, '_>| rows::titled_session(cells);
        let mut filter = filter_sessions(sql!("sessions/list"), query);
        let Some(search) = &query.search else { return self.page("sessions", &filter, query.limit, read) };
        // First how far it goes: the last of those that are looked at, and whether there is one behind it.
        let (sql, params) = reach(query, search);
        let reached = self.all("sessions", &sql, params_from_iter(params), |cells| cells.number())?;
        let end = if reached.len() > 1 { reached.first().copied() } else { None };
        filter_found(&mut filter, query, search, end);
        let page = self.page("sessions", &filter, query.limit, read)?;
        Ok(Page { next: page.next.or(end), ..page })
    }

    fn count_sessions(&self) -> Result<usize, Error> {
        let total = self.one("session_counters", sql!("sessions/count"), [], |cells| cells.number())?.unwrap_or(0);
        Ok(usize::try_from(total).unwrap_or(usize::MAX))
    }

    fn interrupt(&self, id: InterruptId) -> Result<Option<Interrupt>, Error> {
        let sql = concat!(sql!("interrupts/select"), "WHERE id = ?1");
        let found = self.one("interrupts", sql, [id.0.as_bytes()], |cells| rows::interrupt(cells, self.forms))?;
        Ok(found.map(|(_, interrupt)| interrupt))
    }

    fn pending(&self, session: SessionId) -> Result<Vec<Interrupt>, Error> {
        let sql = concat!(
            sql!("interrupts/select"),
            "WHERE status = 'pending' AND session = (SELECT seq FROM sessions WHERE id = ?1) ORDER BY seq"
        );
        self.all("interrupts", sql, [session.0.as_bytes()], |cells| Ok(rows::interrupt(cells, self.forms)?.1))
    }

    fn interrupts(&self, query: &InterruptQuery) -> Result<Page<Interrupt>, Error> {
        self.page("interrupts", &filter_interrupts(query), query.limit, |cells| rows::interrupt(cells, self.forms))
    }

    fn turn(&self, id: TurnId) -> Result<Option<Turn>, Error> {
        self.one("turns", concat!(sql!("turns/select"), "WHERE id = ?1"), [id.0.as_bytes()], |cells| rows::turn(cells))
    }

    fn life(&self, turn: TurnId) -> Result<Option<Life>, Error> {
        self.found_turn(turn, |found| found.life.clone())?.transpose()
    }

    fn last_turn(&self, session: SessionId) -> Result<Option<Turn>, Error> {
        let sql = concat!(sql!("turns/select"), sql!("turns/last"));
        self.one("turns", sql, [session.0.as_bytes()], |cells| rows::turn(cells))
    }

    fn session_of_turn(&self, id: TurnId) -> Result<Option<SessionId>, Error> {
        self.one("turns", sql!("turns/session"), [id.0.as_bytes()], |cells| cells.uuid().map(SessionId))
    }

    fn sender_of_turn(&self, id: TurnId) -> Result<Option<String>, Error> {
        self.found_turn(id, |found| found.sent_by.clone())?.unwrap_or(Ok(None))
    }

    fn session_of_interrupt(&self, id: InterruptId) -> Result<Option<SessionId>, Error> {
        self.one("interrupts", sql!("interrupts/session"), [id.0.as_bytes()], |cells| cells.uuid().map(SessionId))
    }

    fn journal(&self, turn: TurnId) -> Result<Vec<RecordedEntry>, Error> {
        self.journal_after(turn, None)
    }

    fn journal_after(&self, turn: TurnId, index: Option<u64>) -> Result<Vec<RecordedEntry>, Error> {
        let params = params![turn.0.as_bytes(), index.map_or(-1, rows::integer)];
        self.all("journal", sql!("journal/of_turn"), params, |cells| entries::recorded(cells))
    }

    fn last_entry(&self, turn: TurnId) -> Result<Option<RecordedEntry>, Error> {
        self.one("journal", sql!("journal/last"), params![turn.0.as_bytes()], |cells| entries::recorded(cells))
    }

    fn journal_page(&self, turn: TurnId, first: u64, limit: usize) -> Result<Vec<RecordedEntry>, Error> {
        let after = first.checked_sub(1).map_or(-1, rows::integer);
        let params = params![turn.0.as_bytes(), after, rows::count(limit)];
        self.all("journal", concat!(sql!("journal/of_turn"), "LIMIT ?3"), params, |cells| entries::recorded(cells))
    }

    fn reply(&self, scope: &str, key: &str) -> Result<Option<StoredReply>, Error> {
        self.one("replies", sql!("replies/select"), [scope, key], |cells| rows::reply(cells))
    }

    fn keys(&self) -> Result<Vec<Key>, Error> {
        self.all("keys", concat!(sql!("keys/select"), "ORDER BY seq"), [], |cells| rows::key(cells))
    }

    fn sign_ins(&self) -> Result<Vec<SignIn>, Error> {
        self.all("sign_ins", sql!("sign_ins/select"), [], |cells| rows::sign_in(cells))
    }

    fn pushed_policy(&self) -> Result<Option<PushedPolicy>, Error> {
        self.one("policy", sql!("policy/select"), [], |cells| rows::pushed_policy(cells))
    }

    fn events_after(&self, after: u64, session: Option<SessionId>, limit: usize) -> Result<Vec<NumberedEvent>, Error> {
        let (first, most) = (rows::integer(after), rows::count(limit));
        let events = match session {
            None => self.all("events", sql!("events/after"), params![first, most], |cells| rows::event(cells))?,
            Some(id) => {
                let params = params![first, most, id.0.as_bytes()];
                self.all("events", sql!("events/after_of_session"), params, |cells| rows::event(cells))?
            }
        };
        let (told, events) = (self.told_after(after, session, limit)?, events.into_iter());
        let view = |(number, event): (u64, StoredEvent)| {
            let interrupt = match event.what {
                EventBody::Interrupt { interrupt_id, .. } | EventBody::Triage { interrupt_id, .. } => {
                    match self.interrupt(interrupt_id) {
                        // What is to come after it is for others too.
                        Err(Error::Unreadable(_)) => None,
                        read => read?,
                    }
                }
                EventBody::Session { .. } => None,
            };
            Ok(NumberedEvent { number, event: event.view(interrupt) })
        };
        let events = events.map(view).collect::<Result<_, Error>>()?;
        Ok(NumberedEvent::in_order(events, told, limit))
    }

    fn last_event(&self) -> Result<u64, Error> {
        Ok(self.one("events", sql!("events/last"), [], |cells| cells.number())?.unwrap_or(0))
    }

    fn last_event_of(&self, session: SessionId) -> Result<u64, Error> {
        let newest =
            self.one("events", sql!("events/last_of_session"), [session.0.as_bytes()], |cells| cells.number())?;
        Ok(newest.unwrap_or(0))
    }

    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRow>, Error> {
        // Nobody is to take what is left of it for all that was done.
        self.whole_page("audit", &filter_audit(query), query.limit, |cells| rows::audit(cells))
    }

    fn audit_head(&self) -> Result<Head, Error> {
        let head =
            self.one("audit", sql!("audit/head"), [], |cells| Ok(Head { seq: cells.number()?, hash: cells.plain()? }))?;
        Ok(head.unwrap_or_else(Head::nothing))
    }

    fn has_seen(&self, interrupt: InterruptId, actor: &str) -> Result<bool, Error> {
        let params = params![interrupt.0.as_bytes(), actor];
        Ok(self.one("audit", sql!("audit/has_seen"), params, |_| Ok(()))?.is_some())
    }
}

fn filter_sessions(select: &'static str, query: &SessionQuery) -> Filter {
    let (order, later) = match query.order {
        Order::Oldest => ("ORDER BY seq", "seq > ?"),
        Order::Newest => ("ORDER BY seq DESC", "seq < ?"),
    };
    let mut filter = Filter::new(select, order);
    if let Some(status) = query.status {
        filter.add("status = ?", SqlValue::Text(status.as_str().to_owned()));
    }
    if let Some(id) = query.id {
        filter.add("id = ?", SqlValue::Blob(id.0.as_bytes().to_vec()));
    }
    if let Some(cursor) = query.cursor {
        filter.add(later, SqlValue::Integer(rows::integer(cursor)));
    }
    filter
}

/// The place of the last session that a page of a search looks at, and of the one behind it.
fn reach(query: &SessionQuery, search: &SessionSearch) -> (String, Vec<SqlValue>) {
    let filter = filter_sessions("SELECT seq FROM sessions\n", query);
    (format!("{} OFFSET {}", filter.sql(2), rows::count(search.within.saturating_sub(1))), filter.params)
}

/// What a search finds, no further than `end`.
fn filter_found(filter: &mut Filter, query: &SessionQuery, search: &SessionSearch, end: Option<u64>) {
    if let Some(end) = end {
        let not_beyond = match query.order {
            Order::Oldest => "seq <= ?",
            Order::Newest => "seq >= ?",
        };
        filter.add(not_beyond, SqlValue::Integer(rows::integer(end)));
    }
    filter.add(connection::FINDS, SqlValue::Text(search.needle.as_str().to_owned()));
}

fn filter_audit(query: &AuditQuery) -> Filter {
    let mut filter = Filter::new(sql!("audit/select"), "ORDER BY seq");
    if let Some(session) = query.session_id {
        filter.add("session = ?", SqlValue::Blob(session.0.as_bytes().to_vec()));
    }
    if let Some(interrupt) = query.interrupt_id {
        filter.add("interrupt = ?", SqlValue::Blob(interrupt.0.as_bytes().to_vec()));
    }
    if let Some(actor) = &query.actor {
        filter.add("actor = ?", SqlValue::Text(actor.clone()));
    }
    if let Some(action) = query.action {
        filter.add("action = ?", SqlValue::Text(action.as_str().to_owned()));
    }
    if let Some(time) = query.after {
        filter.add("at > ?", SqlValue::Integer(time.millis()));
    }
    if let Some(cursor) = query.cursor {
        filter.add("seq > ?", SqlValue::Integer(rows::integer(cursor)));
    }
    filter
}

fn filter_interrupts(query: &InterruptQuery) -> Filter {
    let mut filter = Filter::new(sql!("interrupts/select"), "ORDER BY seq DESC");
    match query.status {
        // Written out, because only then the index of what is pending serves.
        Some(InterruptStatus::Pending) => filter.add_plain("status = 'pending'"),
        Some(status) => filter.add("status = ?", SqlValue::Text(status.as_str().to_owned())),
        None => {}
    }
    if let Some(kind) = &query.kind {
        filter.add("type = ?", SqlValue::Text(kind.clone()));
    }
    if let Some(tool) = &query.tool {
        filter.add("tool = ?", SqlValue::Text(tool.clone()));
    }
    if let Some(session) = query.session_id {
        let id = SqlValue::Blob(session.0.as_bytes().to_vec());
        filter.add("session = (SELECT sessions.seq FROM sessions WHERE sessions.id = ?)", id);
    }
    if let Some(agent) = &query.agent {
        filter.add("agent = ?", SqlValue::Text(agent.clone()));
    }
    if let Some(time) = query.created_after {
        filter.add("created_at > ?", SqlValue::Integer(time.millis()));
    }
    match query.snoozed {
        Some((true, now)) => filter.add("snoozed_until > ?", SqlValue::Integer(now.millis())),
        Some((false, now)) => {
            filter.add("(snoozed_until IS NULL OR snoozed_until <= ?)", SqlValue::Integer(now.millis()))
        }
        None => {}
    }
    if let Some((who, now)) = &query.claimed_by {
        filter.add("claimed_by = ?", SqlValue::Text(who.clone()));
        filter.add("claimed_until > ?", SqlValue::Integer(now.millis()));
    }
    if let Some(needle) = &query.says {
        filter.add(connection::SAYS, SqlValue::Text(needle.as_str().to_owned()));
    }
    if let Some(cursor) = query.cursor {
        filter.add("seq < ?", SqlValue::Integer(rows::integer(cursor)));
    }
    filter
}

/// The statement for a page of sessions.
#[cfg(test)]
pub(super) fn sessions_sql(query: &SessionQuery) -> String {
    filter_sessions(sql!("sessions/list"), query).sql(query.limit)
}

/// The statements for a page of a search among sessions, where it does not reach the last one.
#[cfg(test)]
pub(super) fn session_search_sql(query: &SessionQuery, search: &SessionSearch) -> [String; 2] {
    let mut filter = filter_sessions(sql!("sessions/list"), query);
    filter_found(&mut filter, query, search, Some(1));
    [reach(query, search).0, filter.sql(query.limit)]
}

/// The statement for a page of the audit.
#[cfg(test)]
pub(super) fn audit_sql(query: &AuditQuery) -> String {
    filter_audit(query).sql(query.limit)
}

/// The statement for a page of interrupts.
#[cfg(test)]
pub(super) fn interrupts_sql(query: &InterruptQuery) -> String {
    filter_interrupts(query).sql(query.limit)
}

/// A list's statement: only the conditions that are asked for, so that each can use its index.
pub(super) struct Filter {
    select: &'static str,
    order: &'static str,
    conditions: Vec<&'static str>,
    params: Vec<SqlValue>,
}

impl Filter {
    pub(super) fn new(select: &'static str, order: &'static str) -> Self {
        Self { select, order, conditions: Vec::new(), params: Vec::new() }
    }

    pub(super) fn add(&mut self, condition: &'static str, param: SqlValue) {
        self.conditions.push(condition);
        self.params.push(param);
    }

    pub(super) fn add_all(&mut self, condition: &'static str, params: impl IntoIterator<Item = SqlValue>) {
        self.conditions.push(condition);
        self.params.extend(params);
    }

    pub(super) fn params(&self) -> &[SqlValue] {
        &self.params
    }

    fn add_plain(&mut self, condition: &'static str) {
        self.conditions.push(condition);
    }

    pub(super) fn sql(&self, limit: usize) -> String {
        let conditions = if self.conditions.is_empty() { "true".to_owned() } else { self.conditions.join(" AND ") };
        format!("{}WHERE {conditions} {} LIMIT {limit}", self.select, self.order)
    }
}
