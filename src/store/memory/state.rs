//! What the store holds, and how it is read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::graphs::GraphTables;
use crate::domain::access::{Key, SignIn};
use crate::domain::audit::{Action, AuditRow, Head};
use crate::domain::decision::TOOL_APPROVAL;
use crate::domain::event::{EventBody, EventView, NumberedEvent, StoredEvent};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::RecordedEntry;
use crate::domain::message::{ChatMessage, Role};
use crate::domain::naming;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::policy::PushedPolicy;
use crate::domain::search::Needle;
use crate::domain::session::Session;
use crate::domain::told;
use crate::domain::turn::Life;
use crate::domain::{Error, InterruptId, SessionId, StoreId, Timestamp, TurnId};
use crate::store::Reader;
use crate::store::carried::Carried;
use crate::store::clock::Clock;
use crate::store::query::{AuditQuery, InterruptQuery, Order, Page, SessionQuery, TitledSession};
use crate::store::record::{Due, DueKind, StoredReply, Turn};

/// Everything, in order of arrival where there is one.
#[derive(Clone)]
pub(in crate::store) struct MemoryState {
    pub(in crate::store) id: StoreId,
    clock: Arc<dyn Clock>,
    pub(in crate::store) sessions: Ordered<SessionId, SessionRow>,
    pub(in crate::store) turns: Ordered<TurnId, TurnRow>,
    pub(in crate::store) interrupts: Ordered<InterruptId, Interrupt>,
    /// By scope and key.
    pub(in crate::store) replies: BTreeMap<(String, String), StoredReply>,
    /// By number, which is one more than the place.
    pub(in crate::store) audit: Vec<AuditRow>,
    /// Oldest first.
    pub(in crate::store) keys: Vec<Key>,
    pub(in crate::store) sign_ins: Vec<SignIn>,
    pub(in crate::store) policy: Option<PushedPolicy>,
    pub(in crate::store) notices: Ordered<NoticeId, Notice>,
    pub(in crate::store) carried: HashMap<TurnId, Carried>,
    pub(super) graphs: GraphTables,
    /// By number.
    pub(in crate::store) events: BTreeMap<u64, (StoredEvent, Timestamp)>,
    /// Entries of journals that are told, by number: of which turn, and where.
    pub(in crate::store) told: BTreeMap<u64, (TurnId, u64)>,
    /// The first event that was left when events were swept last: what tells of before is gone, entries too.
    pub(in crate::store) swept: u64,
}

impl MemoryState {
    /// Nothing yet.
    pub(in crate::store) fn new(id: StoreId, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            clock,
            sessions: Ordered::default(),
            turns: Ordered::default(),
            interrupts: Ordered::default(),
            replies: BTreeMap::new(),
            audit: Vec::new(),
            keys: Vec::new(),
            sign_ins: Vec::new(),
            policy: None,
            notices: Ordered::default(),
            carried: HashMap::new(),
            graphs: GraphTables::default(),
            events: BTreeMap::new(),
            told: BTreeMap::new(),
            swept: 0,
        }
    }
}

/// A session with what it remembers.
#[derive(Clone)]
pub(in crate::store) struct SessionRow {
    pub(in crate::store) session: Session,
    pub(in crate::store) messages: Vec<ChatMessage>,
}

/// A turn with its journal.
#[derive(Clone)]
pub(in crate::store) struct TurnRow {
    pub(in crate::store) turn: Turn,
    pub(in crate::store) journal: Vec<RecordedEntry>,
    /// The index of the first entry that is here: 0 where all of them are.
    pub(in crate::store) first: u64,
    /// The journal was removed.
    pub(in crate::store) is_compacted: bool,
}

impl TurnRow {
    /// How many entries the journal has, those included that are not here.
    pub(in crate::store) fn entries(&self) -> u64 {
        self.first.saturating_add(self.journal.len() as u64)
    }

    /// The entries from an index on, of those that are here.
    pub(in crate::store) fn entries_from(&self, index: u64) -> &[RecordedEntry] {
        let index = usize::try_from(index.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.journal.get(index..).unwrap_or_default()
    }
}

/// A table: rows by id, and in order of arrival.
#[derive(Clone)]
pub(in crate::store) struct Ordered<K, V> {
    seqs: HashMap<K, u64>,
    rows: BTreeMap<u64, (K, V)>,
    /// The last place given away; never given again.
    last: u64,
}

/// Where the places begin that are given here: nobody else counts so far.
const OWN_PLACES: u64 = 1 << 62;

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Self { seqs: HashMap::new(), rows: BTreeMap::new(), last: 0 }
    }
}

impl<K: Copy + Eq + std::hash::Hash, V> Ordered<K, V> {
    pub(in crate::store) fn contains(&self, id: K) -> bool {
        self.seqs.contains_key(&id)
    }

