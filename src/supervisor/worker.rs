//! One worker, from its first word to its last: which turns it runs, what it sends, how it ends.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::channel::{Channel, FrameReader};
use super::frames::{self, FromWorker, Hello, Log, PROTOCOL, Stream, ToWorker, Violation, Word};
use super::log;
use super::process::{Exit, ended};
use super::settings::StartError;
use super::spawner::{Body, Spawned};
use crate::domain::session::Failure;
use crate::domain::{SessionId, TurnId};

/// Bytes of frames of one worker that wait for the engine; its socket is not read while there are more.
const MAX_UNHANDLED: usize = 2 * frames::MAX_FRAME;

/// What a frame costs at least, however short.
const FRAME_COST: usize = 1024;

/// How long a worker may take from its first instruction to `hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a worker may take to exit when it has been told to.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// How many ended turns a worker is remembered to have had. A frame about one of them is late; about any other turn it
/// is wrong.
const REMEMBERED: usize = 256;

/// Why a worker runs no turns any more.
#[derive(Debug, Clone, PartialEq)]
pub enum Gone {
    /// It exited, or closed its channel.
    Exited,
    /// It broke the protocol.
    Protocol(Violation),
}

impl Gone {
    /// How its turns end.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Exited => Failure::worker_exited(),
            Self::Protocol(violation) => violation.failure(),
        }
    }
}

/// A word about a turn, and the room it takes until it has been handled.
pub struct Heard {
    /// The word.
    pub word: Box<Word>,
    _room: OwnedSemaphorePermit,
}

/// A turn's place at a worker. Dropped, whatever still comes about the turn is late.
pub struct Seat {
    heard: mpsc::UnboundedReceiver<Heard>,
    worker: Arc<Worker>,
    turn: TurnId,
}

impl Seat {
    /// What the worker says next about the turn; `None` when the worker is gone and has said nothing more.
    pub async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }

    /// The worker.
    pub fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.worker.leave(self.turn);
    }
}

struct Sitter {
    heard: mpsc::UnboundedSender<Heard>,
    session: SessionId,
}

#[derive(Default)]
struct Seats {
    taken: HashMap<TurnId, Sitter>,
    left: VecDeque<TurnId>,
    gone: bool,
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
    session: OnceLock<SessionId>,
    gone: OnceLock<Gone>,
    heard: AtomicU64,
    retired: AtomicBool,
    born: Instant,
}

