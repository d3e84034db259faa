//! Servers and workers die at any moment while people answer and turns are parked: every turn comes to its end, and every
//! answer that was acknowledged is in it once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::support::{PATIENCE, Told, World, ahead, message, question, runtime, settings, waiting};
use crate::domain::journal::Entry;
use crate::domain::session::Phase;
use crate::domain::status::{InterruptStatus, Status};
use crate::domain::{Error, InterruptId, SessionId, TurnId};
use crate::engine::ports::dispatch::{Delivery, Record, TurnOrder};
use crate::engine::settings::Settings;
use crate::store::about::About;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::Fixture;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, StoreExt, WriteJob};

const SESSIONS: usize = 30;
const LIVES: usize = 6;

/// A store as a process has it that dies: what it has not begun to write by then is never written.
struct Mortal {
    store: Arc<dyn Store>,
    is_dead: AtomicBool,
}

impl Store for Mortal {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        if self.is_dead.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Error::StoreUnavailable("it is dead".to_owned()))));
        }
        self.store.write(about, job)
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Numbers that are the same in every run.
struct Dice(AtomicU64);

impl Dice {
    fn throw(&self, sides: u64) -> u64 {
        let mut state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (state ^ (state >> 31)) % sides
    }
}

/// What a turn does, one after the other; each of these leaves one entry behind when it is done.
#[derive(Clone, Copy)]
enum Act {
    Ask,
    Sleep,
}

fn plan(number: usize) -> Vec<Act> {
    (0..2 + number % 4).map(|act| if (number + act).is_multiple_of(3) { Act::Sleep } else { Act::Ask }).collect()
}

fn answer_to(interrupt: InterruptId) -> Value {
    json!(format!("answer to {interrupt}"))
}

/// A worker: carries the turn on from its journal until it is parked, is lost, or ends.
async fn work(world: Arc<World>, order: TurnOrder, plan: Vec<Act>, dice: Arc<Dice>) {
    let known = order.journal.len() as u64;
    let mut last = known - 1;
    let mut values: Vec<Value> = Vec::new();
    let (mut asked, mut slept) = (0, 0);
    for recorded in &order.journal {
        match &recorded.entry {
            Entry::Ask { .. } => asked += 1,
            Entry::Answer { value, .. } => values.push(value.clone()),
            Entry::Timer { .. } => slept += 1,
            _ => {}
        }
    }
    while let Some(act) = plan.get(values.len() + slept) {
        if dice.throw(8) == 0 {
            world.lose(&order).await;
            // It was paused before: then it was parked instead.
            world.hands.until("nothing", |told| Some(take_parking(told, order.turn))).await;
            return;
        }
        let due = ahead(1 + dice.throw(20) as i64);
        let records = match act {
            Act::Ask if asked == values.len() => {
                asked += 1;
                vec![question(asked, None), waiting(Some(last), &[])]
            }
            Act::Ask => vec![waiting(Some(last), &[])],
            Act::Sleep => vec![waiting(Some(last), &[("t", due)])],
        };
        match world.append(&order, records).await {
            Ok(batch) => last = batch.into_iter().flatten().flatten().map(|own| own.index).fold(last, u64::max),
            Err(error) => return gone(&world, &order, error).await,
        }
        let told = async {
            world
                .hands
                .until("a delivery or a parking", |told| {
                    // First, for what is delivered after it is for the next worker.
                    if take_parking(told, order.turn).is_some() {
                        return Some(None);
                    }
                    // What a lost worker was told stands in the journal.
                    let is_ours = |(turn, delivery): &(_, Delivery)| *turn == order.turn && delivery.index() >= known;
                    let place = told.deliveries.iter().position(is_ours)?;
                    Some(Some(told.deliveries.remove(place).1))
                })
                .await
        };
        match act {
            Act::Ask => match told.await {
                Some(Delivery::Answer { index, value, .. }) => {
                    assert!(index > last, "{index} after {last}");
                    last = index;
                    values.push(value);
                }
                Some(other) => panic!("{other:?}"),
                None => return,
            },
            Act::Sleep => {
                tokio::select! {
                    parked = told => {
                        assert_eq!(parked, None);
                        return;
                    }
                    () = tokio::time::sleep(due.since(WallClock.now())) => {}
                }
                match world.append(&order, vec![Record::Timer { path: "t".to_owned(), due }]).await {
                    Ok(batch) => last = batch.into_iter().flatten().flatten().map(|own| own.index).fold(last, u64::max),
                    Err(error) => return gone(&world, &order, error).await,
                }
                slept += 1;
            }
        }
    }
    let said = message(&json!(values).to_string());
    if let Err(error) = world.engine.turn_ended(order.turn, order.epoch, said, Vec::new()).await {
        gone(&world, &order, error).await;
    }
}

/// The worker of the turn was told to drop it; each is told once.
fn take_parking(told: &mut Told, turn: TurnId) -> Option<()> {
    let place = told.parked.iter().position(|parked| *parked == turn)?;
    told.parked.remove(place);
    Some(())
}

/// The turn was parked before its worker heard of it, or the server is dead.
async fn gone(world: &World, order: &TurnOrder, error: Error) {
    match error {
        Error::TurnNotOpen(_) | Error::StaleEpoch => {
            world.hands.until("parking", |told| take_parking(told, order.turn)).await;
        }
        Error::StoreUnavailable(_) => std::future::pending().await,
        other => panic!("{other}"),
    }
}

