//! What turns say, into their journals.

use serde_json::json;

use super::support::{World, ahead, asked, question, settings, step, waiting};
use crate::domain::Error;
use crate::domain::journal::{Entry, Wake};
use crate::domain::status::Status;
use crate::engine::ports::dispatch::{Delivery, Record};
use crate::store::about::About;
use crate::store::contract::fixture::{Fixture, me};

crate::store::contract::for_each_store!(
    a_batch_is_appended_in_its_order,
    a_refused_ask_does_not_keep_the_rest_from_being_stored,
    a_pause_that_an_answer_has_overtaken_is_none,
    what_came_with_the_order_is_seen,
    an_answer_ends_the_pause,
    order_marks_say_where_the_turn_was_impure,
    withdrawing_one_of_two_leaves_the_other_asked,
    a_turn_that_goes_on_by_itself_is_at_work_again,
    nothing_is_appended_under_another_epoch,
);

async fn a_batch_is_appended_in_its_order(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let due = ahead(60_000);
    let batch = vec![
        step("a"),
        Record::Timer { path: "t".to_owned(), due },
        question(0, None),
        question(1, None),
        waiting(Some(0), &[("u", due)]),
    ];
    let batch = world.append(&order, batch).await.unwrap();
    let places: Vec<_> = batch.iter().map(|outcome| outcome.clone().unwrap().map(|appended| appended.index)).collect();
    assert_eq!(places, [Some(1), Some(2), Some(3), Some(4), None]);
    assert_eq!(world.kinds(order.turn).await, "start step timer ask ask pause");
    assert_eq!(world.state(order.session).await.pending(), asked(batch));
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
}

async fn a_refused_ask_does_not_keep_the_rest_from_being_stored(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let batch = world.append(&order, vec![step("a"), question(0, Some(-1.0)), step("b")]).await.unwrap();
    assert!(matches!(batch.as_slice(), [Ok(Some(_)), Err(Error::InvalidPayload(_)), Ok(Some(_))]), "{batch:?}");
    assert_eq!(world.kinds(order.turn).await, "start step step");
    assert_eq!(world.status(order.session).await, Status::Running);
}

async fn a_pause_that_an_answer_has_overtaken_is_none(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let interrupts = asked(world.append(&order, vec![question(0, None), question(1, None)]).await.unwrap());
    world.answer(order.session, interrupts[0], json!(1)).await.unwrap();
    world.append(&order, vec![waiting(Some(2), &[])]).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask ask answer");
    assert_eq!(world.engine.health().await.unwrap().running_workers, 1);
    world.append(&order, vec![waiting(Some(3), &[])]).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask ask answer pause");
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
}

async fn what_came_with_the_order_is_seen(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (order, interrupts) = world.asking(2).await;
    world.answer(order.session, interrupts[0], json!(1)).await.unwrap();
    let world = world.crash().await;
    let order = world.order().await;
    world.append(&order, vec![waiting(None, &[])]).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask ask pause answer pause");
}

async fn an_answer_ends_the_pause(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (order, interrupts) = world.asking(1).await;
    world.answer(order.session, interrupts[0], json!("yes")).await.unwrap();
    let delivery = world.delivery(order.turn).await;
    assert!(
        matches!(&delivery, Delivery::Answer { index: 3, interrupt, value, .. }
            if *interrupt == interrupts[0] && *value == json!("yes")),
        "{delivery:?}"
    );
    assert_eq!(world.kinds(order.turn).await, "start ask pause answer");
    assert_eq!(world.engine.health().await.unwrap().running_workers, 1);
}

async fn order_marks_say_where_the_turn_was_impure(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let wake = |location: &str| Wake { after: 0, task: "0.1".to_owned(), location: Some(location.to_owned()) };
    let inside = Wake { after: 0, task: "0#1/0".to_owned(), location: Some("a step may".to_owned()) };
    let batch = vec![Record::Wakes(vec![inside, wake("a.py:1"), wake("a.py:2")]), Record::Wakes(vec![wake("a.py:3")])];
    assert_eq!(world.append(&order, batch).await, Ok(vec![Ok(None), Ok(None)]));
    let notes = world.engine.session(order.session).await.unwrap().replay.unwrap();
    assert_eq!(notes.impure_at.as_deref(), Some("a.py:1"));
    world.engine.turn_replayed(order.turn, order.epoch, vec!["a prompt differs".to_owned()]).await.unwrap();
    let notes = world.engine.session(order.session).await.unwrap().replay.unwrap();
    assert_eq!(notes.warnings, ["a prompt differs"]);
}

async fn withdrawing_one_of_two_leaves_the_other_asked(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (order, interrupts) = world.asking(2).await;
    let withdraw = vec![Record::Withdraw { interrupt: interrupts[0] }, waiting(Some(4), &[])];
    world.append(&order, withdraw).await.unwrap();
    assert_eq!(world.kinds(order.turn).await, "start ask ask pause withdraw pause");
    assert_eq!(world.state(order.session).await.pending(), [interrupts[1]]);
    let again = world.append(&order, vec![Record::Withdraw { interrupt: interrupts[0] }]).await;
    assert_eq!(again, Ok(vec![Ok(None)]), "it is settled already");
}

async fn a_turn_that_goes_on_by_itself_is_at_work_again(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let due = ahead(60_000);
    world.append(&order, vec![waiting(None, &[("t", due)])]).await.unwrap();
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
    world.append(&order, vec![Record::Timer { path: "t".to_owned(), due }]).await.unwrap();
    assert_eq!(world.engine.health().await.unwrap().running_workers, 1);
    assert!(matches!(world.journal(order.turn).await.last(), Some(Entry::Timer { .. })));
}

async fn nothing_is_appended_under_another_epoch(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let order = world.begin().await;
    let turn = order.turn;
    let newer = world.store.query(move |reader| reader.life(turn)).await.unwrap().unwrap().epoch;
    assert_eq!(newer, order.epoch);
    assert_eq!(world.engine.turn_append(turn, order.epoch + 1, vec![step("a")]).await, Err(Error::TurnNotOpen(None)));
    assert_eq!(world.engine.turn_replayed(turn, order.epoch + 1, Vec::new()).await, Err(Error::TurnNotOpen(None)));
    use crate::store::StoreExt;
    world.store.transact(About::Turn(turn), move |tx| tx.claim_turn(turn, me(), 0)).await.unwrap();
    assert_eq!(world.step(&order, "a").await, Err(Error::StaleEpoch));
    assert_eq!(world.end(&order).await, Err(Error::StaleEpoch));
    assert_eq!(world.kinds(turn).await, "start");
}
