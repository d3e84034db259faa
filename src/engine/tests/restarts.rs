//! What a server finds that starts on the store of one that died.

use serde_json::json;

use super::support::{World, asked, journal_of, question, runtime, settings, step, waiting};
use crate::domain::Error;
use crate::domain::access::Actor;
use crate::domain::session::Phase;
use crate::domain::status::Status;
use crate::engine::ports::dispatch::Runtime;
use crate::engine::settings::Settings;
use crate::store::about::About;
use crate::store::contract::fixture::Fixture;

crate::store::contract::for_each_store!(
    a_running_turn_goes_on_from_its_journal,
    a_queued_turn_is_started,
    a_paused_turn_is_answerable_without_being_started,
    an_interrupted_turn_at_work_is_taken_up_again,
    a_parked_turn_is_left_alone,
    an_acknowledged_answer_is_not_lost_with_the_server,
    recovered_turns_go_oldest_first_and_before_new_ones,
    a_turn_under_which_server_after_server_is_killed_is_suspended,
    servers_that_are_killed_under_a_turn_which_comes_further_are_not_counted,
    turns_that_wait_for_a_slot_are_not_counted_with_servers_that_are_killed,
    turns_that_cannot_be_replayed_fail,
    a_parked_turn_of_an_agent_that_cannot_be_replayed_any_more_fails_when_it_is_answered,
    a_settled_turn_stays_settled,
    the_time_at_work_is_counted_over_parkings,
    a_turn_whose_time_is_over_ends_soon_after_it_is_woken,
);

async fn a_running_turn_goes_on_from_its_journal(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = world.begin().await;
    world.step(&first, "a").await.unwrap();
    let world = world.crash().await;
    let order = world.order().await;
    assert_eq!((order.turn, journal_of(&order).as_str()), (first.turn, "start step"));
    assert!(order.epoch > first.epoch);
    assert_eq!(world.step(&first, "late").await, Err(Error::TurnNotOpen(None)));
    world.end(&order).await.unwrap();
    assert_eq!(world.status(first.session).await, Status::Idle);
}

async fn a_queued_turn_is_started(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 1, ..settings() }).await;
    let running = world.begin().await;
    let queued = world.session().await;
    world.send(queued).await.unwrap();
    let world = world.crash().await;
    let first = world.order().await;
    assert_eq!(first.turn, running.turn);
    world.end(&first).await.unwrap();
    let second = world.order().await;
    assert_eq!((second.session, journal_of(&second).as_str()), (queued, "start"));
}

async fn a_paused_turn_is_answerable_without_being_started(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let (first, interrupts) = world.asking(2).await;
    let world = world.crash().await;
    assert!(world.turn(first.turn).await.life.is_parked());
    assert_eq!(world.status(first.session).await, Status::Interrupted);
    assert!(world.hands.look(|told| told.orders.is_empty()));
    world.answer(first.session, interrupts[1], json!(1)).await.unwrap();
    assert_eq!(journal_of(&world.order().await), "start ask ask pause answer");
    assert_eq!(world.status(first.session).await, Status::Interrupted);
}

async fn an_interrupted_turn_at_work_is_taken_up_again(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let first = world.begin().await;
    let interrupts = asked(world.append(&first, vec![question(0, None), step("beside it")]).await.unwrap());
    let world = world.crash().await;
    let order = world.order().await;
    assert_eq!((order.turn, journal_of(&order).as_str()), (first.turn, "start ask step"));
    assert_eq!(world.status(first.session).await, Status::Interrupted);
    world.answer(first.session, interrupts[0], json!(1)).await.unwrap();
    assert_eq!(world.delivery(first.turn).await.index(), 3);
}

