//! Changes as calls: one for each kind of row, whatever the number of rows.

use uuid::Uuid;

use super::asking::params;
use super::columns::RowColumns;
use super::connection::SqlCall;
use super::folding::{EventNumbers, fold};
use super::sql;
use crate::domain::audit::Deed;
use crate::domain::event::{EventBody, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::notice::Notice;
use crate::domain::policy::PolicyChange;
use crate::domain::session::Session;
use crate::domain::status::InterruptStatus;
use crate::domain::{Error, Timestamp, answer};
use crate::store::kept::KeptForms;
use crate::store::record::DueKind;
use crate::store::rows::entries::EntryColumns;
use crate::store::rows::readable::without_nulls;
use crate::store::rows::{self, PhaseColumns, StateColumns, approved_tool};
use crate::store::shared::changes::{Changes, PolicySwap, ReplyChange, RowChange, SessionChange, TurnChange};

/// How many bits of the number of an event or deed count within its transaction.
pub(super) const ORDINAL_BITS: u32 = 12;
/// How many events, or deeds, one number of a transaction has. One that has more takes further numbers of the database.
pub(super) const MOST_NUMBERED: usize = 1 << ORDINAL_BITS;

/// The calls of a commit.
pub(super) struct CommitCalls {
    pub(super) calls: Vec<SqlCall>,
    /// Which of them gives the numbers of the events.
    pub(super) events: Option<EventNumbers>,
}

/// The calls of a commit of `member`: one of them looks whether that is alive.
pub(super) fn calls(changes: &Changes, forms: &KeptForms, member: Option<Uuid>) -> Result<CommitCalls, Error> {
    let mut calls = Vec::new();
    let guards = sessions(&changes.sessions, &changes.turns, member, &mut calls)?;
    messages(changes, &mut calls)?;
    turns(&changes.turns, &mut calls)?;
    entries(changes, &mut calls)?;
    interrupts(&changes.interrupts, forms, &mut calls)?;
    set_aside(changes, &mut calls);
    others(changes, &mut calls)?;
    notices(changes, &mut calls);
    if changes.is_of_access() {
        calls.push(SqlCall::new(sql!("store/access_changed"), vec![]));
    }
    let events = (!changes.events.is_empty()).then_some(calls.len());
    if events.is_some() {
        calls.push(event_rows(changes));
    }
    if !changes.deeds.is_empty() {
        calls.push(deed_rows(&changes.deeds)?);
    }
    let none_is_due =
        changes.interrupts.iter().all(|(it, _)| it.expires_at.is_none() || it.status != InterruptStatus::Pending);
    let (calls, events) = match fold(calls, guards, none_is_due) {
        Ok(made) => (made.calls, events.map(|_| EventNumbers::Cell(made.folded))),
        Err(calls) => (calls, events.map(EventNumbers::Rows)),
    };
    let mut all = further_numbers(changes);
    let events = events.map(|events| events.after(all.len()));
    all.extend(calls);
    Ok(CommitCalls { calls: all, events })
}

/// Takes as many further numbers as the transaction needs, before anything else of it. Nobody reads an event of it before the transaction
/// is there, whose own number is the smallest, and all that follow come in order. In between may be those of others.
fn further_numbers(changes: &Changes) -> Vec<SqlCall> {
    let further = changes.places_told().max(changes.deeds.len()).saturating_sub(1) / MOST_NUMBERED;
    let taken = |_| {
        let key = Uuid::new_v4().to_string();
        let call = |sql| SqlCall::new(sql, vec![Box::new(key.clone())]);
        [
            SqlCall::new("SAVEPOINT number", vec![]),
            call(sql!("numbers/take")),
            call(sql!("numbers/leave")),
            SqlCall::new("RELEASE SAVEPOINT number", vec![]),
        ]
    };
    (0..further).flat_map(taken).collect()
}

/// The sessions: those that are compared in the order of their ids, so that two servers cannot wait for each other; those
/// that are new in the order in which they were made. After how many of these calls others may be made in any order.
fn sessions(
    changes: &[SessionChange],
    turns: &[TurnChange],
    member: Option<Uuid>,
    calls: &mut Vec<SqlCall>,
) -> Result<usize, Error> {
    let claimed = |change: &SessionChange| {
        let claimed = turns.iter().rev().find(|turn| turn.turn.session_id == change.id && turn.owner.is_some());
        claimed.and_then(|turn| turn.owner).map(|owner| owner.0)
    };
    let (mut new, mut written, mut kept, mut deleted, mut absent) = (vec![], vec![], vec![], vec![], vec![]);
    for change in changes {
        match (&change.row, change.seen) {
            (RowChange::Written(session), None) => new.push((&**session, change, claimed(change))),
            (RowChange::Written(session), Some(_)) => written.push((&**session, change, claimed(change))),
            (RowChange::Kept, Some(_)) => kept.push((change, claimed(change))),
            (RowChange::Deleted, Some(_)) => deleted.push(change),
            (RowChange::Replaced(session), seen) => {
                deleted.extend(seen.map(|_| change));
                new.push((&**session, change, claimed(change)));
            }
            (RowChange::Kept | RowChange::Deleted, None) => absent.push(change.id.0),
        }
    }
    written.sort_unstable_by_key(|row| row.1.id.0);
    kept.sort_unstable_by_key(|row| row.0.id.0);
    deleted.sort_unstable_by_key(|change| change.id.0);
    let seen = |change: &SessionChange| change.seen.unwrap_or(change.next);
    if !written.is_empty() {
        let columns = session_columns(&written)?;
        let columns =
            columns.plain(|row| rows::integer(seen(row.1).count)).plain(|row| seen(row.1).token.cast_signed());
        calls.push(columns.and(member).call(sql!("sessions/write")));
    }
    if !kept.is_empty() {
        let columns = RowColumns::of(&kept)
            .plain(|row| row.0.id.0)
            .plain(|row| rows::integer(row.0.next.count))
            .plain(|row| row.0.next.token.cast_signed())
            .plain(|row| row.1)
            .plain(|row| rows::integer(seen(row.0).count))
            .plain(|row| seen(row.0).token.cast_signed());
        calls.push(columns.and(member).call(sql!("sessions/keep")));
    }
    if let Some(member) = member
        && calls.is_empty()
    {
        calls.push(SqlCall::new(sql!("servers/lives"), vec![Box::new(member)]));
    }
    let guards = calls.len();
    // What takes a place comes after that has become free.
    let is_any_order = deleted.is_empty() && absent.is_empty();
    if !deleted.is_empty() {
        let columns = RowColumns::of(&deleted)
            .plain(|change| change.id.0)
            .plain(|change| rows::integer(seen(change).count))
            .plain(|change| seen(change).token.cast_signed());
        calls.push(columns.call(sql!("sessions/delete")));
    }
    if !absent.is_empty() {
        calls.push(SqlCall::new(sql!("sessions/absent"), vec![Box::new(absent)]));
    }
    if !new.is_empty() {
        calls.push(session_columns(&new)?.call(sql!("sessions/insert")));
    }
    Ok(if is_any_order { guards } else { calls.len() })
}

type GuardedSession<'c> = (&'c Session, &'c SessionChange, Option<Uuid>);

fn session_columns<'r, 'c>(sessions: &'r [GuardedSession<'c>]) -> Result<RowColumns<'r, GuardedSession<'c>>, Error> {
    let mut phases: Vec<PhaseColumns> =
        sessions.iter().map(|row| PhaseColumns::of(&row.0.phase)).collect::<Result<_, _>>()?;
    let columns = RowColumns::of(sessions)
        .plain(|row| row.0.id.0)
        .text(|row| &row.0.agent)
        .time(|row| row.0.created_at)
        .time(|row| row.0.updated_at)
        .plain(|row| rows::count(row.0.total_messages))
        .text(|row| row.0.status().as_str());
    let mut params = columns.1;
    params.push(Box::new(phases.iter().map(|phase| phase.turn).collect::<Vec<_>>()));
    params.push(Box::new(phases.iter_mut().map(|phase| phase.pending.take()).collect::<Vec<_>>()));
    params.push(Box::new(phases.iter_mut().map(|phase| phase.response.take()).collect::<Vec<_>>()));
    let text = |text: Option<String>| text.map(|text| without_nulls(&text).into_owned());
    params.push(Box::new(phases.iter_mut().map(|phase| text(phase.failure_code.take())).collect::<Vec<_>>()));
    params.push(Box::new(phases.iter_mut().map(|phase| text(phase.failure_message.take())).collect::<Vec<_>>()));
    let columns = RowColumns(sessions, params)
        .json(|row| rows::list_or_none(&row.0.rules))?
        .json(|row| rows::list_or_none(&row.0.grants))?
        .json(|row| rows::json_or_none(row.0.webhook.as_ref()))?
        .json(|row| rows::json_or_none(row.0.abandoned.as_ref()))?
        .plain(|row| row.2)
        .plain(|row| rows::integer(row.1.next.count))
        .plain(|row| row.1.next.token.cast_signed());
    Ok(columns)
}

