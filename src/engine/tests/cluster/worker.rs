//! Workers that run scripts: the text of a message says which steps its turn takes, so that a turn that begins anew, here
//! or elsewhere, takes the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::super::support::{identity, message, question, runtime, step, waiting};
use super::log::{AtWorker, Life, Line, Log};
use crate::domain::journal::Entry;
use crate::domain::seeds::Random;
use crate::domain::{Error, InterruptId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::ports::dispatch::{AppendResults, Delivery, Dispatch, Lost, Record, Runtime, TurnOrder};
use crate::store::simulated::network::Link;

/// How the text of a message begins whose turn takes long for each step.
pub const LONG: &str = "long message";

/// One thing that a turn does.
enum Deed {
    Step(u64),
    Once(u64),
    Ask(Option<f64>),
    /// A question is open while a step is at work.
    AskBeside(u64, Option<f64>),
    Sleep(i64),
}

/// What the turn of a message does.
fn script(text: &str) -> Vec<Deed> {
    let mut random = Random(text.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte)));
    let length = random.within(1..5);
    let deeds = (0..length).map(|_| {
        let kind = random.within(0..100);
        let is_long = random.chance(10) || text.starts_with(LONG);
        let takes = if is_long { random.within(9000..30_000) } else { random.within(10..600) };
        match kind {
            0..40 => Deed::Step(takes),
            40..60 => Deed::Once(takes),
            60..75 => Deed::Ask(random.chance(30).then(|| random.within(4..25) as f64)),
            // Somebody is to answer meanwhile.
            75..90 => {
                let expires_in = random.chance(30).then(|| random.within(4..25) as f64);
                Deed::AskBeside(takes + random.within(1000..8000), expires_in)
            }
            _ => Deed::Sleep(i64::try_from(random.within(300..9000)).unwrap()),
        }
    });
    deeds.collect()
}

/// By how many entries of its journal each thing that the turn of a message does is done.
pub fn parts(text: &str) -> Vec<usize> {
    script(text).iter().map(|deed| 1 + usize::from(matches!(deed, Deed::AskBeside(..)))).collect()
}

/// Whether a turn is to leave its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    Stays,
    /// It is parked or over, or begins anew here.
    Leaves,
    /// Its worker is killed.
    Killed,
}

struct OneTurn {
    epoch: u64,
    known: u64,
    deliveries: mpsc::UnboundedSender<Delivery>,
    leave: watch::Sender<Leave>,
    task: Option<AbortHandle>,
}

pub struct Workers {
    life: Life,
    engine: Weak<Engine>,
    log: Arc<Log>,
    link: Arc<Link>,
    turns: Mutex<BTreeMap<TurnId, OneTurn>>,
    this: Weak<Workers>,
}

impl Workers {
    pub fn new(life: Life, engine: &Arc<Engine>, log: Arc<Log>, link: Arc<Link>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            life,
            engine: Arc::downgrade(engine),
            log,
            link,
            turns: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    fn turns(&self) -> MutexGuard<'_, BTreeMap<TurnId, OneTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All processes are killed, and the server hears of it.
    pub fn kill_all(&self) {
        self.turns().values().for_each(|turn| {
            turn.leave.send_replace(Leave::Killed);
        });
    }

    /// The server's process is over, and with it all of this.
    pub fn die(&self) {
        for turn in std::mem::take(&mut *self.turns()).into_values() {
            turn.task.iter().for_each(AbortHandle::abort);
        }
    }

    fn drop_turn(&self, turn: TurnId) {
        if let Some(turn) = self.turns().remove(&turn) {
            turn.leave.send_replace(Leave::Leaves);
        }
    }
}

impl Dispatch for Workers {
    fn start(&self, order: TurnOrder) {
        let Some(this) = self.this.upgrade() else { return };
        let (turn, epoch, known) = (order.turn, order.epoch, order.journal.len() as u64);
        self.log.note(Line::Ordered((self.life, turn, epoch), known));
        let (deliveries, given) = mpsc::unbounded_channel();
        let (leave, told) = watch::channel(Leave::Stays);
        // One that begins anew may do so at the same epoch.
        let own = deliveries.clone();
        self.drop_turn(turn);
        self.turns().insert(turn, OneTurn { epoch, known, deliveries, leave, task: None });
        let running = Running::new(Arc::clone(&this), order, given, told);
        let task = tokio::spawn(async move {
            let lost = running.run().await;
            {
                let mut turns = this.turns();
                if turns.get(&turn).is_some_and(|there| there.deliveries.same_channel(&own)) {
                    turns.remove(&turn);
                }
            }
            if let (Some(lost), Some(engine)) = (lost, this.engine.upgrade()) {
                // What cannot be stored is somebody else's by now.
                drop(engine.turn_lost(turn, epoch, lost).await);
            }
        });
        if let Some(there) = self.turns().get_mut(&turn) {
            there.task = Some(task.abort_handle());
        }
    }

