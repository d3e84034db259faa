//! The places of turns at a worker, and what the worker says about each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::frames::Word;
use super::worker::Worker;
use crate::domain::{SessionId, TurnId};

/// How many ended turns a worker is remembered to have had. A frame about one of them is late; about any other turn it
/// is wrong.
const REMEMBERED: usize = 256;

/// A word about a turn, and the room it takes until it has been handled.
pub struct ReceivedWord {
    /// The word.
    pub word: Word,
    /// `None` for the words of a worker whose end has come.
    pub room: Option<OwnedSemaphorePermit>,
}

/// What a turn hears of its worker.
pub enum WorkerSignal {
    /// It said this, in this order.
    Words(Vec<ReceivedWord>),
    /// It has been silent for too long.
    Silent,
}

/// What a turn hears next.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
pub enum SeatEvent {
    /// A word.
    Word(ReceivedWord),
    /// See [`WorkerSignal::Silent`].
    Silent,
}

/// A turn's place at a worker. Dropped, whatever still comes about the turn is late.
pub struct Seat {
    news: mpsc::UnboundedReceiver<WorkerSignal>,
    said: VecDeque<ReceivedWord>,
    silent: bool,
    worker: Arc<Worker>,
    turn: TurnId,
}

impl Seat {
    /// The place of `turn` at `worker`, whose words about it come by `news`.
    pub fn new(news: mpsc::UnboundedReceiver<WorkerSignal>, worker: Arc<Worker>, turn: TurnId) -> Self {
        Self { news, said: VecDeque::new(), silent: false, worker, turn }
    }

    /// What the worker says next about the turn; `None` when the worker is gone and has said nothing more.
    pub async fn next(&mut self) -> Option<SeatEvent> {
        loop {
            if let Some(heard) = self.said.pop_front() {
                return Some(SeatEvent::Word(heard));
            }
            if std::mem::take(&mut self.silent) {
                return Some(SeatEvent::Silent);
            }
            let news = self.news.recv().await?;
            self.take_in(news);
        }
    }

    /// The next word if it was said already and `wanted` takes it.
    pub fn said_already(&mut self, wanted: impl FnOnce(&Word) -> bool) -> Option<ReceivedWord> {
        while self.said.is_empty() {
            let news = self.news.try_recv().ok()?;
            self.take_in(news);
        }
        let next = self.said.front()?;
        if wanted(&next.word) { self.said.pop_front() } else { None }
    }

    fn take_in(&mut self, news: WorkerSignal) {
        match news {
            WorkerSignal::Words(words) => self.said.extend(words),
            WorkerSignal::Silent => self.silent = true,
        }
    }

    /// Says whether the turn is at work; a worker none of whose turns is may be silent.
    pub fn set_at_work(&self, at_work: bool) {
        self.worker.set_at_work(self.turn, at_work);
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

/// The worker's end of a seat.
pub struct SeatEntry {
    /// Where news of the worker go.
    pub news: mpsc::UnboundedSender<WorkerSignal>,
    /// Whose turn it is.
    pub session: SessionId,
    /// Whether the turn does something; else it waits for people or timers.
    pub at_work: bool,
}

/// All seats of a worker.
#[derive(Default)]
pub struct Seats {
    taken: HashMap<TurnId, SeatEntry>,
    left: VecDeque<TurnId>,
    gone: bool,
}

impl Seats {
    /// Takes a seat for a turn; false when the worker is gone, or the turn has one here already.
    pub fn take(&mut self, turn: TurnId, sitter: SeatEntry) -> bool {
        let free = !self.gone && !self.taken.contains_key(&turn);
        if free {
            self.taken.insert(turn, sitter);
        }
        free
    }

    /// The turn is not the worker's any more.
    pub fn leave(&mut self, turn: TurnId) {
        if self.taken.remove(&turn).is_some() {
            if self.left.len() == REMEMBERED {
                self.left.pop_front();
            }
            self.left.push_back(turn);
        }
    }

    /// Nobody sits here any more, or ever will.
    pub fn close(&mut self) {
        self.gone = true;
        self.taken.clear();
    }

    /// Whether the worker may say something about a turn: it has it, or had it.
    pub fn knows(&self, turn: TurnId) -> bool {
        self.taken.contains_key(&turn) || self.left.contains(&turn)
    }

    /// Whose turn it is that the worker has.
    pub fn session(&self, turn: TurnId) -> Option<SessionId> {
        self.taken.get(&turn).map(|sitter| sitter.session)
    }

    /// Tells a turn; one that has left does not want to know.
    pub fn tell(&self, turn: TurnId, news: WorkerSignal) {
        if let Some(sitter) = self.taken.get(&turn) {
            let _ = sitter.news.send(news);
        }
    }

    /// Tells every turn that the worker is silent.
    pub fn tell_silent(&self) {
        for sitter in self.taken.values() {
            let _ = sitter.news.send(WorkerSignal::Silent);
        }
    }

    /// See [`SeatEntry::at_work`].
    pub fn set_at_work(&mut self, turn: TurnId, at_work: bool) {
        if let Some(sitter) = self.taken.get_mut(&turn) {
            sitter.at_work = at_work;
        }
    }

    /// Whether any turn is at work.
    pub fn any_at_work(&self) -> bool {
        self.taken.values().any(|sitter| sitter.at_work)
    }
}