async fn a_parked_turn_is_left_alone(fixture: Fixture) {
    let world = World::new(fixture, Settings { park_after: 0.0, ..settings() }).await;
    let (first, _) = world.asking(1).await;
    let before = world.turn(first.turn).await;
    let world = world.crash().await;
    assert_eq!(world.turn(first.turn).await, before);
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

async fn an_acknowledged_answer_is_not_lost_with_the_server(fixture: Fixture) {
    let world = World::new(fixture, Settings { park_after: 0.0, workers: 1, ..settings() }).await;
    let (asking, interrupts) = world.asking(1).await;
    // The only place is taken: the answered turn waits for it when the server dies.
    let working = world.begin().await;
    world.answer(asking.session, interrupts[0], json!(1)).await.unwrap();
    let world = world.crash().await;
    let first = world.order().await;
    world.end(&first).await.unwrap();
    let second = world.order().await;
    let mut turns = [first.turn, second.turn];
    turns.sort();
    assert_eq!(turns, [asking.turn, working.turn], "oldest first");
    world.end(&second).await.unwrap();
    assert_eq!(world.status(asking.session).await, Status::Idle);
}

async fn recovered_turns_go_oldest_first_and_before_new_ones(fixture: Fixture) {
    let world = World::new(fixture, Settings { workers: 4, ..settings() }).await;
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(world.begin().await.turn);
    }
    let world = world.crash_into(Settings { workers: 1, ..settings() }, runtime()).await;
    let new = world.session().await;
    world.send(new).await.unwrap();
    let health = world.engine.health().await.unwrap();
    assert_eq!((health.running_workers, health.queued), (1, 3), "bounded by --workers");
    for turn in running {
        let order = world.order().await;
        assert_eq!(order.turn, turn);
        world.end(&order).await.unwrap();
    }
    assert_eq!(world.order().await.session, new);
}

async fn a_turn_under_which_server_after_server_is_killed_is_suspended(fixture: Fixture) {
    let mut world = World::new(fixture, Settings { max_recoveries: 2, ..settings() }).await;
    let first = world.begin().await;
    world.step(&first, "a").await.unwrap();
    // With the first it has come further.
    for killed in 0..3 {
        world = world.crash().await;
        assert_eq!(world.order().await.alone, killed > 0);
        assert_eq!(world.turn(first.turn).await.life.recoveries, killed);
    }
    let world = world.crash().await;
    world.until_status(first.session, Status::Error).await;
    let Phase::Error { failure, retry: Some(retry) } = world.state(first.session).await.phase else { panic!() };
    assert_eq!((failure.code.as_str(), retry.turn), ("worker_exited", first.turn));
    assert_eq!(failure.message, "The server that had this turn at work ended without a word, time and again");
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
    // The next server leaves it alone, and a retry begins the count anew.
    let world = world.crash().await;
    assert_eq!(world.status(first.session).await, Status::Error);
    world.engine.retry(first.session, Actor::anyone()).await.unwrap();
    assert_eq!(journal_of(&world.order().await), "start step");
    assert_eq!(world.turn(first.turn).await.life.recoveries, 0);
}

async fn servers_that_are_killed_under_a_turn_which_comes_further_are_not_counted(fixture: Fixture) {
    let mut world = World::new(fixture, Settings { max_recoveries: 0, ..settings() }).await;
    let mut order = world.begin().await;
    for name in ["a", "b", "c"] {
        world.step(&order, name).await.unwrap();
        world = world.crash().await;
        order = world.order().await;
    }
    assert_eq!(journal_of(&order), "start step step step");
    assert_eq!((order.alone, world.turn(order.turn).await.life.recoveries), (false, 0));
}

async fn turns_that_wait_for_a_slot_are_not_counted_with_servers_that_are_killed(fixture: Fixture) {
    let of_one = || Settings { workers: 1, max_recoveries: 1, ..settings() };
    let mut world = World::new(fixture, of_one()).await;
    let killer = world.begin().await;
    let queued = world.session().await;
    world.send(queued).await.unwrap();
    for _ in 0..2 {
        world = world.crash_into(of_one(), runtime()).await;
        assert_eq!(world.order().await.turn, killer.turn);
    }
    let world = world.crash_into(of_one(), runtime()).await;
    world.until_status(killer.session, Status::Error).await;
    let order = world.order().await;
    assert_eq!((order.session, journal_of(&order).as_str()), (queued, "start"));
    assert_eq!(world.turn(order.turn).await.life.recoveries, 0);
}