fn messages(changes: &Changes, calls: &mut Vec<SqlCall>) -> Result<(), Error> {
    if changes.messages.is_empty() {
        return Ok(());
    }
    // What a session has that is new in this commit, went with the one before it.
    let is_there = |id| changes.sessions.iter().any(|it| it.id == id && it.seen.is_some() && !it.row.is_replaced());
    let cut: Vec<_> = changes.messages.iter().filter(|row| is_there(row.0)).collect();
    if !cut.is_empty() {
        let columns = RowColumns::of(&cut).plain(|row| row.0.0).plain(|row| rows::count(row.1));
        calls.push(columns.call(sql!("messages/delete_from")));
    }
    let mut new = Vec::new();
    for (session, first, messages) in &changes.messages {
        new.extend((*first..).zip(messages).map(|(index, message)| (session.0, index, message)));
    }
    if !new.is_empty() {
        let columns = RowColumns::of(&new)
            .plain(|row| row.0)
            .plain(|row| rows::count(row.1))
            .json(|row| rows::json(&row.2.without_nulls()))?;
        calls.push(columns.call(sql!("messages/insert")));
    }
    Ok(())
}

fn turns(changes: &[TurnChange], calls: &mut Vec<SqlCall>) -> Result<(), Error> {
    let (new, others): (Vec<&TurnChange>, Vec<&TurnChange>) = changes.iter().partition(|change| change.is_new);
    if !new.is_empty() {
        let columns = RowColumns::of(&new)
            .plain(|row| row.turn.id.0)
            .plain(|row| row.turn.session_id.0)
            .json(|row| rows::json(&row.turn.message.without_nulls()))?
            .json(|row| rows::json_or_none(row.turn.webhook.as_ref()))?
            .time(|row| row.turn.created_at)
            .text_or_none(|row| row.turn.sent_by.as_deref());
        calls.push(state(columns)?.call(sql!("turns/insert")));
    }
    if !others.is_empty() {
        calls.push(state(RowColumns::of(&others).plain(|row| row.turn.id.0))?.call(sql!("turns/update")));
    }
    let moving: Vec<&TurnChange> = others.into_iter().filter(|change| change.moves_due).collect();
    if !moving.is_empty() {
        let columns = RowColumns::of(&moving)
            .plain(|row| row.turn.session_id.0)
            .plain(|row| row.turn.id.0)
            .plain(|row| StateColumns::of(&row.turn.life.state).suspended_code.is_some());
        calls.push(columns.call(sql!("interrupts/move_due")));
    }
    Ok(())
}

