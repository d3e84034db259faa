//! What one question takes is found past entries of the journal that cannot be read: no more of it is looked at.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::support::{World, asked, call, runtime, settings, step};
use crate::domain::Error;
use crate::domain::journal::StepIdentity;
use crate::engine::dispatch::Record;
use crate::store::contract::fixture::{Fixture, identity, spoil_steps};
use crate::store::sqlite::SqliteStore;
use crate::store::{Store, StoreExt};

/// An engine on a file.
struct Spoiled {
    world: World,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Spoiled {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hitl.db");
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
        let world = World::over(Fixture::memory(), store, settings(), runtime()).await;
        Self { world, path, _directory: directory }
    }

    /// What came of a step cannot be read any more, nor the journal as a whole.
    async fn spoil(&self, turn: crate::domain::TurnId) {
        assert_eq!(spoil_steps(&self.path), 1);
        let read = self.world.store.query(move |reader| reader.journal(turn)).await;
        assert!(matches!(read, Err(Error::Unreadable(_))), "{read:?}");
    }
}

fn unknown(step: StepIdentity) -> Record {
    let payload = json!({"type": "unknown_outcome", "tool_name": "pay", "tool_args": {}});
    let ask = json!({"type": "unknown_outcome", "agent": "assistant", "payload": payload});
    Record::Ask { step, ask: Box::new(serde_json::from_value(ask).unwrap()) }
}

fn approval(approvers: &Value) -> Record {
    let payload = json!({"type": "tool_approval", "tool_name": "pay", "tool_args": {}});
    call(json!({"type": "tool_approval", "agent": "assistant", "approvers": approvers, "payload": payload}))
}

#[tokio::test]
async fn whoever_could_let_a_step_run_is_asked_what_came_of_it() {
    let it = Spoiled::new().await;
    let order = it.world.begin().await;
    it.world.append(&order, vec![approval(&json!(["bob"])), step("x")]).await.unwrap();
    it.spoil(order.turn).await;
    let batch = it.world.append(&order, vec![unknown(identity("0#1/0#2", "interrupt"))]).await.unwrap();
    assert_eq!(it.world.interrupt(asked(batch)[0]).await.approvers, ["bob"]);
}

#[tokio::test]
async fn what_came_of_a_step_is_answered() {
    let it = Spoiled::new().await;
    let order = it.world.begin().await;
    let begun = Record::Intent { step: identity("0#1", "tool") };
    it.world.append(&order, vec![step("x"), begun]).await.unwrap();
    let batch = it.world.append(&order, vec![unknown(identity("0#1/0#2", "interrupt"))]).await.unwrap();
    it.spoil(order.turn).await;
    it.world.answer(order.session, asked(batch)[0], json!({"outcome": "not_done"})).await.unwrap();
}
