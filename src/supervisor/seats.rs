//! What a worker knows of the turns that it has, and the way of its words to each.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::frames::Word;
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

    /// Whether any turn is at work that is not among `others`.
    pub fn any_at_work_beside(&self, others: &HashSet<TurnId>) -> bool {
        self.taken.iter().any(|(turn, sitter)| sitter.at_work && !others.contains(turn))
    }

    /// Whether any turn is at work.
    pub fn any_at_work(&self) -> bool {
        self.taken.values().any(|sitter| sitter.at_work)
    }
}