/// What changes of a turn.
fn state<'r>(columns: RowColumns<'r, &'r TurnChange>) -> Result<RowColumns<'r, &'r TurnChange>, Error> {
    let of = |row: &&'r TurnChange| StateColumns::of(&row.turn.life.state);
    let columns = columns
        .plain(|row| row.owner.map(|owner| owner.0))
        .text_or_none(|row| row.turn.impure_at.as_deref())
        .json(|row| rows::list_or_none(&row.turn.warnings))?
        .plain(|row| rows::integer(row.turn.life.epoch))
        .plain(|row| i64::from(row.turn.life.recoveries))
        .plain(|row| rows::integer(row.turn.life.worked_ms))
        .plain(|row| row.turn.life.claimed.map(rows::integer))
        .plain(move |row| of(row).parked)
        .plain(move |row| of(row).wake_at)
        .plain(move |row| of(row).ended_at)
        .text_or_none(move |row| of(row).suspended_code)
        .text_or_none(|row| row.turn.code.code.as_deref())
        .json(|row| rows::json_or_none(Some(&row.turn.code.refused_by).filter(|codes| !codes.is_empty())))?;
    Ok(columns)
}

fn entries(changes: &Changes, calls: &mut Vec<SqlCall>) -> Result<(), Error> {
    if changes.entries.is_empty() {
        return Ok(());
    }
    let mut new = Vec::with_capacity(changes.entries.len());
    for entry in &changes.entries {
        new.push((entry, EntryColumns::of(&entry.entry.entry)?));
    }
    let columns = RowColumns::of(&new)
        .plain(|row| row.0.session.0)
        .plain(|row| row.0.turn.0)
        .plain(|row| rows::integer(row.0.index))
        .time(|row| row.0.entry.at)
        .text(|row| row.1.entry)
        .text_or_none(|row| row.1.path())
        .text_or_none(|row| row.1.kind())
        .text_or_none(|row| row.1.name())
        .text_or_none(|row| row.1.location())
        .json(|row| row.1.arguments())?
        .plain(|row| row.1.interrupt.map(|id| id.0))
        .plain(|row| row.1.body.clone())
        .plain(|row| row.0.told.map(rows::count));
    calls.push(columns.call(sql!("journal/insert")));
    Ok(())
}

