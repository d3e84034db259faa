//! A run that is stopped while its store is at work.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::domain::JsonObject;
use crate::domain::journal::{Entry, StepIdentity, StepResult};
use crate::domain::message::ChatMessage;
use crate::domain::status::Status;
use crate::engine::journal::runs;
use crate::store::about::About;
use crate::store::memory::MemoryStore;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, StoreExt, WriteJob};

/// Says that it has been asked to write, and waits until it may.
type Asked = oneshot::Sender<()>;

/// A store that writes when it is told to, once a run has begun.
struct Waiting {
    store: Arc<MemoryStore>,
    asked: Mutex<Option<mpsc::UnboundedSender<Asked>>>,
}

impl Store for Waiting {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        let Some(asked) = self.asked.lock().unwrap().clone() else { return self.store.write(about, job) };
        let (may, told) = oneshot::channel();
        let store = Arc::clone(&self.store);
        asked.send(may).unwrap();
        Box::pin(async move {
            told.await.unwrap();
            store.write(about, job).await
        })
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

/// A run whose turn has begun. What it writes from now on waits.
struct Begun {
    store: Arc<Waiting>,
    session: SessionId,
    turn: TurnId,
    sender: RunSender,
    told: mpsc::UnboundedReceiver<ToTurn>,
    asked: mpsc::UnboundedReceiver<Asked>,
    stop: CancellationToken,
    run: JoinHandle<Result<RunOutcome, Error>>,
}

impl Begun {
    async fn new(replay: bool) -> Self {
        let store = Arc::new(Waiting { store: Arc::default(), asked: Mutex::default() });
        let (session, turn) = runs::new_ids();
        let message = Arc::new(ChatMessage { content: Some("hello".to_owned()), ..ChatMessage::default() });
        let (tell, mut told) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let run = Run {
            agent: "agent".to_owned(),
            runtime: Runtime {
                agent: None,
                code: "0123456789abcdef".to_owned(),
                python: "3.11".to_owned(),
                replay,
                pin: false,
            },
            store: Arc::clone(&store) as _,
            begin: Begin::Message { session, turn, message, traceparent: None },
            stop: stop.clone(),
            listener: None,
            worker: Box::new(move |word| drop(tell.send(word))),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let run = tokio::spawn(run.run(sender.clone(), receiver));
        assert!(matches!(told.recv().await, Some(ToTurn::Turn(_))));
        let (ask, asked) = mpsc::unbounded_channel();
        *store.asked.lock().unwrap() = Some(ask);
        Self { store, session, turn, sender, told, asked, stop, run }
    }

    fn say(&self, call: Option<u64>, record: Record) {
        assert!(self.sender.send(FromTurn::Word(Word::Record { call, record })).is_ok());
    }

    /// Stops it, lets it have as many rounds as it wants, and then its store write all that it is asked to.
    async fn stop_and_write(mut self, first: Asked) -> (Self, Vec<ToTurn>, Result<RunOutcome, Error>) {
        self.stop.cancel();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        // Nobody waits for it where the run has let go of it.
        let _ = first.send(());
        let outcome = loop {
            tokio::select! {
                biased;
                Some(asked) = self.asked.recv() => assert!(asked.send(()).is_ok()),
                outcome = &mut self.run => break outcome.unwrap(),
            }
        };
        let mut told = Vec::new();
        while let Ok(word) = self.told.try_recv() {
            told.push(word);
        }
        (self, told, outcome)
    }

    async fn journal(&self) -> Vec<Entry> {
        let turn = self.turn;
        let entries = self.store.store.query(move |reader| reader.journal(turn)).await.unwrap();
        entries.into_iter().map(|recorded| recorded.entry).collect()
    }

    async fn status(&self) -> Status {
        let session = self.session;
        self.store.store.query(move |reader| reader.session(session)).await.unwrap().unwrap().status()
    }
}

fn identity(path: &str, kind: &str) -> StepIdentity {
    StepIdentity {
        path: path.to_owned(),
        kind: kind.to_owned(),
        name: path.to_owned(),
        location: None,
        arguments: JsonObject::new(),
        tool_call_id: None,
    }
}

fn step(path: &str) -> Record {
    Record::Step { step: identity(path, "step"), result: StepResult::Value(json!(1)) }
}

#[tokio::test]
async fn what_is_being_committed_is_stored_and_told_before_a_run_stops() {
    let mut begun = Begun::new(true).await;
    begun.say(Some(1), step("0#1"));
    let commit = begun.asked.recv().await.unwrap();
    begun.say(Some(2), step("0#2"));
    let (begun, told, outcome) = begun.stop_and_write(commit).await;
    assert!(matches!(outcome, Err(Error::RunStopped)));
    let steps = begun.journal().await.iter().filter(|entry| matches!(entry, Entry::Step { .. })).count();
    assert_eq!(steps, 2, "also what had been said and was not taken up");
    let calls: Vec<_> = told
        .iter()
        .filter_map(|word| match word {
            ToTurn::Ack { call, .. } => Some(*call),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [1, 2]);
}

#[tokio::test]
async fn a_turn_that_cannot_wait_has_failed_where_its_run_is_stopped_in_the_midst_of_that() {
    let mut begun = Begun::new(false).await;
    let ask = json!({"type": "free", "payload": {"type": "free"}});
    let ask = Box::new(serde_json::from_value(ask).unwrap());
    begun.say(Some(1), Record::Ask { step: identity("0#1", "interrupt"), ask });
    begun.say(None, Record::Waiting { seen: None, timers: Vec::new(), context: None });
    // The commit of its question; that it fails for it is one of its own.
    let commit = begun.asked.recv().await.unwrap();
    let (begun, _, outcome) = begun.stop_and_write(commit).await;
    assert!(outcome.is_ok(), "it is over, and has an outcome to tell");
    assert_eq!(begun.status().await, Status::Error);
}
