//! The engine as the supervisor sees it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::domain::message::{ChatMessage, NextState};
use crate::domain::session::Failure;
use crate::domain::{Error, TurnId};
use crate::engine::Engine;
use crate::engine::ports::dispatch::{AppendResults, Lost, Record, TurnInbox};
use crate::engine::ports::held::Held;

impl TurnInbox for Engine {
    fn turn_append(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        records: Vec<Record>,
    ) -> BoxFuture<'static, Result<AppendResults, Error>> {
        Box::pin(async move { Engine::turn_append(&self, turn, epoch, records).await })
    }

    fn turn_replayed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        warnings: Vec<String>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { Engine::turn_replayed(&self, turn, epoch, warnings).await })
    }

    fn turn_held(self: Arc<Self>, turn: TurnId, epoch: u64, held: Held) {
        Engine::turn_held(&self, turn, epoch, held);
    }

    fn turn_delta(self: Arc<Self>, turn: TurnId, step_id: &str, attempt: u32, delta: Value) {
        Engine::turn_delta(&self, turn, step_id, attempt, delta);
    }

    fn turn_ended(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: NextState,
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
        Box::pin(async move { Engine::turn_lost(&self, turn, epoch, lost).await })
    }
}