fn interrupts(changes: &[(Interrupt, bool)], forms: &KeptForms, calls: &mut Vec<SqlCall>) -> Result<(), Error> {
    let of = |is_new: bool| -> Vec<&Interrupt> {
        changes.iter().filter(|change| change.1 == is_new).map(|change| &change.0).collect()
    };
    for (rows, sql) in [(of(true), sql!("interrupts/insert")), (of(false), sql!("interrupts/update"))] {
        if !rows.is_empty() {
            calls.push(interrupt_columns(&rows, forms)?.call(sql));
        }
    }
    Ok(())
}

fn interrupt_columns<'r, 'i>(
    interrupts: &'r [&'i Interrupt],
    forms: &KeptForms,
) -> Result<RowColumns<'r, &'i Interrupt>, Error> {
    let is_built_in = |row: &Interrupt| {
        row.response_schema.is_some() && row.response_schema == answer::built_in_schema(row.into(), forms)
    };
    let columns = RowColumns::of(interrupts)
        .plain(|row| row.interrupt_id.0)
        .plain(|row| row.session_id.0)
        .plain(|row| row.turn_id.0)
        .text(|row| &row.kind)
        .json(|row| rows::json(&row.payload))?
        .text(|row| row.status.as_str())
        .text_or_none(|row| row.message.as_deref())
        .plain(|row| is_built_in(row))
        .json(|row| rows::json_or_none(row.response_schema.as_deref().filter(|_| !is_built_in(row))))?
        .json(|row| rows::json_or_none(row.allowed_decisions.as_ref()))?
        .text_or_none(|row| approved_tool(row))
        .text_or_none(|row| row.tool_call_id.as_deref())
        .text_or_none(|row| row.agent.as_deref())
        .text_or_none(|row| row.rule.as_deref())
        .text_or_none(|row| row.args_digest.as_deref())
        .time(|row| row.created_at)
        .time_or_none(|row| row.expires_at)
        .json(|row| rows::json_or_none(row.value.as_ref()))?
        .text_or_none(|row| row.resolved_by.as_deref())
        .time_or_none(|row| row.resolved_at)
        .json(|row| rows::json_or_none(row.metadata.as_ref()))?
        .text_or_none(|row| row.tool_source.as_deref())
        .json(|row| rows::json_or_none(row.args_schema.as_ref()))?
        .text_or_none(|row| row.claimed_by.as_deref())
        .time_or_none(|row| row.claimed_until)
        .text_or_none(|row| row.snoozed_by.as_deref())
        .time_or_none(|row| row.snoozed_until)
        .text_or_none(|row| row.sent_by.as_deref())
        .json(|row| rows::list_or_none(&row.approvers))?
        .text_or_none(|row| row.rule_failed.as_deref())
        .json(|row| rows::list_or_none(&row.tool_approvers))?
        .plain(|row| row.lets_run.then_some(true))
        .plain(|row| row.is_hidden.then_some(true));
    Ok(columns)
}

