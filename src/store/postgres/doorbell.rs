//! The bell of PostgreSQL: `NOTIFY`, outside of the transactions that it tells of, and only where another server is there to
//! hear it. What comes within a few milliseconds is told together: each `NOTIFY` wakes every server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::Client;
use uuid::Uuid;

use super::PgAddress;
use super::asking::params;
use super::connection::{Frame, SqlCall, described};
use super::pool::ConnectionPool;
use super::sql;
use crate::domain::SessionId;
use crate::store::shared::doorbell::Doorbell;
use crate::store::shared::membership::Membership;
use crate::store::shared::servers::ServerId;
use crate::store::signals::Signal;

/// How long it is between two rings at least.
const PAUSE: Duration = Duration::from_millis(5);
/// How much is told in one ring: a payload has at most 8000 bytes.
const AT_ONCE: usize = 200;
/// How soon a connection that hears nothing any more is made anew.
const AGAIN: Duration = Duration::from_secs(1);
/// What is listened to. Channels are the database's, and so is the schema.
const LISTEN: &str = "LISTEN hitl";

/// See the module.
pub struct PostgresDoorbell {
    membership: Arc<Membership>,
    told: UnboundedSender<Vec<Signal>>,
}

impl PostgresDoorbell {
    /// Hears for `membership` until that leaves, over a connection of its own, and rings over those of `pool`. On the runtime
    /// that this is called on.
    pub(super) fn start(address: PgAddress, pool: Arc<ConnectionPool>, membership: &Arc<Membership>) -> Self {
        let (told, telling) = mpsc::unbounded_channel();
        let (id, leaving) = (membership.id(), membership.leaving());
        tokio::spawn(leaving.run_until_cancelled_owned(ring_on(telling, pool, id)));
        // Who listens is told in its own connection to the database, and one of a pooler is that for a transaction only.
        if !address.is_pooled() {
            let hearing = hear_on(address, Arc::downgrade(membership), id);
            tokio::spawn(membership.leaving().run_until_cancelled_owned(hearing));
        }
        Self { membership: Arc::clone(membership), told }
    }
}

impl Doorbell for PostgresDoorbell {
    fn ring(&self, signals: Vec<Signal>) {
        if self.membership.has_others() {
            // After the last ring nobody is told: whoever leaves is missed otherwise.
            drop(self.told.send(signals));
        }
    }
}

async fn ring_on(mut telling: UnboundedReceiver<Vec<Signal>>, pool: Arc<ConnectionPool>, me: ServerId) {
    let mut rang = Instant::now();
    while let Some(mut signals) = telling.recv().await {
        sleep_until(rang + PAUSE).await;
        while let Ok(more) = telling.try_recv() {
            signals.extend(more);
        }
        rang = Instant::now();
        let call = SqlCall::new(sql!("servers/ring"), params![written(me, &signals)]);
        if let Err(failed) = pool.run(Frame::Beat, vec![call]).await {
            tracing::debug!(error = ?failed, "the other servers could not be told; they look by themselves");
        }
    }
}

async fn hear_on(address: PgAddress, membership: std::sync::Weak<Membership>, me: ServerId) {
    loop {
        let (heard, mut hearing) = mpsc::unbounded_channel();
        match listen(&address, heard).await {
            Ok(client) => {
                let Some(this) = membership.upgrade() else { return };
                this.heard(Signal::Missed);
                drop(this);
                while let Some(payload) = hearing.recv().await {
                    let Some(this) = membership.upgrade() else { return };
                    read(&payload, me).into_iter().for_each(|signal| this.heard(signal));
                }
                drop(client);
            }
            Err(error) => tracing::debug!(error = described(&error), "the other servers are not heard; it is looked"),
        }
        sleep(AGAIN).await;
    }
}

async fn listen(address: &PgAddress, heard: UnboundedSender<String>) -> Result<Client, tokio_postgres::Error> {
    let client = address.connect_to_hear(heard).await?;
    client.batch_execute(LISTEN).await?;
    Ok(client)
}

/// A payload: who rings, then a word for each signal.
fn written(me: ServerId, signals: &[Signal]) -> String {
    let mut words = vec![me.0.simple().to_string()];
    for signal in signals {
        let word = match signal {
            Signal::Session(session) => format!("s{}", session.0.simple()),
            Signal::Deleted(session) => format!("d{}", session.0.simple()),
            Signal::Ready => "ready".to_owned(),
            Signal::NewTurn => "new".to_owned(),
            Signal::Access => "access".to_owned(),
            Signal::Departure | Signal::Missed => "missed".to_owned(),
        };
        if !words.contains(&word) {
            words.push(word);
        }
        if words.len() > AT_ONCE {
            words.truncate(1);
            words.push("missed".to_owned());
            break;
        }
    }
    words.join(" ")
}

/// What a payload tells to a server that is not the one that rang. A word that is not known is one of a later release.
fn read(payload: &str, me: ServerId) -> Vec<Signal> {
    let mut words = payload.split(' ');
    if words.next().and_then(|word| word.parse::<Uuid>().ok()).is_none_or(|who| who == me.0) {
        return Vec::new();
    }
    let session = |word: &str| word.parse::<Uuid>().ok().map(SessionId);
    let piece = |word: &str| match word {
        "ready" => Some(Signal::Ready),
        "new" => Some(Signal::NewTurn),
        "access" => Some(Signal::Access),
        "missed" => Some(Signal::Missed),
        word => match (word.strip_prefix('s'), word.strip_prefix('d')) {
            (Some(id), _) => session(id).map(Signal::Session),
            (_, Some(id)) => session(id).map(Signal::Deleted),
            _ => None,
        },
    };
    words.map(|word| piece(word).unwrap_or(Signal::Missed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[test]
    fn what_is_rung_is_heard_by_the_others_and_not_by_oneself() {
        let session = |number| SessionId(id(number));
        let signals = [
            Signal::Session(session(1)),
            Signal::Deleted(session(2)),
            Signal::Ready,
            Signal::NewTurn,
            Signal::Access,
            Signal::Ready,
        ];
        let payload = written(ServerId(id(9)), &signals);
        assert_eq!(read(&payload, ServerId(id(8))), signals[..5]);
        assert_eq!(read(&payload, ServerId(id(9))), []);
    }

    #[test]
    fn a_ring_that_is_too_long_says_that_something_was_missed() {
        let signals: Vec<Signal> = (0..5000).map(|number| Signal::Session(SessionId(id(number)))).collect();
        assert!(written(ServerId(id(9)), &signals[..AT_ONCE - 1]).len() < 8000);
        assert_eq!(read(&written(ServerId(id(9)), &signals), ServerId(id(8))), [Signal::Missed]);
    }

    #[test]
    fn what_is_not_understood_is_missed_and_what_nobody_rang_is_nothing() {
        assert_eq!(read(&format!("{} later", id(9).simple()), ServerId(id(8))), [Signal::Missed]);
        assert_eq!(read("", ServerId(id(8))), []);
        assert_eq!(read("anything else", ServerId(id(8))), []);
    }
}
