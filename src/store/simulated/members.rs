//! Who has the database: the rows of servers, whose turns are, what each is to look at, and the bell between them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::network::{LinkState, SimulatedConnection};
use super::{LeftOut, Rows, SimulatedDatabase};
use crate::domain::cluster::Moment;
use crate::domain::journal::Entry;
use crate::domain::turn::TurnState;
use crate::domain::{Error, Timestamp, TurnId, seeds};
use crate::store::BoxFuture;
use crate::store::owner::TurnOwner;
use crate::store::shared::changes::Changes;
use crate::store::shared::doorbell::Doorbell;
use crate::store::shared::membership::Membership;
use crate::store::shared::servers::{OtherServer, Registered, RunningNow, ServerId, ServerRow, ServerRows};
use crate::store::signals::{AccessVersion, KnownTurn, OrphanedTurn, OthersSnapshot, Signal};
use crate::store::upkeep::{Upkeep, orphans};

/// The rows of servers, and what hangs on them.
#[derive(Clone, Default)]
pub(super) struct MemberRows {
    servers: BTreeMap<ServerId, MemberRow>,
    owners: HashMap<TurnId, TurnOwner>,
    /// Counts how often keys and sign-ins have changed.
    access: u64,
    buried: Vec<(ServerId, Moment)>,
    /// When something was committed last for each.
    committed: BTreeMap<ServerId, Moment>,
}

#[derive(Clone)]
struct MemberRow {
    row: ServerRow,
    beat: u64,
    beat_at: Moment,
    at_work: u64,
    is_draining: bool,
}

impl MemberRows {
    /// Whether nobody who lives has the turn.
    pub(super) fn is_orphan(&self, turn: &OrphanedTurn) -> bool {
        self.owners.get(&turn.turn).is_none_or(|owner| !self.servers.contains_key(&ServerId(owner.0)))
    }

    pub(super) fn committed(&mut self, changes: &Changes) {
        for change in &changes.turns {
            if let Some(owner) = change.owner {
                self.owners.insert(change.turn.id, owner);
            }
        }
        self.access += u64::from(changes.is_of_access());
    }

    fn others(&self, id: ServerId) -> Vec<OtherServer> {
        let now = seeds::moment().unwrap_or_default();
        let others = self.servers.values().filter(|member| member.row.id != id);
        let others = others.map(|member| OtherServer {
            row: member.row.clone(),
            beat: member.beat,
            silent_ms: u64::try_from(now.saturating_sub(member.beat_at).as_millis()).unwrap_or(u64::MAX),
            version: String::new(),
            at_work: member.at_work,
            is_draining: member.is_draining,
            started_at: 0,
        });
        others.collect()
    }
}

impl Rows {
    pub(super) fn may_commit(&self, member: ServerId) -> bool {
        self.left_out == Some(LeftOut::Rows) || self.members.servers.contains_key(&member)
    }

    /// Something was committed for it.
    pub(super) fn has_committed(&mut self, member: ServerId) {
        self.members.committed.insert(member, seeds::moment().unwrap_or_default());
    }

    pub(super) fn access_version(&self) -> AccessVersion {
        AccessVersion { changes: self.members.access, promotions: self.told_promotions() }
    }

    fn look(&self, me: Option<ServerId>, agent: &str, known: &[KnownTurn]) -> Result<OthersSnapshot, Error> {
        let promotions = self.told_promotions();
        if self.left_out == Some(LeftOut::Looks) {
            return Ok(OthersSnapshot { promotions, ..OthersSnapshot::default() });
        }
        let agent_of = |turn: TurnId| {
            let session = self.state.turns.get(turn).and_then(|row| self.state.sessions.get(row.turn.session_id));
            session.map(|row| row.session.agent.as_str())
        };
        let (mut left, mut owned) = (Vec::new(), Vec::new());
        for turn in orphans(&self.state)? {
            if self.members.is_orphan(&turn) {
                left.extend((agent_of(turn.turn) == Some(agent)).then_some(turn));
            } else if self.members.owners.get(&turn.turn).map(|owner| ServerId(owner.0)) == me
                && !known.iter().any(|known| known.turn == turn.turn)
            {
                owned.push(turn);
            }
        }
        let moved = known.iter().filter(|known| self.has_moved(known)).map(|known| known.turn).collect();
        Ok(OthersSnapshot { orphans: left, owned, moved, promotions, ..OthersSnapshot::default() })
    }

    /// Whether a turn that a server has in memory is another one's or over, or others have written to it.
    fn has_moved(&self, of: &KnownTurn) -> bool {
        let Some(row) = self.state.turns.get(of.turn) else { return true };
        let is_told = |entry: &Entry| matches!(entry, Entry::Answer { .. } | Entry::Expire { .. });
        let known = usize::try_from(of.known).unwrap_or(usize::MAX);
        row.turn.life.state != TurnState::UnderWay
            || row.turn.life.epoch != of.epoch
            || row.journal.iter().skip(known).any(|recorded| is_told(&recorded.entry))
    }
}