fn set_aside(changes: &Changes, calls: &mut Vec<SqlCall>) {
    let (mut interrupts, mut turns) = (Vec::new(), Vec::new());
    for (_, due) in &changes.set_aside {
        match due {
            DueKind::Interrupt(id) => interrupts.push(id.0),
            DueKind::Timers(turn) => turns.push(turn.0),
        }
    }
    for (ids, sql) in [(interrupts, sql!("interrupts/set_aside")), (turns, sql!("turns/set_aside"))] {
        if !ids.is_empty() {
            calls.push(SqlCall::new(sql, vec![Box::new(ids)]));
        }
    }
}

fn others(changes: &Changes, calls: &mut Vec<SqlCall>) -> Result<(), Error> {
    for (is_new, sql) in [(true, sql!("replies/insert")), (false, sql!("replies/upsert"))] {
        let kept: Vec<&ReplyChange> = changes.replies.iter().filter(|change| change.is_new == is_new).collect();
        if !kept.is_empty() {
            let columns = RowColumns::of(&kept)
                .text(|row| &row.scope)
                .text(|row| &row.key)
                .text(|row| &row.reply.request_digest)
                .json(|row| rows::json(&row.reply.body))?
                .time(|row| row.reply.created_at);
            calls.push(columns.call(sql));
        }
    }
    if !changes.carried.is_empty() {
        let columns = RowColumns::of(&changes.carried)
            .plain(|row| row.0.0)
            .plain(|row| row.1.left_at.as_ref().map(|stand| rows::count(stand.entries)))
            .text_or_none(|row| row.1.left_at.as_ref().map(|stand| stand.digest.as_str()));
        calls.push(columns.call(sql!("carried_turns/upsert")));
    }
    if !changes.revoked_keys.is_empty() {
        let columns = RowColumns::of(&changes.revoked_keys).plain(|row| row.0.0).time(|row| row.1);
        calls.push(columns.call(sql!("keys/revoke")));
    }
    if !changes.keys.is_empty() {
        let columns = RowColumns::of(&changes.keys)
            .plain(|key| key.key_id.0)
            .text(|key| &key.name)
            .json(|key| rows::json(&key.scopes))?
            .json(|key| rows::json(&key.groups))?
            .plain(|key| key.digest.bytes().to_vec())
            .time(|key| key.created_at)
            .text_or_none(|key| key.created_by.as_deref())
            .time_or_none(|key| key.revoked_at);
        calls.push(columns.call(sql!("keys/insert")));
    }
    if !changes.deleted_sign_ins.is_empty() {
        let columns = RowColumns::of(&changes.deleted_sign_ins).plain(|token| token.bytes().to_vec());
        calls.push(columns.call(sql!("sign_ins/delete")));
    }
    if !changes.sign_ins.is_empty() {
        let columns = RowColumns::of(&changes.sign_ins)
            .plain(|row| row.token.bytes().to_vec())
            .plain(|row| row.key.bytes().to_vec())
            .time(|row| row.ends_at);
        calls.push(columns.call(sql!("sign_ins/insert")));
    }
    match &changes.policy {
        None => {}
        Some(PolicySwap { seen, change: PolicyChange::Removed }) => {
            calls.push(SqlCall::new(sql!("policy/delete"), params![seen.clone()]));
        }
        Some(PolicySwap { seen, change: PolicyChange::Pushed(policy) }) => {
            let columns = RowColumns::of(std::slice::from_ref(policy))
                .text(|policy| &policy.text)
                .text(|policy| &policy.digest)
                .time(|policy| policy.pushed_at)
                .text_or_none(|policy| policy.pushed_by.as_deref());
            calls.push(columns.and(seen.clone()).call(sql!("policy/upsert")));
        }
    }
    Ok(())
}