    fn deliver(&self, turn: TurnId, delivery: Delivery) {
        if let Some(there) = self.turns().get(&turn)
            && delivery.index() >= there.known
        {
            self.log.note(Line::Delivered((self.life, turn, there.epoch), delivery.index()));
            // Its task may be at its end.
            drop(there.deliveries.send(delivery));
        }
    }

    fn stop(&self, turn: TurnId, _: &str) {
        self.drop_turn(turn);
    }

    fn park(&self, turn: TurnId) {
        self.drop_turn(turn);
    }

    fn runtime(&self) -> Runtime {
        runtime()
    }
}

/// Why a turn is not run any further.
enum Out {
    /// It is not ours any more.
    Elsewhere,
    Lost(Lost),
}

/// A turn at work.
struct Running {
    workers: Arc<Workers>,
    engine: Weak<Engine>,
    me: AtWorker,
    order: TurnOrder,
    given: mpsc::UnboundedReceiver<Delivery>,
    leave: watch::Receiver<Leave>,
    done: BTreeSet<String>,
    begun: BTreeSet<String>,
    asked: BTreeMap<String, InterruptId>,
    settled: BTreeSet<InterruptId>,
    fired: BTreeSet<String>,
    timers: BTreeMap<String, Timestamp>,
    seen: Option<u64>,
}

impl Running {
    fn new(
        workers: Arc<Workers>,
        order: TurnOrder,
        given: mpsc::UnboundedReceiver<Delivery>,
        leave: watch::Receiver<Leave>,
    ) -> Self {
        let me = (workers.life, order.turn, order.epoch);
        let mut running = Self {
            engine: Weak::clone(&workers.engine),
            workers,
            me,
            given,
            leave,
            done: BTreeSet::new(),
            begun: BTreeSet::new(),
            asked: BTreeMap::new(),
            settled: BTreeSet::new(),
            fired: BTreeSet::new(),
            timers: BTreeMap::new(),
            seen: (order.journal.len() as u64).checked_sub(1),
            order,
        };
        for recorded in running.order.journal.clone() {
            running.read(recorded.entry);
        }
        running
    }

    fn read(&mut self, entry: Entry) {
        match entry {
            Entry::Step { step, .. } => drop(self.done.insert(step.path)),
            Entry::Intent { step, .. } => drop(self.begun.insert(step.path)),
            Entry::Ask { step, interrupt_id } => drop(self.asked.insert(step.path, interrupt_id)),
            Entry::Answer { interrupt_id, .. } | Entry::Expire { interrupt_id } => {
                self.settled.insert(interrupt_id);
            }
            Entry::Timer { path, .. } => drop(self.fired.insert(path)),
            Entry::Pause { timers, .. } => self.timers.extend(timers.into_iter().map(|timer| (timer.path, timer.due))),
            _ => {}
        }
    }

    fn engine(&self) -> Result<Arc<Engine>, Out> {
        self.engine.upgrade().ok_or(Out::Elsewhere)
    }

    async fn run(mut self) -> Option<Lost> {
        match self.go().await {
            Ok(()) | Err(Out::Elsewhere) => None,
            Err(Out::Lost(lost)) => Some(lost),
        }
    }

