//! What befalls a world: clients who want things of whichever server, and what goes wrong with servers; then everything
//! heals, and the world comes to rest.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::log::{Line, Log, ToldClient};
use super::machine::TrueClock;
use super::server::Server;
use super::worker::LONG;
use super::{Outcome, Setting, entropy};
use crate::domain::access::Actor;
use crate::domain::cluster::Moment;
use crate::domain::interrupt::Interrupt;
use crate::domain::scope::Scopes;
use crate::domain::seeds::{self, Random};
use crate::domain::status::{NoticeStatus, Status};
use crate::domain::turn::TurnState;
use crate::domain::{Error, InterruptId, SessionId};
use crate::engine::telling::view::{Answer, IdempotencyKey, NewSession};
use crate::engine::tests::support::message;
use crate::store::simulated::SimulatedDatabase;
use crate::store::simulated::network::{LinkState, Weather};

/// How often something happens while nothing has healed yet.
const DEEDS: u64 = 60;
/// How long a client waits for a reply.
const CLIENTS_PATIENCE: Duration = Duration::from_secs(10);
/// How long the world may take to come to rest: a lease of a webhook, a takeover, and what turns do.
const REST: Duration = Duration::from_secs(900);

pub struct World {
    pub database: SimulatedDatabase,
    pub log: Arc<Log>,
    setting: Setting,
    seed: u64,
    places: Vec<Mutex<Option<Arc<Server>>>>,
    is_healed: Mutex<bool>,
    lives: Mutex<usize>,
    /// Each life with its name and the moments at which it was stopped or killed, or cut off.
    troubles: Mutex<Vec<(usize, Moment)>>,
    names: Mutex<Vec<(usize, crate::store::shared::servers::ServerId)>>,
}

impl World {
    /// Runs the world of a seed.
    pub async fn run(seed: u64, setting: Setting) -> Outcome {
        let mut random = Random(!seed);
        let database = SimulatedDatabase::new(Arc::new(TrueClock)).without(setting.left_out);
        let servers = random.within(2..5);
        let world = Arc::new(Self {
            database,
            log: Arc::default(),
            setting,
            seed,
            places: (0..servers).map(|_| Mutex::default()).collect(),
            is_healed: Mutex::default(),
            lives: Mutex::default(),
            troubles: Mutex::default(),
            names: Mutex::default(),
        });
        for place in 0..world.places.len() {
            tokio::spawn(Arc::clone(&world).keep_running(place, Random(random.draw())));
        }
        sleep(Duration::from_secs(2)).await;
        let mut sessions = Vec::new();
        for number in 0..DEEDS {
            sleep(Duration::from_millis(random.within(0..1000))).await;
            world.deed(number, &mut sessions, &mut random);
        }
        let rested = world.heal(&mut random).await;
        let history = world.database.history();
        let lines = world.log.take();
        let troubles = world.troubles.lock().unwrap().clone();
        let names = world.names.lock().unwrap().clone();
        for place in &world.places {
            if let Some(server) = place.lock().unwrap().take() {
                server.kill();
            }
        }
        let (buried, committed) = (world.database.buried(), world.database.committed());
        let ahead = world.database.ahead();
        Outcome { lines, history, rested, troubles, names, buried, committed, ahead, panics: entropy::panics() }
    }

    fn weather(&self) -> Weather {
        if *self.is_healed.lock().unwrap() {
            Weather { slow: 2, slow_ms: 4, ..Weather::default() }
        } else {
            self.setting.weather
        }
    }

    /// A server stands in each place; where its process is over, another one comes.
    async fn keep_running(self: Arc<Self>, place: usize, mut random: Random) {
        loop {
            let life = {
                let mut lives = self.lives.lock().unwrap();
                *lives += 1;
                *lives
            };
            let weather = (self.setting, self.weather());
            let log = Arc::clone(&self.log);
            let server = Server::start(self.database.clone(), weather, log, life, random.draw()).await;
            self.log.note(Line::Fault(life, "starts"));
            self.names.lock().unwrap().push((life, server.id));
            server.link.calm(self.weather());
            *self.places[place].lock().unwrap() = Some(Arc::clone(&server));
            server.over.cancelled().await;
            self.trouble(life, "is over");
            sleep(Duration::from_millis(random.within(0..15_000))).await;
        }
    }