    pub(in crate::store) fn get(&self, id: K) -> Option<&V> {
        self.rows.get(self.seqs.get(&id)?).map(|(_, row)| row)
    }

    pub(in crate::store) fn get_mut(&mut self, id: K) -> Option<&mut V> {
        self.rows.get_mut(self.seqs.get(&id)?).map(|(_, row)| row)
    }

    /// The place of a row in the order of arrival.
    pub(in crate::store) fn place(&self, id: K) -> Option<u64> {
        self.seqs.get(&id).copied()
    }

    /// Adds a row at the end.
    pub(in crate::store) fn push(&mut self, id: K, row: V) {
        self.last += 1;
        self.put(self.last, id, row);
    }

    /// Takes the row that was pushed last away again, as if it had never been there.
    pub(in crate::store) fn unpush(&mut self, id: K) {
        drop(self.remove(id));
        self.last -= 1;
    }

    /// Adds a row at a place that it had before.
    pub(in crate::store) fn put(&mut self, seq: u64, id: K, row: V) {
        self.seqs.insert(id, seq);
        self.rows.insert(seq, (id, row));
    }

    /// A table whose own rows come after all that are put where somebody else has them ([`Ordered::put`]).
    pub(in crate::store) fn after_others() -> Self {
        Self { last: OWN_PLACES, ..Self::default() }
    }

    pub(in crate::store) fn remove(&mut self, id: K) -> Option<(u64, V)> {
        let seq = self.seqs.remove(&id)?;
        self.rows.remove(&seq).map(|(_, row)| (seq, row))
    }

    pub(in crate::store) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(in crate::store) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.rows.values().map(|(_, row)| row)
    }

    fn after(&self, cursor: Option<u64>) -> impl Iterator<Item = (u64, &V)> {
        let first = cursor.map_or(0, |seq| seq.saturating_add(1));
        self.rows.range(first..).map(|(seq, (_, row))| (*seq, row))
    }

    pub(in crate::store) fn before(&self, cursor: Option<u64>) -> impl Iterator<Item = (u64, &V)> {
        self.rows.range(..cursor.unwrap_or(u64::MAX)).rev().map(|(seq, (_, row))| (*seq, row))
    }
}

/// The first `limit` rows, and where the next page begins.
pub(in crate::store) fn page<T: Clone>(rows: impl Iterator<Item = (u64, T)>, limit: usize) -> Page<T> {
    let limit = limit.max(1);
    let mut rows: Vec<(u64, T)> = rows.take(limit.saturating_add(1)).collect();
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = if more { rows.last().map(|(seq, _)| *seq) } else { None };
    Page { items: rows.into_iter().map(|(_, item)| item).collect(), next }
}

fn matches(query: &InterruptQuery, interrupt: &Interrupt) -> bool {
    let tool = || {
        let name = interrupt.payload.get("tool_name").and_then(|name| name.as_str());
        if interrupt.kind == TOOL_APPROVAL { name } else { None }
    };
    query.status.is_none_or(|status| interrupt.status == status)
        && query.kind.as_ref().is_none_or(|kind| interrupt.kind == *kind)
        && query.tool.as_deref().is_none_or(|wanted| tool() == Some(wanted))
        && query.session_id.is_none_or(|session| interrupt.session_id == session)
        && query.agent.as_ref().is_none_or(|agent| interrupt.agent.as_ref() == Some(agent))
        && query.created_after.is_none_or(|time| interrupt.created_at > time)
        && query.snoozed.is_none_or(|(snoozed, now)| interrupt.is_snoozed(now) == snoozed)
        && query.claimed_by.as_ref().is_none_or(|(who, now)| interrupt.claimant(*now).is_some_and(|(by, _)| by == who))
        && query.says.as_ref().is_none_or(|needle| says(interrupt, needle))
}

fn says(interrupt: &Interrupt, needle: &Needle) -> bool {
    let texts = [&interrupt.message, &interrupt.agent];
    interrupt.payload.values().any(|member| needle.is_in_value(member))
        || texts.into_iter().flatten().any(|text| needle.is_in(text))
}

impl MemoryState {
    fn view(&self, event: &StoredEvent) -> EventView {
        let interrupt = match event.what {
            EventBody::Interrupt { interrupt_id, .. } | EventBody::Triage { interrupt_id, .. } => {
                self.interrupts.get(interrupt_id).cloned()
            }
            EventBody::Session { .. } => None,
        };
        event.clone().view(interrupt)
    }

    /// The message of the first turn of each session.
    fn first_messages(&self) -> HashMap<SessionId, &ChatMessage> {
        let mut first = HashMap::new();
        for row in self.turns.values() {
            first.entry(row.turn.session_id).or_insert(&*row.turn.message);
        }
        first
    }