impl SimulatedDatabase {
    pub(super) fn look_for(
        &self,
        me: Option<ServerId>,
        agent: String,
        known: Vec<KnownTurn>,
    ) -> BoxFuture<'static, Result<OthersSnapshot, Error>> {
        self.with(move |rows| rows.look(me, &agent, &known))
    }

    /// Beside other servers, leases end by themselves.
    pub(super) fn release_notices_beside(
        &self,
        me: Option<ServerId>,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<(), Error>> {
        let is_alone = self.lock().members.servers.keys().all(|id| Some(*id) == me);
        if is_alone { self.release_notices(now) } else { Box::pin(std::future::ready(Ok(()))) }
    }

    /// When something was committed last for each server.
    pub fn committed(&self) -> BTreeMap<ServerId, Moment> {
        self.lock().members.committed.clone()
    }

    /// Who was taken for dead, and when.
    pub fn buried(&self) -> Vec<(ServerId, Moment)> {
        self.lock().members.buried.clone()
    }
}

/// The rows of servers, for one of them.
pub struct SimulatedServers(pub SimulatedConnection);

impl SimulatedServers {
    fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut MemberRows) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        self.0.send(self.0.database().with(move |rows| Ok(ask(&mut rows.members))))
    }
}

impl ServerRows for SimulatedServers {
    fn register(&self, row: ServerRow) -> BoxFuture<'static, Result<Registered, Error>> {
        self.ask(move |members| {
            if members.servers.values().any(|other| row.kind.excludes(other.row.kind)) {
                return Registered::Occupied(members.others(row.id));
            }
            let beat_at = seeds::moment().unwrap_or_default();
            let member = MemberRow { row, beat: 0, beat_at, at_work: 0, is_draining: false };
            members.servers.entry(member.row.id).or_insert(member);
            Registered::Yes
        })
    }

    fn others(&self, id: ServerId) -> BoxFuture<'static, Result<Vec<OtherServer>, Error>> {
        self.ask(move |members| members.others(id))
    }

    fn beat(
        &self,
        id: ServerId,
        at_work: u64,
        running: RunningNow,
        is_draining: bool,
    ) -> BoxFuture<'static, Result<Option<bool>, Error>> {
        self.ask(move |members| {
            let member = members.servers.get_mut(&id)?;
            member.beat += 1;
            member.beat_at = seeds::moment().unwrap_or_default();
            member.at_work = at_work;
            member.row.role.running = running;
            member.is_draining |= is_draining;
            Some(member.is_draining)
        })
    }

    fn bury(&self, id: ServerId, beat: u64) -> BoxFuture<'static, Result<bool, Error>> {
        self.ask(move |members| {
            let is_dead = members.servers.get(&id).is_some_and(|member| member.beat == beat);
            if is_dead {
                members.servers.remove(&id);
                members.buried.push((id, seeds::moment().unwrap_or_default()));
            }
            is_dead
        })
    }

    fn leave(&self, id: ServerId) -> BoxFuture<'static, Result<(), Error>> {
        self.ask(move |members| drop(members.servers.remove(&id)))
    }
}

/// Who hears of what others commit.
#[derive(Clone, Default)]
pub(super) struct BellListeners(Arc<Mutex<Vec<BellListener>>>);

#[derive(Clone)]
struct BellListener {
    membership: Weak<Membership>,
    connection: SimulatedConnection,
}

/// A bell whose rings are lost, late and doubled as all messages are.
pub struct SimulatedBell {
    id: ServerId,
    connection: SimulatedConnection,
}

impl SimulatedBell {
    /// That of a member, who hears the others from now on.
    pub fn new(membership: &Arc<Membership>, connection: SimulatedConnection) -> Self {
        let listener = BellListener { membership: Arc::downgrade(membership), connection: connection.clone() };
        let mut listeners = connection.database().listeners.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.membership.strong_count() > 0);
        listeners.push(listener);
        drop(listeners);
        Self { id: membership.id(), connection }
    }
}

impl Doorbell for SimulatedBell {
    fn ring(&self, signals: Vec<Signal>) {
        let listeners = self.connection.database().listeners.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for BellListener { membership, connection } in listeners {
            if membership.upgrade().is_none_or(|other| other.id() == self.id) {
                continue;
            }
            let (signals, from) = (signals.clone(), self.connection.clone());
            tokio::spawn(async move {
                from.link().goes_on().await;
                let times = if from.chance(|weather| weather.repeated) { 2 } else { 1 };
                for _ in 0..times {
                    from.travel().await;
                    let is_cut = |it: &SimulatedConnection| it.link().state() == LinkState::Cut;
                    if is_cut(&from) || is_cut(&connection) || from.chance(|weather| weather.lost * 3) {
                        continue;
                    }
                    connection.link().goes_on().await;
                    if let Some(membership) = membership.upgrade() {
                        signals.iter().cloned().for_each(|signal| membership.heard(signal));
                    }
                }
            });
        }
    }
}
