//! One worker, from its first word to its last: which turns it runs, what it sends, how it ends.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::channel::{Channel, FrameReader};
use super::frames::{self, FromWorker, Hello, Log, PROTOCOL, Stream, ToWorker, Violation};
use super::process::{Exit, ended};
use super::seats::{ReceivedWord, SeatEntry, Seats, WorkerSignal};
use super::settings::SupervisorStartError;
use super::spawner::{Body, Spawned};
use super::{log, no_longer_than};
use crate::domain::session::Failure;
use crate::domain::{SessionId, TurnId};
use crate::engine::ports::dispatch::Lost;

/// Bytes of frames of one worker that wait for the engine; its socket is not read while there are more.
const MAX_UNHANDLED: usize = 2 * frames::MAX_FRAME;

/// What a frame costs at least, however short.
const FRAME_COST: usize = 1024;

/// How long a worker may take to exit when it has been told to, or has closed its channel.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// How long what a worker printed is read after its end: programs that it started may keep its output open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a worker runs no turns any more.
#[derive(Debug, Clone, PartialEq)]
pub enum Gone {
    /// It exited, or closed its channel.
    Exited,
    /// It said nothing for too long, and was killed.
    Silent,
    /// It broke the protocol.
    Protocol(Violation),
    /// Its server does not reach the store, and killed it: another server may have its turns.
    CutOff,
}

impl Gone {
    /// What it means for its turns. Whose doing a breach of the protocol was nobody can tell, where it may have had several.
    pub fn lost(&self, is_shared: bool) -> Lost {
        match self {
            Self::Protocol(violation) if is_shared => Lost::Exited { message: violation.message() },
            Self::Exited => Lost::Exited { message: Failure::worker_exited().message },
            Self::Silent => Lost::Silent,
            Self::Protocol(violation) => violation.lost(),
            Self::CutOff => Lost::Unstored { message: "the store was not reached".to_owned() },
        }
    }
}

/// See the module.
pub struct Worker {
    /// Its number.
    pub number: u64,
    /// Whether it runs many turns; else it runs one and ends.
    pub shared: bool,
    /// How many turns it was given and has not ended, counted by the pool.
    pub load: AtomicUsize,
    channel: Arc<Channel>,
    body: Body,
    exit: watch::Receiver<Option<Exit>>,
    seats: Mutex<Seats>,
    /// The session whose turn a single worker runs.
    session: Arc<OnceLock<SessionId>>,
    gone: OnceLock<Gone>,
    /// What it said hello with.
    hello: OnceLock<Hello>,
    /// What it says is not read, because too much of it waits for the engine.
    backlogged: AtomicBool,
    retired: AtomicBool,
    /// It has something open.
    has_open: AtomicBool,
    born: Instant,
}

impl Worker {
    /// A worker over what was spawned, and the reader of what it says.
    pub fn new(number: u64, shared: bool, spawned: Spawned) -> (Arc<Self>, FrameReader) {
        let Spawned { stream, stdout, stderr, body, exit } = spawned;
        let (worker, reader) = Self::over(number, shared, Channel::new(stream), body, exit);
        for (output, stream) in [(stdout, Stream::Stdout), (stderr, Stream::Stderr)] {
            // Not the worker: what holds it holds its channel.
            let (session, exit) = (Arc::clone(&worker.session), worker.exit.clone());
            let over = async {
                ended(exit).await;
                tokio::time::sleep(LAST_WORDS).await;
            };
            tokio::spawn(log::pump(output, stream, move || session.get().copied(), over));
        }
        (worker, reader)
    }

    /// A worker whose output is none of ours.
    pub fn over(
        number: u64,
        shared: bool,
        channel: Arc<Channel>,
        body: Body,
        exit: watch::Receiver<Option<Exit>>,
    ) -> (Arc<Self>, FrameReader) {
        let worker = Arc::new(Self {
            number,
            shared,
            load: AtomicUsize::new(0),
            channel: Arc::clone(&channel),
            body,
            exit,
            seats: Mutex::default(),
            session: Arc::default(),
            gone: OnceLock::new(),
            hello: OnceLock::new(),
            backlogged: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            has_open: AtomicBool::new(false),
            born: Instant::now(),
        });
        (worker, FrameReader::new(channel))
    }

    /// See [`Seats::take`].
    pub(super) fn take_seat(&self, turn: TurnId, entry: SeatEntry) -> bool {
        self.seats().take(turn, entry)
    }

    /// Sends a frame; a worker that does not take it is killed, at which its turns notice.
    pub fn send(&self, frame: &ToWorker<'_>) {
        match frames::encode(frame) {
            Ok(bytes) => {
                if self.channel.send(bytes).is_err() {
                    self.kill();
                }
            }
            Err(violation) => {
                tracing::error!(worker = self.number, %violation, "a frame for a worker is lost");
                self.kill();
            }
        }
    }

