//! How much disk a parked session takes.

use serde_json::json;

use super::*;
use crate::domain::event::Event;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Entry;
use crate::domain::session::{Phase, Session, Status};
use crate::domain::{InterruptId, SessionId, TurnId};
use crate::store::contract::fixture::*;
use crate::store::record::Turn;
use crate::store::{Store, StoreExt, Transaction};

const SESSIONS: u128 = 2_000;
/// Bytes that each may take beyond its payload once its events have been swept.
const LIMIT: u64 = 1_536;

/// A session whose only turn waits for an approval, as the engine stores it.
fn park(transaction: &mut dyn Transaction, number: u128) -> Result<(), crate::domain::Error> {
    let random =
        |salt: u128| uuid::Uuid::from_u128((number * 7 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834));
    let (id, turn_id, interrupt_id) = (SessionId(random(1)), TurnId(random(2)), InterruptId(random(3)));
    let interrupt = Interrupt {
        interrupt_id,
        session_id: id,
        turn_id,
        args_digest: Some(format!("sha256:{}", "0123456789abcdef".repeat(4))),
        tool_call_id: Some("call_0123456789abcdef01234567".to_owned()),
        ..approval(1, 1, "delete_file")
    };
    let phase = Phase::Interrupted { turn: turn_id, pending: vec![interrupt_id] };
    transaction.insert_session(&Session { id, phase, ..session(1) }, &[])?;
    transaction.insert_turn(&Turn { id: turn_id, session_id: id, ..turn(id, 1) })?;
    let epoch = transaction.claim_turn(turn_id)?;
    transaction.append(
        turn_id,
        epoch,
        &Entry::Start { code: "0123456789abcdef".to_owned(), python: "3.11".to_owned() },
        at(0),
    )?;
    transaction.append(turn_id, epoch, &step("complete", json!({"tool_calls": [{"name": "delete_file"}]})), at(0))?;
    let Entry::Step { step, .. } = step("delete_file", json!(null)) else { unreachable!() };
    transaction.append(turn_id, epoch, &Entry::Ask { step, interrupt_id }, at(0))?;
    transaction.insert_interrupt(&interrupt)?;
    transaction.append_event(&Event::session(id, Status::Running, None), at(0))?;
    transaction.append_event(&Event::interrupt(&interrupt), at(0))?;
    transaction.append_event(&Event::session(id, Status::Interrupted, None), at(0)).map(drop)
}

#[tokio::test]
async fn a_parked_session_takes_little_disk() {
    let (_directory, path) = place();
    let store = open(&path);
    store.transact(|transaction| (0..SESSIONS).try_for_each(|number| park(transaction, number))).await.unwrap();
    store.transact(|transaction| transaction.sweep_events(at(1))).await.unwrap();
    store.close().await.unwrap();
    // Without the pages that the events have left free.
    rusqlite::Connection::open(&path).unwrap().execute_batch("VACUUM").unwrap();
    let each = std::fs::metadata(&path).unwrap().len() / u64::try_from(SESSIONS).unwrap();
    let payload = serde_json::to_string(&approval(1, 1, "delete_file").payload).unwrap().len() as u64;
    assert!(each - payload <= LIMIT, "{} bytes", each - payload);
}
