//! Pages of lists.

use tokio_postgres::Row;

use super::asking::{INTERRUPTS, text};
use super::cells::PostgresCells;
use super::connection::SqlCall;
use super::param::Param;
use super::sql;
use crate::domain::Error;
use crate::domain::interrupt::Interrupt;
use crate::domain::search::Needle;
use crate::domain::status::InterruptStatus;
use crate::store::query::{AuditQuery, InterruptQuery, NoticeQuery, Order, Page, SessionQuery};
use crate::store::rows::{self, Cells as _};

/// A list's statement: only the conditions that are asked for, so that each can use its index.
pub(super) struct ListFilter {
    select: &'static str,
    order: &'static str,
    conditions: Vec<String>,
    params: Vec<Param>,
}

impl ListFilter {
    pub(super) fn new(select: &'static str, order: &'static str) -> Self {
        Self { select, order, conditions: Vec::new(), params: Vec::new() }
    }

    /// A condition, in which `?` stands for the parameter.
    pub(super) fn add(&mut self, condition: &str, param: Param) {
        self.add_all(condition, [param]);
    }

    /// The same with several, each for the next `?`; a last one for those that are left.
    pub(super) fn add_all(
        &mut self,
        condition: &str,
        params: impl IntoIterator<Item = Param, IntoIter: ExactSizeIterator>,
    ) {
        let mut condition = condition.to_owned();
        let params = params.into_iter();
        let last = params.len().saturating_sub(1);
        for (index, param) in params.enumerate() {
            self.params.push(param);
            let placed = format!("${}", self.params.len());
            condition =
                if index < last { condition.replacen('?', &placed, 1) } else { condition.replace('?', &placed) };
        }
        self.conditions.push(condition);
    }

    fn plain(&mut self, condition: &str) {
        self.conditions.push(condition.to_owned());
    }

    fn cursor(&mut self, condition: &str, cursor: Option<u64>) {
        if let Some(cursor) = cursor {
            self.add(condition, Box::new(rows::integer(cursor)));
        }
    }

    /// One row more than asked for tells whether there is a next page.
    fn call(mut self, limit: usize) -> SqlCall {
        self.params.push(Box::new(rows::count(limit.max(1)).saturating_add(1)));
        SqlCall::new(self.sql(&format!("${}", self.params.len())), self.params)
    }

    /// As many rows as asked for; where there is a `rest`, what that makes of them, which it calls `page`. The number is
    /// written out: the plan of what is done with a page depends on how small it is.
    pub(super) fn call_exactly(self, rest: &str, limit: usize) -> SqlCall {
        let (sql, params) = (self.sql(&rows::count(limit).to_string()), self.params);
        SqlCall::new(if rest.is_empty() { sql } else { format!("WITH page AS ({sql}) {rest}") }, params)
    }

    fn sql(&self, limit: &str) -> String {
        let conditions = if self.conditions.is_empty() { "true".to_owned() } else { self.conditions.join(" AND ") };
        format!("{} WHERE {conditions} {} LIMIT {limit}", self.select, self.order)
    }
}

/// All but what a search looks for, which is looked for in what this gives.
pub(super) fn sessions(query: &SessionQuery) -> SqlCall {
    let (order, later) = match query.order {
        Order::Oldest => ("ORDER BY seq", "seq > ?"),
        Order::Newest => ("ORDER BY seq DESC", "seq < ?"),
    };
    let mut filter = ListFilter::new(sql!("sessions/list"), order);
    if let Some(status) = query.status {
        filter.add("status = ?", text(status.as_str()));
    }
    if let Some(id) = query.id {
        filter.add("id = ?", Box::new(id.0));
    }
    filter.cursor(later, query.cursor);
    filter.call(query.limit)
}