    /// Sends the frame that begins a turn of `session`, when the worker has read what was sent before. Nothing is sent
    /// when the future is dropped.
    pub async fn begin(&self, frame: Bytes, session: SessionId) {
        self.channel.room_for(frame.len()).await;
        if !self.shared {
            // Before it has the frame: from then on it may print.
            let _ = self.session.set(session);
        }
        if self.channel.send(frame).is_err() {
            self.kill();
        }
    }

    /// Ends the process at once. Its turns notice by the end of its channel.
    pub fn kill(&self) {
        self.body.kill();
        self.channel.close();
    }

    /// Kills the process because its server does not reach the store.
    pub fn cut_off(&self) {
        // Where it is gone for another reason, it stays gone for that.
        let _ = self.gone.set(Gone::CutOff);
        self.kill();
    }

    /// Lets the process end by itself, and kills it when it does not.
    pub fn finish(self: Arc<Self>) {
        self.channel.finish();
        self.await_exit();
    }

    /// The same of a shared worker that gets no turns any more: at the end of its channel it would close nothing while a
    /// turn is just leaving.
    pub fn dismiss(self: Arc<Self>) {
        self.send(&ToWorker::Shutdown {});
        self.await_exit();
    }

    fn await_exit(self: Arc<Self>) {
        tokio::spawn(async move {
            if timeout(EXIT_GRACE, self.ended()).await.is_err() {
                self.kill();
            }
        });
    }

    /// Whether it has something to close, and none of its turns is at work: then it is let go, and not killed.
    pub fn may_close(&self) -> bool {
        self.has_open.load(Ordering::Relaxed) && self.can_be_killed() && !self.seats().any_at_work()
    }

    /// Whether it can be killed, and has a turn at work that is not among `others`.
    pub fn works_beside(&self, others: &HashSet<TurnId>) -> bool {
        self.can_be_killed() && self.seats().any_at_work_beside(others)
    }

    /// Gives it no new turns, because one of its turns cannot be stopped.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// See [`Self::retire`].
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// A number that grows with whatever it sends.
    pub fn heard(&self) -> u64 {
        self.channel.reads()
    }

    /// Whether it owes us nothing but silence: no turn of it is at work, or we do not listen ourselves.
    pub fn may_be_silent(&self) -> bool {
        self.backlogged.load(Ordering::Relaxed) || self.channel.has_unread() || !self.seats().any_at_work()
    }

    /// Whether it is a process, and not a thread of this one.
    pub fn can_be_killed(&self) -> bool {
        !matches!(self.body, Body::InProcess(_))
    }

    /// It has been silent for too long: it is killed and its turns are lost. Where it is to be spared they are lost all
    /// the same.
    pub fn fell_silent(&self, spare: bool) {
        if spare {
            self.seats().tell_silent();
        } else {
            let _ = self.gone.set(Gone::Silent);
            self.kill();
        }
    }

    /// The version of Python it runs, once it has said hello.
    pub fn python(&self) -> &str {
        self.hello.get().map_or("", |hello| &hello.python)
    }

    /// The agent's code that it imported, once it has said hello.
    pub fn code(&self) -> &str {
        self.hello.get().map_or("", |hello| &hello.code)
    }

    /// How long it has been there.
    pub fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// Why it is gone.
    pub fn gone(&self) -> Gone {
        self.gone.get().cloned().unwrap_or(Gone::Exited)
    }

    /// How its process ended, once it has.
    pub async fn ended(&self) -> Exit {
        ended(self.exit.clone()).await
    }

    /// Waits for `hello`, which a worker says that has `agent`; for `limit` at most, unless that is zero.
    ///
    /// # Errors
    /// When something else comes, or nothing. The process is killed then.
    pub async fn greet(
        &self,
        reader: &mut FrameReader,
        agent: &str,
        limit: Duration,
    ) -> Result<Hello, SupervisorStartError> {
        let greeted = match no_longer_than(limit, reader.next()).await {
            None => Err(SupervisorStartError::TimedOut { agent: agent.to_owned(), limit }),
            Some(Err(violation)) => Err(SupervisorStartError::Protocol(violation.to_string())),
            Some(Ok(None)) => Err(self.ended_before_hello(agent).await),
            Some(Ok(Some(body))) => match frames::parse(&body) {
                Ok(FromWorker::Hello(hello)) if hello.protocol == PROTOCOL => Ok(hello),
                Ok(FromWorker::Hello(hello)) => Err(SupervisorStartError::Protocol(format!(
                    "it speaks version {} (hitl {}), the server version {PROTOCOL}",
                    hello.protocol, hello.library
                ))),
                Ok(FromWorker::Failed(failed)) => {
                    Err(SupervisorStartError::AgentImport { message: failed.message, hint: failed.hint })
                }
                Ok(_) => Err(SupervisorStartError::Protocol("its first frame was not hello".to_owned())),
                Err(violation) => Err(SupervisorStartError::Protocol(violation.to_string())),
            },
        };
        match &greeted {
            Ok(hello) => drop(self.hello.set(hello.clone())),
            Err(_) => self.kill(),
        }
        greeted
    }

