//! Workers that were given up and are not dead: with a real engine and store, what they write changes nothing.

use std::sync::Arc;
use std::time::Duration;

use hitl::adapters::webhooks::Webhooks;
use hitl::domain::access::Actor;
use hitl::domain::journal::{Entry, StepResult};
use hitl::domain::message::ChatMessage;
use hitl::domain::{SessionId, TurnId};
use hitl::engine::Engine;
use hitl::engine::settings::Settings;
use hitl::engine::telling::view::NewSession;
use hitl::store::contract::fixture::open_at_once;
use hitl::store::{Store, StoreExt};
use hitl::supervisor::Supervisor;
use hitl::supervisor::settings::SupervisorSettings;

use super::support::{captured_log, exists, scripted, signal, within};

const TOGETHER: usize = 50;
const ROUNDS: usize = 4;

struct Server {
    engine: Arc<Engine>,
    store: Arc<dyn Store>,
    supervisor: Arc<Supervisor>,
}

impl Server {
    async fn start(address: &str) -> Self {
        captured_log();
        let timeouts = SupervisorSettings { worker_timeout: Duration::from_secs(2), spare_silent: true, ..scripted() };
        let supervisor = within(Supervisor::start(timeouts)).await.unwrap();
        let store = open_at_once(address).await.unwrap();
        let settings = Settings { workers: 2 * TOGETHER, ..Settings::default() };
        let engine = Engine::start(settings.clone(), Arc::clone(&store), Arc::new(Webhooks::new(&settings).unwrap()))
            .await
            .unwrap();
        supervisor.attach(&engine);
        engine.attach(Arc::new(Arc::clone(&supervisor))).await.unwrap();
        Self { engine, store, supervisor }
    }

    /// Starts a turn of a new session: the turn, too.
    async fn turn(&self) -> (SessionId, TurnId) {
        let session =
            self.engine.create_session(NewSession::default(), None, &Actor::anyone()).await.unwrap().session.id;
        let message = ChatMessage { content: Some("zombie".to_owned()), ..ChatMessage::default() };
        self.engine.send_message(session, message, None, None, None, &Actor::anyone()).await.unwrap();
        (session, self.engine.session(session).await.unwrap().session.turn().unwrap())
    }

    /// The processes that have written steps of a turn, in order.
    async fn writers(&self, turn: TurnId) -> Vec<String> {
        let journal = self.store.query(move |reader| reader.journal(turn)).await.unwrap();
        let steps = journal.into_iter().filter_map(|recorded| match recorded.entry {
            Entry::Step { result: StepResult::Value(pid), .. } => Some(pid.as_str().unwrap().to_owned()),
            _ => None,
        });
        steps.collect()
    }

    /// Waits until a turn has so many steps: who has written them.
    async fn written(&self, turn: TurnId, steps: usize) -> Vec<String> {
        within(async {
            loop {
                let writers = self.writers(turn).await;
                if writers.len() >= steps {
                    return writers;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
    }
}

#[tokio::test]
async fn two_hundred_zombies_write_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().join("store.db").to_str().unwrap()).await;
    for _ in 0..ROUNDS {
        let mut turns = Vec::new();
        for _ in 0..TOGETHER {
            let (session, turn) = server.turn().await;
            let zombie = server.written(turn, 1).await.remove(0);
            signal("-STOP", &zombie);
            turns.push((session, turn, zombie));
        }
        for (_, turn, zombie) in &turns {
            let writers = server.written(*turn, 2).await;
            assert_ne!(&writers[1], zombie, "the turn was not taken over");
        }
        for (.., zombie) in &turns {
            signal("-CONT", zombie);
        }
        for (session, turn, zombie) in turns {
            // It writes a step for each ping that it has slept through, and is killed for the first.
            super::support::until("the end of the zombie", || !exists(&zombie)).await;
            let writers = server.writers(turn).await;
            assert_eq!(writers.iter().filter(|writer| **writer == zombie).count(), 1, "{writers:?}");
            server.engine.cancel(session, Actor::anyone()).await.unwrap();
        }
    }
    server.engine.shut_down(Duration::ZERO).await.unwrap();
    within(server.supervisor.shutdown(Duration::ZERO)).await;
}