    fn trouble(&self, life: usize, what: &'static str) {
        self.log.note(Line::Fault(life, what));
        self.troubles.lock().unwrap().push((life, seeds::moment().unwrap_or_default()));
    }

    fn text(&self, number: u64) -> String {
        let kind = if self.setting.is_long { LONG } else { "message" };
        format!("{kind} {number} of {}", self.seed)
    }

    fn any(&self, random: &mut Random) -> Option<Arc<Server>> {
        let place = random.within(0..self.places.len() as u64);
        self.places[usize::try_from(place).unwrap()].lock().unwrap().clone()
    }

    /// Something happens.
    fn deed(self: &Arc<Self>, number: u64, sessions: &mut Vec<SessionId>, random: &mut Random) {
        let Some(server) = self.any(random) else { return };
        let some = |random: &mut Random| {
            let place = random.within(0..sessions.len().max(1) as u64);
            sessions.get(usize::try_from(place).unwrap()).copied()
        };
        let kind = if sessions.len() < 4 { 0 } else { random.within(0..100) };
        match kind {
            0..8 if sessions.len() < 7 => {
                let id = SessionId(Uuid::from_u128((u128::from(self.seed) << 64) | (u128::from(number) + 1)));
                sessions.push(id);
                self.client(server, move |server| async move {
                    let made = server.engine.create_session_with_id(&id.to_string(), NewSession::default()).await;
                    (made.map(drop), Box::new(move |told| Line::Created(id, told)) as Note)
                });
            }
            8..45 => {
                let Some(id) = some(random) else { return };
                let text = self.text(number);
                let again = if random.chance(30) { self.any(random) } else { None };
                for server in [Some(server), again].into_iter().flatten() {
                    let text = text.clone();
                    self.client(server, move |server| send(server, id, text));
                }
            }
            45..72 => {
                for (place, interrupt) in self.log.open().into_iter().enumerate() {
                    if place > 0 && random.chance(50) {
                        continue;
                    }
                    for client in 0..random.within(1..4) {
                        let Some(server) = self.any(random) else { continue };
                        let name = format!("client {number}.{client}");
                        self.client(server, move |server| answer(server, interrupt, name));
                    }
                }
            }
            72..75 => {
                let Some(id) = some(random) else { return };
                self.client(server, move |server| async move {
                    let cancelled = server.engine.cancel(id, Actor::anyone()).await;
                    (cancelled.map(drop), Box::new(move |told| Line::Cancelled(id, told)) as Note)
                });
            }
            75..77 => {
                let Some(id) = some(random) else { return };
                self.client(server, move |server| async move {
                    let deleted = server.engine.delete_session(id, Actor::anyone()).await;
                    (deleted, Box::new(move |told| Line::Deleted(id, told)) as Note)
                });
            }
            77..82 => {
                // Perhaps in the midst of something.
                if let Some(id) = some(random).filter(|_| random.chance(60)) {
                    let text = self.text(number);
                    self.client(Arc::clone(&server), move |server| send(server, id, text));
                }
                self.disturb(server, LinkState::Frozen, "is stopped", random);
            }
            82..87 => self.disturb(server, LinkState::Cut, "is cut off", random),
            87..91 => {
                self.trouble(server.life, "is killed");
                server.kill();
            }
            91..100 if self.setting.fails_over => {
                let (world, behind) = (Arc::clone(self), Duration::from_millis(random.within(1..2000)));
                tokio::spawn(async move {
                    let standby = world.database.standby();
                    sleep(behind).await;
                    world.log.note(Line::Fault(0, "fails over"));
                    world.database.fail_over(standby);
                });
            }
            _ => {}
        }
    }

    /// Something is wrong with a server for a while.
    fn disturb(self: &Arc<Self>, server: Arc<Server>, state: LinkState, what: &'static str, random: &mut Random) {
        let lasts = if random.chance(50) { random.within(200..6000) } else { random.within(12_000..26_000) };
        let (begins, lasts) = (Duration::from_millis(random.within(0..100)), Duration::from_millis(lasts));
        let world = Arc::clone(self);
        tokio::spawn(async move {
            sleep(begins).await;
            world.trouble(server.life, what);
            server.link.set(state);
            sleep(lasts).await;
            server.link.set(LinkState::Open);
            world.trouble(server.life, "goes on");
        });
    }