    /// What an entry tells; `None` where it is gone with its journal.
    fn told(&self, (turn, index): (TurnId, u64)) -> Option<EventView> {
        let row = self.turns.get(turn)?;
        told::view(row.turn.session_id, turn, &row.entries_from(index).first()?.entry)
    }

    /// Everything that has a time: first the interrupts, then the timers, each in order of arrival.
    pub(in crate::store) fn dues(&self) -> impl Iterator<Item = Due> {
        let is_suspended = |interrupt: &Interrupt| {
            let turn = self.turns.get(interrupt.turn_id).map(|row| &row.turn);
            turn.is_some_and(|turn| turn.life.suspended().is_some() && turn.session_id == interrupt.session_id)
        };
        let interrupts = self
            .interrupts
            .values()
            .filter(move |interrupt| interrupt.is_pending() && !is_suspended(interrupt))
            .filter_map(|it| Some(Due { at: it.expires_at?, what: DueKind::Interrupt(it.interrupt_id) }));
        let timers = self
            .turns
            .values()
            .filter_map(|row| Some(Due { at: row.turn.life.wake_at()?, what: DueKind::Timers(row.turn.id) }));
        interrupts.chain(timers)
    }
}

impl Reader for MemoryState {
    fn store_id(&self) -> Result<StoreId, Error> {
        Ok(self.id)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn promotions(&self) -> u64 {
        0
    }

    fn session(&self, id: SessionId) -> Result<Option<Session>, Error> {
        Ok(self.sessions.get(id).map(|row| row.session.clone()))
    }

    fn messages(&self, id: SessionId) -> Result<Vec<ChatMessage>, Error> {
        Ok(self.sessions.get(id).map(|row| row.messages.clone()).unwrap_or_default())
    }

    fn messages_page(&self, id: SessionId, first: usize, limit: usize) -> Result<Vec<ChatMessage>, Error> {
        let Some(row) = self.sessions.get(id) else { return Ok(Vec::new()) };
        Ok(row.messages.iter().skip(first).take(limit).cloned().collect())
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Page<TitledSession>, Error> {
        let is_wanted = |(_, row): &(u64, &SessionRow)| {
            query.status.is_none_or(|status| row.session.status() == status)
                && query.id.is_none_or(|id| row.session.id == id)
        };
        let first = self.first_messages();
        let titled = |(seq, row): (u64, &SessionRow)| {
            let said = first.get(&row.session.id).copied();
            let message =
                said.or_else(|| row.messages.iter().take(naming::TITLE_AMONG).find(|one| one.role == Role::User));
            (seq, TitledSession::of(&row.session, message.and_then(naming::title_of)))
        };
        let rows: Box<dyn Iterator<Item = (u64, &SessionRow)>> = match query.order {
            Order::Oldest => Box::new(self.sessions.after(query.cursor)),
            Order::Newest => Box::new(self.sessions.before(query.cursor)),
        };
        let mut rows = rows.filter(is_wanted).map(titled);
        let Some(search) = &query.search else { return Ok(page(rows, query.limit)) };
        let looked_at: Vec<(u64, TitledSession)> = rows.by_ref().take(search.within).collect();
        let last = looked_at.last().map(|(seq, _)| *seq);
        let found = looked_at.into_iter().filter(|(_, it)| search.finds(it.id, it.title.as_deref()));
        let found = page(found, query.limit);
        let next = found.next.or(if rows.next().is_some() { last } else { None });
        Ok(Page { next, ..found })
    }

    fn count_sessions(&self) -> Result<usize, Error> {
        Ok(self.sessions.len())
    }

    fn interrupt(&self, id: InterruptId) -> Result<Option<Interrupt>, Error> {
        Ok(self.interrupts.get(id).cloned())
    }

    fn pending(&self, session: SessionId) -> Result<Vec<Interrupt>, Error> {
        let pending = self.interrupts.values().filter(|it| it.session_id == session && it.is_pending());
        Ok(pending.cloned().collect())
    }

    fn interrupts(&self, query: &InterruptQuery) -> Result<Page<Interrupt>, Error> {
        let rows = self.interrupts.before(query.cursor).filter(|(_, interrupt)| matches(query, interrupt));
        let found = page(rows, query.limit);
        Ok(Page { items: found.items.into_iter().cloned().collect(), next: found.next })
    }

    fn turn(&self, id: TurnId) -> Result<Option<Turn>, Error> {
        Ok(self.turns.get(id).map(|row| row.turn.clone()))
    }

    fn life(&self, turn: TurnId) -> Result<Option<Life>, Error> {
        Ok(self.turns.get(turn).map(|row| row.turn.life.clone()))
    }

    fn last_turn(&self, session: SessionId) -> Result<Option<Turn>, Error> {
        let turn = self.turns.values().rev().find(|row| row.turn.session_id == session);
        Ok(turn.map(|row| row.turn.clone()))
    }

    fn session_of_turn(&self, id: TurnId) -> Result<Option<SessionId>, Error> {
        Ok(self.turns.get(id).map(|row| row.turn.session_id))
    }

    fn sender_of_turn(&self, id: TurnId) -> Result<Option<String>, Error> {
        Ok(self.turns.get(id).and_then(|row| row.turn.sent_by.clone()))
    }

    fn session_of_interrupt(&self, id: InterruptId) -> Result<Option<SessionId>, Error> {
        Ok(self.interrupt(id)?.map(|interrupt| interrupt.session_id))
    }

    fn journal(&self, turn: TurnId) -> Result<Vec<RecordedEntry>, Error> {
        self.journal_after(turn, None)
    }

    fn journal_after(&self, turn: TurnId, index: Option<u64>) -> Result<Vec<RecordedEntry>, Error> {
        let Some(row) = self.turns.get(turn) else { return Ok(Vec::new()) };
        Ok(row.entries_from(index.map_or(0, |index| index.saturating_add(1))).to_vec())
    }

    fn last_entry(&self, turn: TurnId) -> Result<Option<RecordedEntry>, Error> {
        Ok(self.turns.get(turn).and_then(|row| row.journal.last().cloned()))
    }

    fn journal_page(&self, turn: TurnId, first: u64, limit: usize) -> Result<Vec<RecordedEntry>, Error> {
        let Some(row) = self.turns.get(turn) else { return Ok(Vec::new()) };
        Ok(row.entries_from(first).iter().take(limit).cloned().collect())
    }

    fn reply(&self, scope: &str, key: &str) -> Result<Option<StoredReply>, Error> {
        Ok(self.replies.get(&(scope.to_owned(), key.to_owned())).cloned())
    }

    fn keys(&self) -> Result<Vec<Key>, Error> {
        Ok(self.keys.clone())
    }

    fn sign_ins(&self) -> Result<Vec<SignIn>, Error> {
        Ok(self.sign_ins.clone())
    }

    fn pushed_policy(&self) -> Result<Option<PushedPolicy>, Error> {
        Ok(self.policy.clone())
    }

    fn events_after(&self, after: u64, session: Option<SessionId>, limit: usize) -> Result<Vec<NumberedEvent>, Error> {
        let wanted = self
            .events
            .range(after.saturating_add(1)..)
            .filter(|(_, (event, _))| session.is_none_or(|id| event.session_id == id))
            .map(|(number, (event, _))| NumberedEvent { number: *number, event: self.view(event) });
        // What was swept of the events is swept of the entries.
        let told = self
            .told
            .range(after.max(self.swept).saturating_add(1)..)
            .map(|(number, place)| (*number, self.told(*place)))
            .filter(|(_, event)| event.as_ref().is_some_and(|it| session.is_none_or(|id| it.session_id == id)));
        Ok(NumberedEvent::in_order(wanted.take(limit).collect(), told.take(limit).collect(), limit))
    }

    fn last_event(&self) -> Result<u64, Error> {
        let appended = self.events.last_key_value().map_or(0, |(number, _)| *number);
        Ok(self.told.last_key_value().map_or(appended, |(number, _)| appended.max(*number)))
    }

    fn last_event_of(&self, session: SessionId) -> Result<u64, Error> {
        let newest = self.events.iter().rev().find(|(_, (event, _))| event.session_id == session);
        Ok(newest.map_or(0, |(number, _)| *number))
    }

    fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRow>, Error> {
        let first = query.cursor.map_or(0, |seq| usize::try_from(seq).unwrap_or(usize::MAX));
        let rows = self.audit.get(first..).unwrap_or_default().iter().filter(|row| {
            query.session_id.is_none_or(|id| row.session_id == Some(id))
                && query.interrupt_id.is_none_or(|id| row.interrupt_id == Some(id))
                && query.actor.as_ref().is_none_or(|actor| row.actor.as_ref() == Some(actor))
                && query.action.is_none_or(|action| row.action == action)
                && query.after.is_none_or(|time| row.at > time)
        });
        let found = page(rows.map(|row| (row.seq, row)), query.limit);
        Ok(Page { items: found.items.into_iter().cloned().collect(), next: found.next })
    }

    fn audit_head(&self) -> Result<Head, Error> {
        Ok(self.audit.last().map_or_else(Head::nothing, AuditRow::head))
    }

    fn has_seen(&self, interrupt: InterruptId, actor: &str) -> Result<bool, Error> {
        let is_it = |row: &AuditRow| row.action == Action::Seen && row.interrupt_id == Some(interrupt);
        Ok(self.audit.iter().any(|row| is_it(row) && row.actor.as_deref() == Some(actor)))
    }
}