/// A person: answers what the session asks until it is done.
async fn person(
    world: Arc<World>,
    session: SessionId,
    acknowledged: Arc<Mutex<HashMap<InterruptId, Value>>>,
    dice: Arc<Dice>,
) {
    loop {
        let mut listener = world.engine.telling.listen(session);
        let state = world.state(session).await;
        if state.status() == Status::Idle {
            return;
        }
        for interrupt in state.pending() {
            tokio::time::sleep(Duration::from_micros(dice.throw(8000))).await;
            match world.answer(session, *interrupt, answer_to(*interrupt)).await {
                Ok(_) => drop(acknowledged.lock().unwrap().insert(*interrupt, answer_to(*interrupt))),
                Err(Error::StoreUnavailable(_)) => std::future::pending().await,
                Err(other) => panic!("{other}"),
            }
        }
        // Once more even if nobody rings: the session may have changed before this person listened.
        drop(tokio::time::timeout(Duration::from_millis(200), listener.heard()).await);
    }
}

async fn workers(world: Arc<World>, plans: Arc<HashMap<SessionId, Vec<Act>>>, dice: Arc<Dice>) {
    let mut at_work = JoinSet::new();
    let mut dropped: HashMap<TurnId, oneshot::Receiver<()>> = HashMap::new();
    loop {
        let order = world.order().await;
        let plan = plans[&order.session].clone();
        let (world, dice) = (Arc::clone(&world), Arc::clone(&dice));
        let (at_it, end) = oneshot::channel::<()>();
        let before = dropped.insert(order.turn, end);
        at_work.spawn(async move {
            // Gone with this task, however that ends.
            let _at_it = at_it;
            // A turn begins when the worker before has dropped it; two at a time would hear what the other is told.
            if let Some(before) = before {
                before.await.unwrap_err();
            }
            work(world, order, plan, dice).await;
        });
        while let Some(ended) = at_work.try_join_next() {
            ended.unwrap();
        }
    }
}

async fn storm(fixture: Fixture) {
    let store = Arc::clone(&fixture.store);
    // Its directory stays until the storm is over.
    let _kept = fixture;
    let stormy = Settings {
        park_after: 0.002,
        max_warm: 4,
        workers: 4,
        queue: SESSIONS,
        max_recoveries: u32::MAX,
        ..settings()
    };
    let dice = Arc::new(Dice(AtomicU64::new(42)));
    let acknowledged = Arc::new(Mutex::new(HashMap::new()));
    let mut plans: Arc<HashMap<SessionId, Vec<Act>>> = Arc::default();
    for life in 1..=LIVES {
        let mortal = Arc::new(Mortal { store: Arc::clone(&store), is_dead: AtomicBool::new(false) });
        let world = Arc::new(World::over(Fixture::memory(), Arc::clone(&mortal) as _, stormy.clone(), runtime()).await);
        let mut tasks = JoinSet::new();
        if life == 1 {
            let mut sessions = HashMap::new();
            for number in 0..SESSIONS {
                sessions.insert(world.session().await, plan(number));
            }
            plans = Arc::new(sessions);
            for session in plans.keys() {
                world.send(*session).await.unwrap();
            }
        }
        tasks.spawn(workers(Arc::clone(&world), Arc::clone(&plans), Arc::clone(&dice)));
        let mut people = JoinSet::new();
        for session in plans.keys() {
            people.spawn(person(Arc::clone(&world), *session, Arc::clone(&acknowledged), Arc::clone(&dice)));
        }
        if life == LIVES {
            let all = async { while people.join_next().await.transpose().unwrap().is_some() {} };
            tokio::time::timeout(PATIENCE * 3, all).await.expect("a turn never came to its end");
            let acknowledged = acknowledged.lock().unwrap().clone();
            check(&world, &plans, &acknowledged).await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(20 + dice.throw(60))).await;
        mortal.is_dead.store(true, Ordering::SeqCst);
        people.shutdown().await;
        tasks.shutdown().await;
        world.engine.stopped.cancel();
        world.engine.stopping.cancel();
        world.engine.placement.clear();
        // What it had begun to write is written before the next server starts: a dead process has no queue.
        store.transact(About::Nothing, |_| Ok(())).await.unwrap();
    }
}

async fn check(world: &World, plans: &HashMap<SessionId, Vec<Act>>, acknowledged: &HashMap<InterruptId, Value>) {
    for (interrupt, value) in acknowledged {
        let record = world.interrupt(*interrupt).await;
        assert_eq!((record.status, record.value.as_ref()), (InterruptStatus::Resolved, Some(value)));
    }
    for (session, plan) in plans {
        let Phase::Idle { response: Some(response) } = world.state(*session).await.phase else { panic!() };
        let id = *session;
        let turn = world.store.query(move |reader| reader.last_turn(id)).await.unwrap().unwrap();
        let mut given = Vec::new();
        let mut slept = 0;
        for entry in world.journal(turn.id).await {
            match entry {
                Entry::Answer { interrupt_id, value } => {
                    assert_eq!(value, answer_to(interrupt_id));
                    given.push(value);
                }
                Entry::Timer { .. } => slept += 1,
                _ => {}
            }
        }
        let asks = plan.iter().filter(|act| matches!(act, Act::Ask)).count();
        assert_eq!((given.len(), slept), (asks, plan.len() - asks), "each once");
        assert_eq!(response.content, Some(json!(given).to_string()));
    }
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.running_workers, health.queued), (0, 0));
    assert_eq!(world.engine.placement.count(), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_memory() {
    storm(Fixture::memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_disk() {
    storm(Fixture::sqlite()).await;
}