    async fn go(&mut self) -> Result<(), Out> {
        let (_, turn, epoch) = self.me;
        let text = self.order.message.content.clone().unwrap_or_default();
        self.pass().await?;
        let replayed = self.engine()?.turn_replayed(turn, epoch, Vec::new()).await;
        self.told(replayed)?;
        for (place, deed) in script(&text).into_iter().enumerate() {
            let path = format!("0#{place}");
            match deed {
                Deed::Step(takes) if !self.done.contains(&path) => {
                    self.body(&path, takes, false).await?;
                    self.say(vec![step(&path)], Some(&path)).await?;
                }
                Deed::Once(takes) if !self.done.contains(&path) => {
                    // What came of one that was begun before, nobody knows: it never runs again.
                    if !self.begun.contains(&path) {
                        let step = identity(&path, "step");
                        self.say(vec![Record::Intent { step, arguments: None }], None).await?;
                        self.body(&path, takes, true).await?;
                    }
                    self.say(vec![step(&path)], Some(&path)).await?;
                }
                Deed::Ask(expires_in) => {
                    let has_asked = self.asked.contains_key(&path);
                    let asked = self.put(place, &path, expires_in, true).await?;
                    self.answered(asked, !has_asked).await?;
                }
                Deed::AskBeside(takes, expires_in) => {
                    let beside = format!("{path}/step");
                    let asked = self.put(place, &path, expires_in, false).await?;
                    if !self.done.contains(&beside) {
                        self.body(&beside, takes, false).await?;
                        self.say(vec![step(&beside)], Some(&beside)).await?;
                    }
                    self.answered(asked, false).await?;
                }
                Deed::Sleep(millis) if !self.fired.contains(&path) => self.sleep(&path, millis).await?,
                Deed::Step(_) | Deed::Once(_) | Deed::Sleep(_) => {}
            }
        }
        self.pass().await?;
        let mut state = self.order.state.clone();
        state.extend([(*self.order.message).clone(), message(&format!("done {text}"))]);
        let engine = self.engine()?;
        let response = message(&format!("done {text}"));
        let ended = tokio::spawn(async move { engine.turn_ended(turn, epoch, response, state).await });
        let ended = ended.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())));
        self.told(ended)?;
        self.workers.link.goes_on().await;
        self.workers.log.note(Line::Ended(self.me));
        Ok(())
    }

    /// Whoever is stopped does nothing; whoever was killed or is to leave goes no further.
    async fn pass(&self) -> Result<(), Out> {
        self.workers.link.goes_on().await;
        match *self.leave.borrow() {
            Leave::Stays => Ok(()),
            Leave::Leaves => Err(Out::Elsewhere),
            Leave::Killed => Err(Out::Lost(Lost::Exited { message: "killed".to_owned() })),
        }
    }

    async fn body(&mut self, path: &str, takes: u64, once: bool) -> Result<(), Out> {
        self.pass().await?;
        self.stand_still().await?;
        self.workers.log.note(Line::Begins(self.me, path.to_owned(), once));
        // Also where the process ends.
        let over = Over { log: Arc::clone(&self.workers.log), line: Line::Over(self.me, path.to_owned()) };
        let done = sleep(Duration::from_millis(takes));
        tokio::pin!(done);
        loop {
            let given = tokio::select! {
                biased;
                // The sender lives as long as the turn has not left.
                _ = self.leave.wait_for(|leave| *leave != Leave::Stays) => None,
                given = self.given.recv() => given,
                () = &mut done => None,
            };
            self.pass().await?;
            match given {
                Some(given) => self.take(&given),
                None => break,
            }
        }
        drop(over);
        Ok(())
    }

    /// As a worker's process does, which sees until when its server may act.
    async fn stand_still(&self) -> Result<(), Out> {
        while self.engine()?.store.membership().is_some_and(|membership| membership.may_act().is_err()) {
            sleep(Duration::from_millis(5)).await;
            self.pass().await?;
        }
        Ok(())
    }

    /// What an outcome means for the turn.
    fn told<T>(&self, outcome: Result<T, Error>) -> Result<T, Out> {
        outcome.map_err(|error| match error {
            Error::TurnNotOpen(_) | Error::StaleEpoch => Out::Elsewhere,
            Error::StoreUnavailable(message) => Out::Lost(Lost::Unstored { message }),
            other => {
                self.workers.log.note(Line::Wrong(self.me, other.to_string()));
                Out::Elsewhere
            }
        })
    }

    /// Says something; `finishes` is the step that is over by it.
    async fn say(&mut self, records: Vec<Record>, finishes: Option<&str>) -> Result<AppendResults, Out> {
        self.pass().await?;
        let (_, turn, epoch) = self.me;
        let engine = self.engine()?;
        // A word that is on its way is heard, whatever becomes of its worker.
        let said = tokio::spawn(async move { engine.turn_append(turn, epoch, records).await });
        let said = said.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())));
        let said = self.told(said)?;
        // What has come by now goes before or after what is acknowledged, as it stands in the journal; what comes later, after.
        let mut given: VecDeque<_> = std::iter::from_fn(|| self.given.try_recv().ok()).collect();
        self.workers.link.goes_on().await;
        for appended in said.iter().flatten().flatten() {
            while given.front().is_some_and(|given| given.index() < appended.index) {
                given.pop_front().iter().for_each(|given| self.take(given));
            }
            let finished = finishes.map(str::to_owned);
            self.workers.log.note(Line::Stored(self.me, appended.index, finished));
            self.seen = self.seen.max(Some(appended.index));
        }
        given.iter().for_each(|given| self.take(given));
        Ok(said)
    }

    /// Asks, unless that is in the journal; where nothing else `waits`, it says so with the question.
    async fn put(
        &mut self,
        place: usize,
        path: &str,
        expires_in: Option<f64>,
        waits: bool,
    ) -> Result<InterruptId, Out> {
        if let Some(id) = self.asked.get(path) {
            return Ok(*id);
        }
        let mut records = vec![question(place, expires_in)];
        records.extend(waits.then(|| waiting(self.seen, &[])));
        let said = self.say(records, None).await?;
        let asked = said.into_iter().next().and_then(Result::ok).flatten().and_then(|it| it.interrupt);
        let Some(id) = asked else { return Err(Out::Elsewhere) };
        self.workers.log.note(Line::Asked(self.order.session, id));
        self.asked.insert(path.to_owned(), id);
        Ok(id)
    }

    /// Waits until a question is answered or has expired; whether it `has_said` so.
    async fn answered(&mut self, id: InterruptId, mut has_said: bool) -> Result<(), Out> {
        while !self.settled.contains(&id) {
            if !std::mem::take(&mut has_said) {
                self.say(vec![waiting(self.seen, &[])], None).await?;
            }
            if !self.settled.contains(&id) {
                self.hear().await?;
            }
        }
        Ok(())
    }

    async fn sleep(&mut self, path: &str, millis: i64) -> Result<(), Out> {
        let now = self.engine()?.store.clock().now();
        let due = self.timers.get(path).copied().unwrap_or(Timestamp::from_millis(now.millis() + millis));
        self.timers.insert(path.to_owned(), due);
        self.say(vec![waiting(self.seen, &[(path, due)])], None).await?;
        loop {
            let now = self.engine()?.store.clock().now();
            if now >= due {
                break;
            }
            tokio::select! {
                biased;
                heard = self.hear() => heard?,
                () = sleep(due.since(now)) => {}
            }
        }
        self.say(vec![Record::Timer { path: path.to_owned(), due }], None).await?;
        Ok(())
    }

    /// The next thing that it is given.
    async fn hear(&mut self) -> Result<(), Out> {
        let given = tokio::select! {
            biased;
            _ = self.leave.wait_for(|leave| *leave != Leave::Stays) => None,
            given = self.given.recv() => given,
        };
        self.pass().await?;
        let Some(given) = given else { return Err(Out::Elsewhere) };
        self.take(&given);
        Ok(())
    }

    fn take(&mut self, given: &Delivery) {
        self.workers.log.note(Line::Told(self.me, given.index()));
        self.seen = self.seen.max(Some(given.index()));
        match given {
            Delivery::Answer { interrupt, .. } | Delivery::Expired { interrupt, .. } => self.settled.insert(*interrupt),
        };
    }
}

/// Notes that a body is over.
struct Over {
    log: Arc<Log>,
    line: Line,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.log.note(self.line.clone());
    }
}
