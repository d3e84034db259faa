//! Several servers' stores over one database, in every weather: what is acknowledged is there once, what is refused is
//! not, and every session is what one store alone could have made of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::json;
use tokio::runtime::Handle;

use super::network::{SimulatedConnection, Weather};
use super::{LeftOut, SimulatedDatabase, apart, entropy};
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::seeds::{self, Random};
use crate::domain::{Error, Timestamp};
use crate::store::clock::Clock;
use crate::store::contract::fixture::{change, event, interrupt_id, session, session_id, turn, turn_id};
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::{Store, StoreExt, Transaction};

const SERVERS: u64 = 3;
const CLIENTS: u64 = 3;
const SESSIONS: u128 = 2;
/// How many answers a client writes.
const ANSWERS: u64 = 6;
/// What a client refuses himself, in his own job.
const TOO_MANY: Error = Error::QueueFull;
/// What a client says of rows that are of two moments.
const TORN: Error = Error::StaleEpoch;

const CALM: Weather = Weather { lost: 0, unanswered: 0, late: 0, repeated: 0, refused: 0, slow: 3, slow_ms: 0 };
const ROUGH: Weather = Weather { lost: 8, unanswered: 12, late: 10, repeated: 0, refused: 4, slow: 8, slow_ms: 0 };

/// What a client was told of each of his answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acknowledgement {
    /// It is stored as that entry, and its event has that number.
    Stored {
        index: u64,
        event: u64,
    },
    Refused,
    Nobody,
}

/// What everybody was told, and what was there in the end.
#[derive(Debug)]
struct Reckoning {
    told: BTreeMap<(u128, u64), Acknowledgement>,
    journals: Vec<Vec<u64>>,
    /// Of each session, as its row has it.
    sums: Vec<usize>,
    errors: Vec<Error>,
}

/// The time of a world: what a machine shows differs from run to run.
struct SinceItBegan;