/// All but what it is to say, which is looked for in what this gives.
pub(super) fn interrupts(query: &InterruptQuery) -> SqlCall {
    let mut filter = ListFilter::new(INTERRUPTS, "ORDER BY seq DESC");
    match query.status {
        // Written out, because only then the index of what is pending serves.
        Some(InterruptStatus::Pending) => filter.plain("status = 'pending'"),
        Some(status) => filter.add("status = ?", text(status.as_str())),
        None => {}
    }
    if let Some(kind) = &query.kind {
        filter.add("type = ?", text(kind));
    }
    if let Some(tool) = &query.tool {
        filter.add("tool = ?", text(tool));
    }
    if let Some(session) = query.session_id {
        filter.add("session = ?", Box::new(session.0));
    }
    if let Some(agent) = &query.agent {
        filter.add("agent = ?", text(agent));
    }
    if let Some(time) = query.created_after {
        filter.add("created_at > ?", Box::new(time.millis()));
    }
    match query.snoozed {
        Some((true, now)) => filter.add("snoozed_until > ?", Box::new(now.millis())),
        Some((false, now)) => filter.add("(snoozed_until IS NULL OR snoozed_until <= ?)", Box::new(now.millis())),
        None => {}
    }
    if let Some((who, now)) = &query.claimed_by {
        filter.add("claimed_by = ?", text(who));
        filter.add("claimed_until > ?", Box::new(now.millis()));
    }
    filter.cursor("seq < ?", query.cursor);
    filter.call(query.limit)
}

pub(super) fn notices(query: &NoticeQuery) -> SqlCall {
    let mut filter = ListFilter::new(sql!("outbox/list"), "ORDER BY seq DESC");
    if let Some(status) = query.status {
        filter.add("status = ?", text(status.as_str()));
    }
    if let Some(session) = query.session_id {
        filter.add("session = ?", Box::new(session.0));
    }
    filter.cursor("seq < ?", query.cursor);
    filter.call(query.limit)
}

pub(super) fn audit(query: &AuditQuery) -> SqlCall {
    let mut filter = ListFilter::new(sql!("audit_chain/select"), "ORDER BY c.seq");
    if let Some(session) = query.session_id {
        filter.add("d.session = ?", Box::new(session.0));
    }
    if let Some(interrupt) = query.interrupt_id {
        filter.add("d.interrupt = ?", Box::new(interrupt.0));
    }
    if let Some(actor) = &query.actor {
        filter.add("d.actor = ?", text(actor));
    }
    if let Some(action) = query.action {
        filter.add("d.action = ?", text(action.as_str()));
    }
    if let Some(time) = query.after {
        filter.add("d.at > ?", Box::new(time.millis()));
    }
    filter.cursor("c.seq > ?", query.cursor);
    filter.call(query.limit)
}

/// A page of what can be read: a list is for those who look for something else than the row that cannot be.
pub(super) fn page<T>(
    table: &'static str,
    rows: &[Row],
    limit: usize,
    mut read: impl FnMut(&mut PostgresCells<'_>) -> Result<(u64, T), Error>,
) -> Result<Page<T>, Error> {
    page_of(table, rows, limit, |cells| match read(cells) {
        Err(Error::Unreadable(why)) => {
            tracing::error!(why, "a row of the store cannot be read, and is left out of a list");
            Ok((cells.first()?, None))
        }
        read => read.map(|(place, item)| (place, Some(item))),
    })
}

/// A page of rows, each of which has to be read.
pub(super) fn whole_page<T>(
    table: &'static str,
    rows: &[Row],
    limit: usize,
    mut read: impl FnMut(&mut PostgresCells<'_>) -> Result<(u64, T), Error>,
) -> Result<Page<T>, Error> {
    page_of(table, rows, limit, |cells| read(cells).map(|(place, item)| (place, Some(item))))
}

fn page_of<T>(
    table: &'static str,
    rows: &[Row],
    limit: usize,
    mut read: impl FnMut(&mut PostgresCells<'_>) -> Result<(u64, Option<T>), Error>,
) -> Result<Page<T>, Error> {
    let limit = limit.max(1);
    let read = |row| read(&mut PostgresCells::new(table, row));
    let items = rows.iter().take(limit).map(read).collect::<Result<Vec<_>, Error>>()?;
    let next = if rows.len() > limit { items.last().map(|(place, _)| *place) } else { None };
    Ok(Page { items: items.into_iter().filter_map(|(_, item)| item).collect(), next })
}

/// Whether an interrupt says it.
pub(super) fn says(interrupt: &Interrupt, needle: &Needle) -> bool {
    let text = |text: &Option<String>| text.as_ref().is_some_and(|text| needle.is_in(text));
    interrupt.payload.values().any(|value| needle.is_in_value(value))
        || text(&interrupt.message)
        || text(&interrupt.agent)
}