    /// Why a worker whose channel has ended says no hello.
    async fn ended_before_hello(&self, agent: &str) -> SupervisorStartError {
        // It may have closed its channel alone, and a thread has no end.
        let how = timeout(EXIT_GRACE, self.ended()).await.map(|exit| exit.to_string());
        match (&self.body, how) {
            // It imports the agent itself.
            (Body::Started(_), Ok(how)) => SupervisorStartError::Ended { agent: agent.to_owned(), how },
            (_, Ok(how)) => SupervisorStartError::Protocol(format!("it ended before hello: {how}")),
            (_, Err(_)) => SupervisorStartError::Protocol("it closed its channel before hello".to_owned()),
        }
    }

    /// Hands what the worker says to its turns until it is gone; then it is dead, and its turns know why.
    pub async fn listen(self: &Arc<Self>, reader: &mut FrameReader) {
        let room = Arc::new(Semaphore::new(MAX_UNHANDLED));
        let gone = loop {
            match reader.next().await {
                Ok(Some(body)) => {
                    if let Err(violation) = self.hear(body, reader, &room).await {
                        break Gone::Protocol(violation);
                    }
                }
                Ok(None) => break Gone::Exited,
                Err(violation) => break Gone::Protocol(violation),
            }
        };
        if let Gone::Protocol(violation) = &gone {
            tracing::error!(worker = self.number, %violation, "a worker broke the protocol and is killed");
        }
        let _ = self.gone.set(gone);
        self.seats().close();
        self.kill();
    }

    /// Writes to the worker, and stops reading from a dead one.
    pub async fn attend(&self) {
        let exited = async {
            self.ended().await;
            self.channel.end_reading();
        };
        tokio::join!(self.channel.write(), exited);
    }

    /// Hears a frame and all that have arrived with it. A turn gets its words in one piece, so that what a worker says
    /// in one go is stored in one go.
    async fn hear(&self, first: Bytes, reader: &mut FrameReader, room: &Arc<Semaphore>) -> Result<(), Violation> {
        let mut pieces = Pieces::default();
        let mut next = Some(first);
        let heard = loop {
            let Some(body) = next else { break Ok(()) };
            match self.hear_one(&body, room, &mut pieces).await {
                Ok(()) => {}
                Err(violation) => break Err(violation),
            }
            next = match reader.arrived() {
                Ok(body) => body,
                Err(violation) => break Err(violation),
            };
        };
        // What came before a violation still counts.
        self.pass_on(&mut pieces);
        heard
    }

    async fn hear_one(&self, body: &[u8], room: &Arc<Semaphore>, pieces: &mut Pieces) -> Result<(), Violation> {
        match frames::parse(body)? {
            FromWorker::Log(Log { turn, stream, text }) => {
                let session = turn.and_then(|turn| self.seats().session(turn));
                log::text(session, stream, &text);
            }
            FromWorker::Pong => {}
            FromWorker::Opened => self.has_open.store(true, Ordering::Relaxed),
            FromWorker::Turn(turn, word) => {
                if !self.seats().knows(turn) {
                    return Err(Violation(format!("a frame is about turn {turn}, which this worker does not run")));
                }
                let room = self.room(body.len(), room, pieces).await;
                pieces.add(turn, ReceivedWord { word, room });
            }
            FromWorker::Hello(_) | FromWorker::Failed(_) => return Err(Violation("a second hello".to_owned())),
        }
        Ok(())
    }

    async fn room(&self, size: usize, room: &Arc<Semaphore>, pieces: &mut Pieces) -> Option<OwnedSemaphorePermit> {
        let cost = u32::try_from(size.max(FRAME_COST)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(room).try_acquire_many_owned(cost) {
            return Some(room);
        }
        // What is held back here would keep its room for ever.
        self.pass_on(pieces);
        self.backlogged.store(true, Ordering::Relaxed);
        let room = Arc::clone(room).acquire_many_owned(cost).await.ok();
        self.backlogged.store(false, Ordering::Relaxed);
        room
    }

    fn pass_on(&self, pieces: &mut Pieces) {
        let seats = self.seats();
        for (turn, words) in pieces.0.drain(..) {
            seats.tell(turn, WorkerSignal::Words(words));
        }
    }

    pub(super) fn leave(&self, turn: TurnId) {
        self.seats().leave(turn);
    }

    pub(super) fn set_at_work(&self, turn: TurnId, at_work: bool) {
        self.seats().set_at_work(turn, at_work);
    }

    fn seats(&self) -> std::sync::MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Words by turn, in the order of their first ones.
#[derive(Default)]
struct Pieces(Vec<(TurnId, Vec<ReceivedWord>)>);

impl Pieces {
    fn add(&mut self, turn: TurnId, heard: ReceivedWord) {
        match self.0.iter_mut().rfind(|(other, _)| *other == turn) {
            Some((_, words)) => words.push(heard),
            None => self.0.push((turn, vec![heard])),
        }
    }
}