    /// A client wants something of a server, and is told, or hears nothing.
    fn client<F>(self: &Arc<Self>, server: Arc<Server>, want: impl FnOnce(Arc<Server>) -> F + Send + 'static)
    where
        F: Future<Output = (Result<(), Error>, Note)> + Send + 'static,
    {
        let log = Arc::clone(&self.log);
        tokio::spawn(async move {
            let link = Arc::clone(&server.link);
            let over = server.over.clone();
            let replied = async {
                link.goes_on().await;
                let (outcome, note) = want(server).await;
                link.goes_on().await;
                log.note(note(ToldClient::of(outcome)));
            };
            // Of whoever hears nothing, nothing is noted.
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                _ = timeout(CLIENTS_PATIENCE, replied) => {}
            }
        });
    }

    /// Everything goes on, and people answer nearly everything; whether the world comes to rest.
    async fn heal(self: &Arc<Self>, random: &mut Random) -> bool {
        // Until then what has begun to go wrong goes on doing so.
        sleep(Duration::from_secs(25)).await;
        *self.is_healed.lock().unwrap() = true;
        for place in &self.places {
            if let Some(server) = place.lock().unwrap().clone() {
                server.link.calm(self.weather());
                server.link.set(LinkState::Open);
            }
        }
        let until = seeds::moment().unwrap_or_default() + REST;
        while seeds::moment().unwrap_or_default() < until {
            sleep(Duration::from_secs(5)).await;
            let Ok(history) = self.database.history() else { return false };
            let waits = |it: &&Interrupt| it.is_pending() && !stays_open(it);
            for interrupt in history.interrupts.iter().filter(waits).map(|it| it.interrupt_id) {
                let Some(server) = self.any(random) else { continue };
                let name = format!("late client {}", random.draw());
                self.client(server, move |server| answer(server, interrupt, name));
            }
            if is_at_rest(&history)
                && self.places.iter().all(|place| place.lock().unwrap().as_ref().is_some_and(|it| !it.is_over()))
            {
                // What is told after the last commit, if a question that stays open has not expired meanwhile.
                sleep(Duration::from_secs(8)).await;
                let Ok(later) = self.database.history() else { return false };
                if entries(&later) == entries(&history) {
                    return true;
                }
            }
        }
        false
    }
}

type Note = Box<dyn FnOnce(ToldClient) -> Line + Send>;

async fn send(server: Arc<Server>, id: SessionId, text: String) -> (Result<(), Error>, Note) {
    let key = IdempotencyKey { key: text.clone(), request_digest: text.clone() };
    let sent = server.engine.send_message(id, message(&text), None, Some(key), None, &Actor::anyone()).await.map(drop);
    (sent, Box::new(move |told| Line::Sent(id, text, told)))
}

async fn answer(server: Arc<Server>, interrupt: InterruptId, name: String) -> (Result<(), Error>, Note) {
    let actor = Actor::named(&name, Scopes::ALL, &[]);
    let said = Answer {
        interrupt_id: interrupt.to_string(),
        value: json!(name),
        place: Vec::new(),
        said: None,
        expected_type: None,
    };
    let answered = server.engine.resume_interrupt(said, actor, None).await;
    (answered.map(drop), Box::new(move |told| Line::Answered(interrupt, name, told)))
}

/// One of a few that nobody answers: their turns are to be parked in the end.
fn stays_open(interrupt: &Interrupt) -> bool {
    interrupt.interrupt_id.0.as_u128().is_multiple_of(5)
}

/// How many there are in all journals.
fn entries(history: &super::History) -> usize {
    history.turns.iter().map(|(_, journal)| journal.len()).sum()
}

/// Whether everything is over, or waits for people.
fn is_at_rest(history: &super::History) -> bool {
    let rests = |status: Status| status != Status::Running;
    let is_settled = |status: NoticeStatus| !matches!(status, NoticeStatus::Pending);
    let waits = |turn: &TurnState| !matches!(turn, TurnState::UnderWay);
    history.sessions.iter().all(|session| rests(session.status()))
        && history.turns.iter().all(|(turn, _)| waits(&turn.life.state))
        && history.notices.iter().all(|notice| is_settled(notice.status))
        && history.interrupts.iter().all(|it| !it.is_pending() || stays_open(it))
}
