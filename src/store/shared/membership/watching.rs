//! Who else has the store, and who of them is dead: those are buried.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Membership, Moment, OtherServer, ServerId, ServerKind, ServerRow, ServerRows, Signal, Watch, now, until};
use crate::domain::cluster::Timings;

/// How many times longer than whoever is dead a run or a command has been silent that nobody has buried: so far no clock of a
/// database is set by mistake.
const FORGOTTEN: u32 = 60;

/// Looks for those who are dead, and buries them, until the membership is over.
pub(super) async fn watch_others(membership: Weak<Membership>, me: ServerRow) {
    let mut watch = Watch::new(match membership.upgrade() {
        Some(this) => this.timings,
        None => return,
    });
    let mut known: Vec<ServerId> = Vec::new();
    // Each in a task of its own: one takes as long as what the dead one may have begun, and who looks too seldom meanwhile has
    // seen nobody else for long enough.
    let mut burials: HashMap<ServerId, JoinHandle<()>> = HashMap::new();
    loop {
        let begun = now();
        let Some(this) = membership.upgrade() else { return };
        let looked = timeout(this.timings.patience, this.rows.others(me.id)).await;
        let ended = now();
        match looked {
            Ok(Ok(others)) => {
                let dead = if this.may_act().is_ok() {
                    dead_among(&mut watch, &me, (begun, ended), &others)
                } else {
                    watch.forget();
                    Vec::new()
                };
                let is_alive = |other: &&OtherServer| !dead.iter().any(|(id, _)| *id == other.row.id);
                let alive: Vec<&OtherServer> = others.iter().filter(is_alive).collect();
                let is_server = |other: &OtherServer| other.row.kind == ServerKind::Server;
                this.has_others.store(alive.iter().any(|other| is_server(other)), Ordering::Relaxed);
                let servers = alive.iter().filter(|other| is_server(other)).map(|other| (*other).clone());
                *this.known_others() = (begun, servers.collect());
                let alive: Vec<ServerId> = alive.into_iter().map(|other| other.row.id).collect();
                if known.iter().any(|id| !alive.contains(id)) {
                    this.heard(Signal::Departure);
                }
                known = alive;
                burials.retain(|_, burial| !burial.is_finished());
                for (id, beat) in dead {
                    let burial = || tokio::spawn(bury_beside(membership.clone(), Arc::clone(&this.rows), id, beat));
                    burials.entry(id).or_insert_with(burial);
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "the other servers could not be looked at"),
            Err(_) => tracing::debug!("the other servers could not be looked at in time"),
        }
        let next = watch.decides_after(begun).map_or(begun + this.timings.beat, |at| at.min(begun + this.timings.beat));
        let leaving = this.leaving.clone();
        drop(this);
        tokio::select! {
            () = leaving.cancelled() => return,
            () = until(next) => {}
        }
    }
}

/// Buries somebody who is dead; what it had is everybody's from then on.
async fn bury_beside(membership: Weak<Membership>, rows: Arc<dyn ServerRows>, id: ServerId, beat: u64) {
    let is_buried = bury(rows.as_ref(), id, beat).await;
    if let Some(this) = membership.upgrade().filter(|_| is_buried) {
        this.heard(Signal::Departure);
    }
}

/// Those of `others` who are dead, each with its count, as they were in a look that began and ended then.
pub(super) fn dead_among(
    watch: &mut Watch<ServerId>,
    me: &ServerRow,
    (begun, ended): (Moment, Moment),
    others: &[OtherServer],
) -> Vec<(ServerId, u64)> {
    let counts = others.iter().map(|other| (other.row.id, other.beat));
    let suspects = watch.look(begun, ended, counts).into_iter().map(|suspect| (suspect.server, suspect.beat));
    let mut dead: Vec<(ServerId, u64)> = suspects.collect();
    for gone in others.iter().filter(|other| other.is_gone_beside(me)) {
        if !dead.iter().any(|(id, _)| *id == gone.row.id) {
            dead.push((gone.row.id, gone.beat));
        }
    }
    dead
}

/// Whether somebody who seemed to be dead is buried by this.
pub(super) async fn bury(rows: &dyn ServerRows, id: ServerId, beat: u64) -> bool {
    match rows.bury(id, beat).await {
        Ok(true) => {
            tracing::warn!(server = %id.0, "a server that had the store is dead");
            true
        }
        Ok(false) => false,
        Err(error) => {
            tracing::warn!(%error, "nobody knows whether a dead server was buried");
            false
        }
    }
}

/// Buries runs and commands that ended without a word, as far as there is time: servers look for them all the time, and where
/// none comes, whoever else joins does, once.
pub(super) async fn bury_forgotten(rows: &dyn ServerRows, me: &ServerRow, timings: Timings) {
    let long = (timings.death * FORGOTTEN).as_millis();
    let is_forgotten = |other: &OtherServer| {
        let is_over = other.is_gone_beside(me) || u128::from(other.silent_ms) >= long;
        other.row.kind != ServerKind::Server && is_over
    };
    let buried = timeout(timings.patience, async {
        match rows.others(me.id).await {
            Ok(others) => {
                for gone in others.into_iter().filter(is_forgotten) {
                    bury(rows, gone.row.id, gone.beat).await;
                }
            }
            Err(error) => tracing::debug!(%error, "those who had the store before could not be looked at"),
        }
    });
    if buried.await.is_err() {
        tracing::debug!("not all who had the store before could be buried in time");
    }
}