fn notices(changes: &Changes, calls: &mut Vec<SqlCall>) {
    if !changes.deleted_notices.is_empty() {
        let gone: Vec<&Notice> = changes.deleted_notices.iter().collect();
        calls.push(standing(notice_ids(&gone)).call(sql!("outbox/delete")));
    }
    let new: Vec<&Notice> =
        changes.notices.iter().filter(|change| change.seen.is_none()).map(|change| &change.notice).collect();
    if !new.is_empty() {
        let body = RowColumns::of(&new).text_or_none(|row| row.body.as_deref());
        let params = [standing(notice_ids(&new)).1, body.1, told(&new).1];
        calls.push(SqlCall::new(sql!("outbox/insert"), params.into_iter().flatten().collect()));
    }
    let others: Vec<(&Notice, &Notice)> =
        changes.notices.iter().filter_map(|change| Some((change.seen.as_ref()?, &change.notice))).collect();
    if !others.is_empty() {
        let (seen, notices): (Vec<&Notice>, Vec<&Notice>) = others.iter().copied().unzip();
        let kept = RowColumns::of(&others).plain(|(seen, notice)| seen.body == notice.body);
        // What is large is not written again with each try.
        let body = kept.text_or_none(|(seen, notice)| notice.body.as_deref().filter(|_| seen.body != notice.body));
        let params = [standing(notice_ids(&seen)).1, standing(RowColumns::of(&notices)).1, body.1, told(&notices).1];
        calls.push(SqlCall::new(sql!("outbox/update"), params.into_iter().flatten().collect()));
    }
    for (session, url, now) in &changes.first_due {
        let params = params![session.0, without_nulls(url).into_owned(), now.millis()];
        calls.push(SqlCall::new(sql!("outbox/make_first_due"), params));
    }
}

fn notice_ids<'r, 'n>(notices: &'r [&'n Notice]) -> RowColumns<'r, &'n Notice> {
    RowColumns::of(notices).plain(|row| row.id.event).plain(|row| i64::from(row.id.reminder))
}

/// Where notices stand: what of them is compared.
fn standing<'r, 'n>(columns: RowColumns<'r, &'n Notice>) -> RowColumns<'r, &'n Notice> {
    columns
        .text(|row| row.status.as_str())
        .plain(|row| row.leased)
        .plain(|row| i64::from(row.attempts))
        .time_or_none(|row| row.due_at)
}

/// What notices tell, and what came of that.
fn told<'r, 'n>(notices: &'r [&'n Notice]) -> RowColumns<'r, &'n Notice> {
    RowColumns::of(notices)
        .plain(|row| row.session_id.0)
        .plain(|row| row.interrupt_id.map(|id| id.0))
        .text(|row| row.event.as_str())
        .text(|row| &row.url)
        .text_or_none(|row| row.token.as_deref())
        .time(|row| row.created_at)
        .text_or_none(|row| row.last_error.as_deref())
        .time_or_none(|row| row.settled_at)
        .plain(|row| row.origin().to_owned())
}

fn event_rows(changes: &Changes) -> SqlCall {
    let status = |row: &'_ (StoredEvent, Timestamp)| match &row.0.what {
        EventBody::Session { status, .. } => status.as_str(),
        EventBody::Interrupt { status, .. } => status.as_str(),
        EventBody::Triage { triage, .. } => triage.as_str(),
    };
    let interrupt = |row: &'_ (StoredEvent, Timestamp)| match &row.0.what {
        EventBody::Session { .. } => None,
        EventBody::Interrupt { interrupt_id, .. } | EventBody::Triage { interrupt_id, .. } => Some(interrupt_id.0),
    };
    let RowColumns(all, mut params) = RowColumns::of(&changes.events)
        .plain(|row| row.0.session_id.0)
        .text(status)
        .plain(interrupt)
        .text_or_none(|row| match &row.0.what {
            EventBody::Session { error, .. } => error.as_deref(),
            EventBody::Interrupt { .. } | EventBody::Triage { .. } => None,
        })
        .time(|row| row.1);
    params.push(Box::new(changes.event_places().into_iter().map(rows::count).collect::<Vec<i64>>()));
    RowColumns(all, params).call(sql!("events/insert"))
}

fn deed_rows(deeds: &[(Deed, Timestamp)]) -> Result<SqlCall, Error> {
    let columns = RowColumns::of(deeds)
        .time(|row| row.1)
        .text(|row| row.0.action.as_str())
        .plain(|row| row.0.session_id.map(|id| id.0))
        .plain(|row| row.0.interrupt_id.map(|id| id.0))
        .text_or_none(|row| row.0.actor.as_deref())
        .plain(|row| row.0.address.map(|address| address.to_string()))
        .json(|row| rows::audited_json(&row.0.details))?;
    Ok(columns.call(sql!("deeds/insert")))
}
