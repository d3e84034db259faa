//! A turn's place at a worker: what it hears of the worker there.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::frames::Word;
use super::seats::{ReceivedWord, SeatEntry, WorkerSignal};
use super::worker::Worker;
use crate::domain::{SessionId, TurnId};

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
    /// Gives a turn a seat at `worker`; `None` when the worker has gone meanwhile, or has not got rid of the turn yet.
    pub fn take(worker: &Arc<Worker>, turn: TurnId, session: SessionId) -> Option<Self> {
        let (sender, news) = mpsc::unbounded_channel();
        let entry = SeatEntry { news: sender, session, at_work: true };
        let taken = worker.take_seat(turn, entry);
        taken.then(|| Self { news, said: VecDeque::new(), silent: false, worker: Arc::clone(worker), turn })
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
