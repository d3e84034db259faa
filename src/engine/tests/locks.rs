//! What locks more than one thing does so in one order, whoever else is at it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::runtime::Builder;

use super::support::{PATIENCE, World, settings};
use crate::domain::TurnId;
use crate::engine::Engine;
use crate::engine::placement::live_turn::Pause;
use crate::engine::ports::held::{Held, Holder};
use crate::store::contract::fixture::Fixture;

/// How often the server is asked how it is. Each meets a pause with some likelihood; all of them together surely do.
const MAX_PRECHECKS: usize = 2_000;
const LOOKERS: usize = 4;

#[test]
fn a_look_at_the_servers_health_and_a_pause_do_not_wait_for_each_other() {
    let runtime = Builder::new_multi_thread().worker_threads(LOOKERS).enable_all().build().unwrap();
    let (world, order) = runtime.block_on(async {
        let world = World::new(Fixture::memory(), settings()).await;
        let order = world.begin().await;
        (world, order)
    });
    let over = Arc::new(AtomicBool::new(false));
    // A turn that pauses and goes on as fast as it can, and is held in between.
    let pausing = thread::spawn({
        let (engine, over) = (Arc::clone(&world.engine), Arc::clone(&over));
        let runtime = runtime.handle().clone();
        move || {
            let _entered = runtime.enter();
            while !over.load(Ordering::Relaxed) {
                pause_and_go_on(&engine, order.turn, order.epoch);
            }
        }
    });
    let (looked, looks) = mpsc::channel();
    for _ in 0..LOOKERS {
        let (engine, looked) = (Arc::clone(&world.engine), looked.clone());
        runtime.spawn(async move {
            for _ in 0..MAX_PRECHECKS {
                let health = engine.health().await.unwrap();
                assert!(health.running_workers <= 1, "{health:?}");
            }
            looked.send(()).unwrap();
        });
    }
    let all_looked = (0..LOOKERS).all(|_| looks.recv_timeout(PATIENCE).is_ok());
    // What waits for a lock cannot be told to stop, and is not waited for.
    runtime.shutdown_background();
    assert!(all_looked, "a look at the health of the server does not come to its end");
    over.store(true, Ordering::Relaxed);
    pausing.join().unwrap();
}

fn pause_and_go_on(engine: &Arc<Engine>, turn: TurnId, epoch: u64) {
    let by = vec![Holder { what: "raw I/O".to_owned(), location: None }];
    engine.placement.hold(turn, epoch, Held { by, at_work: true, replay: false });
    engine.placement.pause(turn, epoch, Pause { index: 1, wake_at: None, can_be_parked: false });
    engine.placement.go_on(turn, epoch);
}