async fn turns_that_cannot_be_replayed_fail(fixture: Fixture) {
    let runtime = Runtime { replay: false, ..runtime() };
    let world = World::on(fixture, settings(), runtime.clone()).await;
    let (asking, _) = world.asking(1).await;
    let running = world.begin().await;
    let world = world.crash_into(settings(), runtime).await;
    for session in [asking.session, running.session] {
        let Phase::Error { failure, retry: None } = world.state(session).await.phase else { panic!() };
        assert_eq!(failure.code, "not_replayable");
    }
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

async fn a_parked_turn_of_an_agent_that_cannot_be_replayed_any_more_fails_when_it_is_answered(fixture: Fixture) {
    let world = World::new(fixture, Settings { park_after: 0.0, ..settings() }).await;
    let (asking, interrupts) = world.asking(1).await;
    let world = world.crash_into(settings(), Runtime { replay: false, ..runtime() }).await;
    world.answer(asking.session, interrupts[0], json!(1)).await.unwrap();
    let failed = world.until_status(asking.session, Status::Error).await;
    assert!(matches!(failed.phase, Phase::Error { failure, retry: None } if failure.code == "not_replayable"));
    assert!(world.hands.look(|told| told.orders.is_empty()));
    let next = world.begin().await;
    world.end(&next).await.unwrap();
    assert_eq!(world.engine.health().await.unwrap().running_workers, 0);
}

async fn a_settled_turn_stays_settled(fixture: Fixture) {
    let world = World::new(fixture, settings()).await;
    let done = world.begin().await;
    world.end(&done).await.unwrap();
    let cancelled = world.begin().await;
    world.engine.cancel(cancelled.session, Actor::anyone()).await.unwrap();
    let world = world.crash().await;
    assert_eq!(world.status(done.session).await, Status::Idle);
    assert_eq!(world.status(cancelled.session).await, Status::Error);
    assert!(world.hands.look(|told| told.orders.is_empty()));
}

async fn the_time_at_work_is_counted_over_parkings(fixture: Fixture) {
    let world = World::new(fixture, Settings { park_after: 0.0, timeout: 1000.0, ..settings() }).await;
    let first = world.begin().await;
    let begun = std::time::Instant::now();
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    let batch = world.append(&first, vec![question(0, None), waiting(None, &[])]).await.unwrap();
    let longest = begun.elapsed().as_millis() as u64 + 5;
    let worked = world.turn(first.turn).await.life.worked_ms;
    assert!((30..=longest + 1000).contains(&worked), "{worked}");
    let interrupt = asked(batch)[0];
    let world = world.crash().await;
    world.answer(first.session, interrupt, json!(1)).await.unwrap();
    let order = world.order().await;
    let standing = world.engine.placement.standing(order.turn, order.epoch).unwrap();
    assert!(standing.worked_ms() >= worked, "{standing:?}");
}

async fn a_turn_whose_time_is_over_ends_soon_after_it_is_woken(fixture: Fixture) {
    use crate::store::StoreExt;
    let limited = Settings { timeout: 1000.0, ..settings() };
    let world = World::new(fixture, limited).await;
    let (first, interrupts) = world.asking(1).await;
    let (turn, epoch) = (first.turn, first.epoch);
    world.store.transact(About::Turn(turn), move |tx| tx.park_turn(turn, epoch, None, 1_000_000)).await.unwrap();
    let world = world.crash().await;
    world.answer(first.session, interrupts[0], json!(1)).await.unwrap();
    let failed = world.until_status(first.session, Status::Error).await;
    assert!(matches!(failed.phase, Phase::Error { failure, .. } if failure.message == "Agent timed out"));
    world.hands.until("the stop", |told| told.stopped.iter().any(|(stopped, _)| *stopped == turn).then_some(())).await;
}
