//! What the time is, the store says: whoever has another clock of their own would expire what others still wait for.

use std::sync::Arc;

use serde_json::json;

use super::support::{World, asked, question, settings, waiting};
use crate::domain::Error;
use crate::domain::access::Actor;
use crate::domain::status::{InterruptStatus, Status};
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::{Fixture, StoppedClock, at};
use crate::store::query::AuditQuery;

#[tokio::test]
async fn it_is_as_late_as_the_store_says() {
    let clock = StoppedClock::new(at(0));
    assert!(WallClock.now() > at(1_000_000), "years ago");
    let world = World::new(Fixture::at_the_time_of(Arc::clone(&clock) as _), settings()).await;
    let order = world.begin().await;
    let batch = world.append(&order, vec![question(1, Some(60.0)), question(2, None), waiting(None, &[])]).await;
    let [expiring, lasting] = asked(batch.unwrap())[..] else { panic!() };
    world.until_status(order.session, Status::Interrupted).await;
    // By the clock of this machine it would have expired long ago.
    let seen = world.interrupt(expiring).await;
    assert_eq!((seen.status, seen.created_at), (InterruptStatus::Pending, at(0)));
    clock.set(at(60_000));
    let late = world.answer(order.session, expiring, json!(1)).await;
    assert!(matches!(late, Err(Error::InterruptExpired(_))), "{late:?}");
    assert_eq!(world.interrupt(expiring).await.status, InterruptStatus::Expired);
    world.answer(order.session, lasting, json!(2)).await.unwrap();
    assert_eq!(world.interrupt(lasting).await.resolved_at, Some(at(60_000)));
    world.end(&order).await.unwrap();
    world.engine.delete_session(order.session, Actor::anyone()).await.unwrap();
    let told = world.engine.audit(AuditQuery { limit: 100, ..AuditQuery::default() }).await.unwrap().items;
    assert!(told.iter().all(|row| row.at == at(0) || row.at == at(60_000)), "{told:?}");
}