impl Worker {
    /// A worker over what was spawned, and the reader of what it says.
    pub fn new(number: u64, shared: bool, spawned: Spawned) -> (Arc<Self>, FrameReader) {
        let Spawned { stream, stdout, stderr, body, exit } = spawned;
        let (worker, reader) = Self::over(number, shared, Channel::new(stream), body, exit);
        for (output, stream) in [(stdout, Stream::Stdout), (stderr, Stream::Stderr)] {
            let worker = Arc::clone(&worker);
            tokio::spawn(log::pump(output, stream, move || worker.session.get().copied()));
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
            session: OnceLock::new(),
            gone: OnceLock::new(),
            heard: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            born: Instant::now(),
        });
        (worker, FrameReader::new(channel))
    }

    /// Gives a turn a seat; `None` when the worker has gone meanwhile.
    pub fn seat(self: &Arc<Self>, turn: TurnId, session: SessionId) -> Option<Seat> {
        let (sender, heard) = mpsc::unbounded_channel();
        let mut seats = self.seats();
        if seats.gone {
            return None;
        }
        seats.taken.insert(turn, Sitter { heard: sender, session });
        Some(Seat { heard, worker: Arc::clone(self), turn })
    }

    fn leave(&self, turn: TurnId) {
        let mut seats = self.seats();
        if seats.taken.remove(&turn).is_some() {
            if seats.left.len() == REMEMBERED {
                seats.left.pop_front();
            }
            seats.left.push_back(turn);
        }
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
        if self.channel.send_when_there_is_room(frame).await.is_err() {
            self.kill();
        }
        if !self.shared {
            let _ = self.session.set(session);
        }
    }

    /// Ends the process at once. Its turns notice by the end of its channel.
    pub fn kill(&self) {
        self.body.kill();
        self.channel.close();
    }

    /// Lets the process end by itself, and kills it when it does not.
    pub fn finish(self: Arc<Self>) {
        self.channel.finish();
        tokio::spawn(async move {
            if tokio::time::timeout(EXIT_GRACE, ended(self.exit.clone())).await.is_err() {
                self.kill();
            }
        });
    }

    /// Gives it no new turns, because one of its turns cannot be stopped.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// See [`Self::retire`].
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// How many frames it has sent.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
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

    /// Waits for `hello`.
    ///
    /// # Errors
    /// When something else comes, or nothing. The process is killed then.
    pub async fn greet(&self, reader: &mut FrameReader) -> Result<Hello, StartError> {
        let greeted = match tokio::time::timeout(HELLO_TIMEOUT, reader.next()).await {
            Err(_) => Err(StartError::Protocol(format!("no hello within {} s", HELLO_TIMEOUT.as_secs()))),
            Ok(Err(violation)) => Err(StartError::Protocol(violation.to_string())),
            Ok(Ok(None)) => Err(StartError::Protocol(format!("it ended before hello: {}", self.ended().await))),
            Ok(Ok(Some(body))) => match frames::parse(&body) {
                Ok(FromWorker::Hello(hello)) if hello.protocol == PROTOCOL => Ok(hello),
                Ok(FromWorker::Hello(hello)) => Err(StartError::Protocol(format!(
                    "it speaks version {} (hitl {}), the server version {PROTOCOL}",
                    hello.protocol, hello.library
                ))),
                Ok(FromWorker::Failed(failed)) => {
                    Err(StartError::AgentImport { message: failed.message, hint: failed.hint })
                }
                Ok(_) => Err(StartError::Protocol("its first frame was not hello".to_owned())),
                Err(violation) => Err(StartError::Protocol(violation.to_string())),
            },
        };
        if greeted.is_err() {
            self.kill();
        }
        greeted
    }

    /// Hands what the worker says to its turns until it is gone; then it is dead, and its turns know why.
    pub async fn listen(self: &Arc<Self>, reader: &mut FrameReader) {
        let room = Arc::new(Semaphore::new(MAX_UNHANDLED));
        let gone = loop {
            match reader.next().await {
                Ok(Some(body)) => {
                    self.heard.fetch_add(1, Ordering::Relaxed);
                    if let Err(violation) = self.hear(&body, &room).await {
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
        let mut seats = self.seats();
        seats.gone = true;
        seats.taken.clear();
        drop(seats);
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

    async fn hear(&self, body: &[u8], room: &Arc<Semaphore>) -> Result<(), Violation> {
        match frames::parse(body)? {
            FromWorker::Log(Log { turn, stream, text }) => {
                let session = turn.and_then(|turn| self.seats().taken.get(&turn).map(|sitter| sitter.session));
                log::text(session, stream, &text);
                Ok(())
            }
            FromWorker::Turn(turn, word) => {
                let cost = u32::try_from(body.len().max(FRAME_COST)).unwrap_or(u32::MAX);
                let Ok(room) = Arc::clone(room).acquire_many_owned(cost).await else {
                    return Ok(());
                };
                let seats = self.seats();
                match seats.taken.get(&turn) {
                    Some(sitter) => {
                        // A turn that has just left does not want it any more.
                        let _ = sitter.heard.send(Heard { word, _room: room });
                        Ok(())
                    }
                    None if seats.left.contains(&turn) => Ok(()),
                    None => Err(Violation(format!("a frame is about turn {turn}, which this worker does not run"))),
                }
            }
            FromWorker::Hello(_) | FromWorker::Failed(_) => Err(Violation("a second hello".to_owned())),
        }
    }

    fn seats(&self) -> std::sync::MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
