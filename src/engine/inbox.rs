//! The engine as the supervisor sees it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::dispatch::{Appended, Batch, Lost, Record, TurnInbox};
use super::{Engine, clock};
use crate::domain::journal::Entry;
use crate::domain::message::ChatMessage;
use crate::domain::session::Failure;
use crate::domain::{Error, TurnId};
use crate::store::StoreExt;

impl TurnInbox for Engine {
    fn turn_append(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        records: Vec<Record>,
    ) -> BoxFuture<'static, Result<Batch, Error>> {
        Box::pin(async move {
            let mut batch = Batch::new();
            for record in records {
                match self.append_one(turn, epoch, record).await {
                    Err(error @ (Error::StaleEpoch | Error::TurnNotOpen | Error::StoreUnavailable(_))) => {
                        return Err(error);
                    }
                    appended => batch.push(appended),
                }
            }
            Ok(batch)
        })
    }

    fn turn_replayed(
        self: Arc<Self>,
        _turn: TurnId,
        _epoch: u64,
        _warnings: Vec<String>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn turn_delta(self: Arc<Self>, turn: TurnId, step_id: &str, attempt: u32, delta: Value) {
        Engine::turn_delta(&self, turn, step_id, attempt, delta);
    }

    fn turn_ended(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: Vec<ChatMessage>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { Engine::turn_ended(&self, turn, epoch, response, state).await })
    }

    fn turn_failed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        failure: Failure,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { Engine::turn_failed(&self, turn, epoch, failure).await })
    }

    fn turn_lost(self: Arc<Self>, turn: TurnId, epoch: u64, lost: Lost) -> BoxFuture<'static, Result<(), Error>> {
        let failure = match lost {
            Lost::Exited { message } => Failure::new("worker_exited", message),
            Lost::Silent => Failure::worker_exited(),
            Lost::Violation { message } => Failure::new("worker_protocol", message),
            Lost::Unstored { message } => Failure::new("store_unavailable", message),
            Lost::Stopping => Failure::server_restarted(),
        };
        Box::pin(async move { Engine::turn_failed(&self, turn, epoch, failure).await })
    }
}

impl Engine {
    async fn append_one(self: &Arc<Self>, turn: TurnId, epoch: u64, record: Record) -> Result<Option<Appended>, Error> {
        let appended = |index, interrupt| Some(Appended { index, at: clock::now(), interrupt });
        match record {
            Record::Step { step, result } => Ok(appended(self.turn_step(turn, epoch, step, result).await?, None)),
            Record::Ask { step, ask } => {
                let (index, interrupt) = self.turn_ask(turn, epoch, step, *ask).await?;
                Ok(appended(index, Some(interrupt)))
            }
            Record::Intent { step } => {
                let entry = Entry::Intent { step };
                Ok(appended(self.turn_note(turn, epoch, entry).await?, None))
            }
            Record::Timer { path, due } => {
                let entry = Entry::Timer { path, due };
                Ok(appended(self.turn_note(turn, epoch, entry).await?, None))
            }
            Record::Wakes(wakes) => {
                self.turn_note(turn, epoch, Entry::Wakes { wakes }).await?;
                Ok(None)
            }
            Record::Withdraw { interrupt } => {
                self.turn_withdraw(turn, epoch, interrupt).await?;
                Ok(None)
            }
            Record::Waiting { seen, .. } => {
                self.turn_waiting(turn, epoch, seen);
                Ok(None)
            }
        }
    }

    async fn turn_note(&self, turn: TurnId, epoch: u64, entry: Entry) -> Result<u64, Error> {
        self.store.transact(move |tx| tx.append(turn, epoch, &entry, clock::now())).await
    }
}