impl Clock for SinceItBegan {
    fn now(&self) -> Timestamp {
        let passed = seeds::moment().unwrap_or_default();
        Timestamp::from_millis(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A world of servers over `database`, in which nothing but the weather goes wrong.
fn run(weather: Weather, left_out: Option<LeftOut>, fails_over: bool, seed: u64) -> Reckoning {
    entropy::run(seed, || async move {
        let clock: Arc<dyn Clock> = Arc::new(SinceItBegan);
        let database = SimulatedDatabase::new(Arc::clone(&clock)).without(left_out);
        let first = SharedStore::new(database.clone(), StoreAccess::Alone, Arc::clone(&clock), Handle::current());
        for number in 0..SESSIONS {
            let made = change(&first, move |tx| {
                tx.insert_session(&session(number), &[])?;
                tx.insert_turn(&turn(session_id(number), number))
            });
            made.await.unwrap();
        }
        let next = Arc::new(AtomicU64::new(0));
        let told = Arc::new(Mutex::new(BTreeMap::new()));
        let errors = Arc::new(Mutex::new(Vec::new()));
        let mut clients = Vec::new();
        for server in 0..SERVERS {
            let connection = SimulatedConnection::new(database.clone(), weather, seed * SERVERS + server);
            let store =
                Arc::new(SharedStore::new(connection, StoreAccess::Alone, Arc::clone(&clock), Handle::current()));
            for client in 0..CLIENTS {
                let (store, next) = (Arc::clone(&store), Arc::clone(&next));
                let (told, errors) = (Arc::clone(&told), Arc::clone(&errors));
                let mut random = Random(!(seed * SERVERS * CLIENTS + server * CLIENTS + client));
                clients.push(tokio::spawn(async move {
                    for _ in 0..ANSWERS {
                        let session = u128::from(random.within(0..SESSIONS as u64));
                        let value = next.fetch_add(1, Ordering::SeqCst);
                        let is_refused = random.chance(20);
                        let looks_back = random.chance(50);
                        let said = match write(store.as_ref(), (session, value), looks_back, is_refused).await {
                            Ok((index, event)) => Acknowledgement::Stored { index, event },
                            Err(TOO_MANY) => Acknowledgement::Refused,
                            Err(Error::StoreUnavailable(_)) => Acknowledgement::Nobody,
                            Err(error) => {
                                errors.lock().unwrap().push(error);
                                Acknowledgement::Nobody
                            }
                        };
                        told.lock().unwrap().insert((session, value), said);
                    }
                }));
            }
        }
        if fails_over {
            let mut random = Random(seed);
            for _ in 0..2 {
                let standby = database.standby();
                for _ in 0..random.within(5..60) {
                    tokio::task::yield_now().await;
                }
                database.fail_over(standby);
            }
        }
        for client in join_all(clients).await {
            client.unwrap();
        }
        let read = |number: u128| {
            first.query(move |reader| {
                let values = values(&reader.journal(turn_id(number))?);
                Ok((values, reader.session(session_id(number))?.unwrap().total_messages))
            })
        };
        let (mut journals, mut sums) = (Vec::new(), Vec::new());
        for number in 0..SESSIONS {
            let (values, kept) = read(number).await.unwrap();
            journals.push(values);
            sums.push(kept);
        }
        let told = told.lock().unwrap().clone();
        let errors = errors.lock().unwrap().clone();
        Reckoning { told, journals, sums, errors }
    })
}

/// What a journal holds.
fn values(journal: &[RecordedEntry]) -> Vec<u64> {
    let value = |recorded: &RecordedEntry| match &recorded.entry {
        Entry::Answer { value, .. } => value.as_u64().unwrap(),
        other => panic!("{other:?}"),
    };
    journal.iter().map(value).collect()
}

/// The sum of a journal: another one for every other journal.
fn sum(values: &[u64]) -> usize {
    values.iter().fold(0, |sum, value| with(sum, *value))
}

/// A sum with one value more.
fn with(sum: usize, value: u64) -> usize {
    // What a row can hold as a number of its own, whatever holds it.
    (sum * 1009 + usize::try_from(value).unwrap() + 1) % 1_000_003
}

/// Writes an answer, sums it up in its session, and tells of it.
async fn write(
    store: &impl Store,
    (number, value): (u128, u64),
    looks_back: bool,
    is_refused: bool,
) -> Result<(u64, u64), Error> {
    let about = crate::store::contract::fixture::about(number);
    let written = store.transact(about, move |tx: &mut dyn Transaction| {
        let mut row = tx.session(session_id(number))?.ok_or(Error::SessionNotFound)?;
        if looks_back && sum(&values(&tx.journal(turn_id(number))?)) != row.total_messages {
            return Err(TORN);
        }
        let entry = Entry::Answer { interrupt_id: interrupt_id(0), value: json!(value) };
        let index = tx.append_foreign(turn_id(number), &entry, tx.now())?;
        row.total_messages = with(row.total_messages, value);
        tx.update_session(&row)?;
        let event = tx.append_event(&event(number, "x"), tx.now())?;
        if is_refused { Err(TOO_MANY) } else { Ok((index, event)) }
    });
    written.await.map(|(index, event)| (index, event.get()))
}

impl Reckoning {
    /// Whether the journals are what one store alone could have made of what was told.
    fn is_torn(&self) -> bool {
        let mut seen: Vec<u64> = self.journals.concat();
        seen.sort_unstable();
        let is_twice = seen.windows(2).any(|pair| pair[0] == pair[1]);
        let is_another = self.journals.iter().zip(&self.sums).any(|(journal, kept)| sum(journal) != *kept);
        is_twice || is_another || !self.errors.is_empty()
    }

    /// Whether something acknowledged is not where it was said to be, or something refused is there.
    fn is_lost(&self) -> bool {
        let is_wrong = |(place, said): (&(u128, u64), &Acknowledgement)| {
            let journal = &self.journals[usize::try_from(place.0).unwrap()];
            match said {
                Acknowledgement::Stored { index, .. } => {
                    journal.get(usize::try_from(*index).unwrap()) != Some(&place.1)
                }
                Acknowledgement::Refused => journal.contains(&place.1),
                Acknowledgement::Nobody => false,
            }
        };
        self.told.iter().any(is_wrong)
    }

    /// Whether events of one session are numbered in another order than their entries.
    fn is_out_of_order(&self) -> bool {
        (0..SESSIONS).any(|session| {
            let mut stored: Vec<(u64, u64)> = self
                .told
                .iter()
                .filter_map(|((of, _), said)| match said {
                    Acknowledgement::Stored { index, event } if *of == session => Some((*index, *event)),
                    _ => None,
                })
                .collect();
            stored.sort_unstable();
            stored.windows(2).any(|pair| pair[0].1 >= pair[1].1)
        })
    }
}

/// Which seeds' worlds, one of `share` of all, come to something that `is_wrong`. `judge` hears of them where nothing has
/// happened yet: so each is the same whenever it is run.
fn look_at_worlds(
    test: &str,
    share: u64,
    run: impl Fn(u64) -> Reckoning,
    is_wrong: impl Fn(&Reckoning) -> bool,
    judge: impl FnOnce(Vec<u64>),
) {
    apart::run(&format!("store::simulated::properties::{test}"), "", |_| {
        let looked_at = apart::each(seeds::of_share(share), |seed| is_wrong(&run(seed)));
        judge(looked_at.filter_map(|(seed, is_wrong)| is_wrong.then_some(seed)).collect());
    });
}

/// Nothing goes wrong in any world.
fn goes_green(test: &str, run: impl Fn(u64) -> Reckoning, is_wrong: impl Fn(&Reckoning) -> bool) {
    look_at_worlds(test, 3, run, is_wrong, |wrong| {
        let Some(first) = wrong.first() else { return };
        panic!("seeds {wrong:?}\n{}", apart::alone(*first, test));
    });
}

/// Something goes wrong in some world.
fn goes_red(test: &str, share: u64, run: impl Fn(u64) -> Reckoning, is_wrong: impl Fn(&Reckoning) -> bool) {
    look_at_worlds(test, share, run, is_wrong, |wrong| assert!(!wrong.is_empty(), "nobody misses it"));
}

#[test]
fn in_calm_weather_everything_is_told_and_in_order() {
    goes_green(
        "in_calm_weather_everything_is_told_and_in_order",
        |seed| run(CALM, None, false, seed),
        |it| {
            it.is_torn()
                || it.is_lost()
                || it.is_out_of_order()
                || it.told.values().any(|said| *said == Acknowledgement::Nobody)
        },
    );
}

#[test]
fn what_is_acknowledged_is_there_once_whatever_the_network_loses_and_delays() {
    goes_green(
        "what_is_acknowledged_is_there_once_whatever_the_network_loses_and_delays",
        |seed| run(ROUGH, None, false, seed),
        |it| it.is_torn() || it.is_lost(),
    );
}

#[test]
fn what_a_failover_takes_back_leaves_every_session_whole() {
    goes_green(
        "what_a_failover_takes_back_leaves_every_session_whole",
        |seed| run(ROUGH, None, true, seed),
        Reckoning::is_torn,
    );
}

#[test]
fn without_comparing_versions_answers_are_lost() {
    goes_red(
        "without_comparing_versions_answers_are_lost",
        3,
        |seed| run(CALM, Some(LeftOut::Version), false, seed),
        |it| it.is_torn() || it.is_lost(),
    );
}

#[test]
fn without_comparing_tokens_a_failover_tears_sessions() {
    goes_red(
        "without_comparing_tokens_a_failover_tears_sessions",
        1,
        |seed| run(ROUGH, Some(LeftOut::Token), true, seed),
        Reckoning::is_torn,
    );
}

#[test]
fn a_seed_comes_to_the_same_alone_and_after_any_others() {
    const NAME: &str = "store::simulated::properties::a_seed_comes_to_the_same_alone_and_after_any_others";
    // What the last of some worlds came to.
    let last_of = |seeds: &str| {
        let said = apart::run(NAME, seeds, |seeds| {
            let seeds = seeds.split(' ').map(|seed| seed.parse().unwrap());
            let came_to = apart::each(seeds, |seed| format!("{:?}", run(ROUGH, None, true, seed)));
            #[allow(clippy::print_stdout, reason = "the other process reads it")]
            {
                println!("\ncame to {}", came_to.last().unwrap().1);
            }
        })?;
        Some(said.lines().find(|line| line.starts_with("came to ")).unwrap().to_owned())
    };
    for seed in ["3", "17"] {
        let Some(alone) = last_of(seed) else { return };
        let Some(after) = last_of(&format!("40 {seed} 5 {seed}")) else { return };
        assert!(alone.contains("Stored"), "{alone}");
        assert_eq!(alone, after, "seed {seed}");
    }
}
