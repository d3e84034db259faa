//! What happens at the same moment has one outcome, and nothing is lost or given twice.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::support::{World, ahead, asked, question, settings, waiting};
use crate::domain::Error;
use crate::domain::access::Actor;
use crate::domain::scope::Scopes;
use crate::domain::status::{InterruptStatus, Status};
use crate::engine::settings::Settings;
use crate::engine::telling::view::Answer;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::Fixture;

const ROUNDS: usize = 100;

/// A worker that carries a turn to its end over as many parkings as it takes: what it was told, each index once.
async fn carry(world: Arc<World>, session: crate::domain::SessionId, questions: usize) {
    loop {
        let order = world.order_of(session).await;
        let mut seen: Vec<u64> = (0..order.journal.len() as u64).collect();
        let mut answered = order.journal.iter().filter(|recorded| json!(recorded)["entry"] == "answer").count();
        while answered < questions {
            let last = seen.last().copied();
            match world.append(&order, vec![waiting(last, &[])]).await {
                // Its own pause is seen, where there is one.
                Ok(_) => {}
                Err(Error::TurnNotOpen(_) | Error::StaleEpoch) => {
                    take_parking(&world, order.turn).await;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
            let next = world.hands.until("an answer or a parking", |told| {
                // First, for what is delivered after it is for the next worker.
                if let Some(place) = told.parked.iter().position(|turn| *turn == order.turn) {
                    told.parked.remove(place);
                    return Some(None);
                }
                let is_ours = |(turn, _): &(_, _)| *turn == order.turn;
                let place = told.deliveries.iter().position(is_ours)?;
                Some(Some(told.deliveries.remove(place).1.index()))
            });
            let Some(index) = next.await else { break };
            assert!(seen.last().is_none_or(|last| *last < index), "{index} after {seen:?}");
            seen.push(index);
            answered += 1;
        }
        if answered == questions {
            world.end(&order).await.unwrap();
            return;
        }
    }
}

/// Waits until the worker was told to drop the turn; each of its workers is told once.
async fn take_parking(world: &World, turn: crate::domain::TurnId) {
    let take = |told: &mut super::support::Told| {
        let place = told.parked.iter().position(|parked| *parked == turn)?;
        Some(told.parked.remove(place))
    };
    world.hands.until("parking", take).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_against_parking_are_neither_lost_nor_given_twice() {
    for fixture in [Fixture::memory(), Fixture::sqlite()] {
        let racing = Settings { park_after: 0.0005, workers: 3, ..settings() };
        let world = Arc::new(World::new(fixture, racing).await);
        let sessions = (0..ROUNDS).map(|round| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let session = world.session().await;
                world.send(session).await.unwrap();
                let order = world.order_of(session).await;
                let records = (0..4).map(|number| question(number, None)).chain([waiting(None, &[])]).collect();
                let interrupts = asked(world.append(&order, records).await.unwrap());
                // The first incarnation does nothing but be parked, so that all answers race with parking.
                let carried = tokio::spawn(carry(Arc::clone(&world), session, 4));
                take_parking(&world, order.turn).await;
                let answers = interrupts.iter().enumerate().map(|(number, interrupt)| {
                    let world = &world;
                    async move {
                        tokio::time::sleep(Duration::from_micros(((round * 7 + number * 400) % 2500) as u64)).await;
                        world.answer(session, *interrupt, json!(number)).await.unwrap();
                    }
                });
                join_all(answers).await;
                carried.await.unwrap();
                assert_eq!(world.status(session).await, Status::Idle);
            })
        });
        for session in sessions.collect::<Vec<_>>() {
            session.await.unwrap();
        }
        let health = world.engine.health().await.unwrap();
        assert_eq!((health.running_workers, health.queued), (0, 0));
        assert_eq!(world.engine.placement.count(), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_at_the_moment_of_expiry_has_one_winner() {
    for fixture in [Fixture::memory(), Fixture::sqlite()] {
        let world = Arc::new(World::new(fixture, Settings { workers: ROUNDS, max_warm: ROUNDS, ..settings() }).await);
        let rounds = (0..ROUNDS).map(|round| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let order = world.begin().await;
                let records = vec![question(0, Some(0.03)), waiting(None, &[])];
                let interrupt = asked(world.append(&order, records).await.unwrap())[0];
                let due = world.interrupt(interrupt).await.expires_at.unwrap();
                // Within a millisecond of it.
                let early = Duration::from_micros((round % 10 * 200) as u64);
                tokio::time::sleep((due.since(WallClock.now()) + Duration::from_millis(1)).saturating_sub(early)).await;
                let answered = world.answer(order.session, interrupt, json!(1)).await;
                world.delivery(order.turn).await;
                let (status, entry) = match answered {
                    Ok(_) => (InterruptStatus::Resolved, "answer"),
                    Err(Error::InterruptExpired(_)) => (InterruptStatus::Expired, "expire"),
                    Err(other) => panic!("{other}"),
                };
                assert_eq!(world.interrupt(interrupt).await.status, status);
                assert_eq!(world.kinds(order.turn).await, format!("start ask pause {entry}"));
                assert!(world.hands.look(|told| !told.deliveries.iter().any(|(turn, _)| *turn == order.turn)));
            })
        });
        for round in rounds.collect::<Vec<_>>() {
            round.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_parked_turn_that_is_answered_as_its_timer_fires_starts_once() {
    for fixture in [Fixture::memory(), Fixture::sqlite()] {
        let parking = Settings { park_after: 0.0, workers: ROUNDS, ..settings() };
        let world = Arc::new(World::new(fixture, parking).await);
        let rounds = (0..ROUNDS).map(|round| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let first = world.begin().await;
                let due = ahead(20);
                let records = vec![question(0, None), waiting(None, &[("t", due)])];
                let interrupt = asked(world.append(&first, records).await.unwrap())[0];
                tokio::time::sleep(due.since(WallClock.now()) + Duration::from_micros((round % 10 * 200) as u64)).await;
                world.answer(first.session, interrupt, json!(1)).await.unwrap();
                let order = world.order_of(first.session).await;
                world.end(&order).await.unwrap();
                let again = world.hands.look(|told| told.orders.iter().any(|order| order.turn == first.turn));
                assert!(!again);
                let kinds = world.kinds(first.turn).await;
                let both = ["start ask pause timer answer end", "start ask pause answer end"];
                assert!(both.contains(&kinds.as_str()), "{kinds}");
            })
        });
        for round in rounds.collect::<Vec<_>>() {
            round.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_hundred_different_answers_at_once_one_wins_and_is_named() {
    const AT_ONCE: usize = 100;
    for (fixture, rounds) in [(Fixture::memory(), 50), (Fixture::sqlite(), 10)] {
        let world = Arc::new(World::new(fixture, Settings { park_after: 0.0, ..settings() }).await);
        for round in 0..rounds {
            // In memory, and parked.
            let (order, interrupt) = {
                let order = world.begin().await;
                let parks = if round % 2 == 0 { vec![waiting(None, &[])] } else { Vec::new() };
                let records = [question(0, None)].into_iter().chain(parks).collect();
                let interrupt = asked(world.append(&order, records).await.unwrap())[0];
                (order, interrupt)
            };
            let answers = (0..AT_ONCE).map(|number| {
                let (world, session) = (Arc::clone(&world), order.session);
                tokio::spawn(async move {
                    let answer = Answer {
                        interrupt_id: interrupt.to_string(),
                        value: json!(number),
                        place: Vec::new(),
                        said: None,
                        expected_type: None,
                    };
                    (
                        number,
                        world
                            .engine
                            .resume(
                                session,
                                vec![answer],
                                Actor::named(&format!("key {number}"), Scopes::ALL, &[]),
                                None,
                            )
                            .await,
                    )
                })
            });
            let outcomes = join_all(answers).await.into_iter().map(Result::unwrap);
            let (won, lost): (Vec<_>, Vec<_>) = outcomes.partition(|(_, outcome)| outcome.is_ok());
            let [(winner, _)] = won.as_slice() else { panic!("{won:?}") };
            assert_eq!(lost.len(), AT_ONCE - 1);
            for (_, outcome) in lost {
                let Err(Error::AlreadyResolved { resolved_by, .. }) = outcome else { panic!("{outcome:?}") };
                assert_eq!(resolved_by, Some(format!("key {winner}")));
            }
            assert_eq!(world.interrupt(interrupt).await.value, Some(json!(winner)));
            let order = if round % 2 == 0 { world.order_of(order.session).await } else { order };
            world.end(&order).await.unwrap();
        }
    }
}
