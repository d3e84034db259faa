//! One server: an engine of its own over its own connection, with workers, a listener and a sender of webhooks; it lives
//! until it is killed, or learns that it is dead.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Setting;
use super::log::{Life, Line, Log};
use super::machine::Machine;
use super::worker::Workers;
use crate::domain::event::EventName;
use crate::domain::notice::{Notice, Tries};
use crate::domain::seeds::{self, Random};
use crate::domain::webhook::Webhook;
use crate::domain::{Error, Timestamp};
use crate::engine::Engine;
use crate::engine::ports::deliver::{Deliver, Undelivered};
use crate::engine::settings::Settings;
use crate::engine::telling::view::FeedItem;
use crate::store::presence::Presence;
use crate::store::shared::membership::{Admission, Membership};
use crate::store::shared::servers::{ServerId, ServerKind, ServerRole, ServerRow};
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::SimulatedDatabase;
use crate::store::simulated::members::{SimulatedBell, SimulatedServers};
use crate::store::simulated::network::{Link, LinkState, SimulatedConnection, Weather};
use crate::store::{Store, StoreExt};

/// The agent that all serve.
pub const AGENT: &str = "module:agent";
/// Where the server's webhook goes.
const URL: &str = "http://receiver.test/";

pub struct Server {
    pub life: Life,
    pub id: ServerId,
    pub link: Arc<Link>,
    pub engine: Arc<Engine>,
    /// Its process is over.
    pub over: CancellationToken,
    workers: Arc<Workers>,
    membership: Arc<Membership>,
}

impl Server {
    /// Starts one, as often as it takes.
    pub async fn start(
        database: SimulatedDatabase,
        (setting, weather): (Setting, Weather),
        log: Arc<Log>,
        life: Life,
        seed: u64,
    ) -> Arc<Self> {
        for attempt in 0.. {
            let mut random = Random(seed ^ (attempt << 48));
            let link = Link::new(weather);
            let start = Self::once(database.clone(), setting, &log, (life, &link), &mut random);
            match start.await {
                Ok(server) => return server,
                // Another process begins in its place.
                Err(_) => link.set(LinkState::Gone),
            }
            sleep(Duration::from_millis(500)).await;
        }
        unreachable!("it starts some day")
    }

    async fn once(
        database: SimulatedDatabase,
        setting: Setting,
        log: &Arc<Log>,
        (life, link): (Life, &Arc<Link>),
        random: &mut Random,
    ) -> Result<Arc<Self>, Error> {
        let connection = SimulatedConnection::over(database, Arc::clone(link), random.draw());
        let role = ServerRole { agent: Some(AGENT.to_owned()), serves_http: true, workers: 2, ..ServerRole::default() };
        let id = seeds::id().unwrap_or_else(Uuid::new_v4);
        let row = ServerRow {
            id: ServerId(id),
            kind: ServerKind::Server,
            host: format!("server-{life}"),
            pid: 1,
            machine: None,
            process: None,
            role,
        };
        let machine = Machine::any(setting, random);
        let rows = Arc::new(SimulatedServers(connection.clone()));
        let membership = Membership::join(rows, row, Admission::AtOnce, machine.timings(setting.timings)).await;
        let membership = membership.map_err(|error| Error::StoreUnavailable(format!("{error:?}")))?;
        connection.commits_for(membership.id());
        let bell = SimulatedBell::new(&membership, connection.clone());
        let clock = match machine.clock(setting, connection.clone()).await {
            Ok(clock) => clock,
            Err(error) => {
                membership.leaving().cancel();
                return Err(error);
            }
        };
        let access = StoreAccess::Member(Arc::clone(&membership));
        let store: Arc<dyn Store> =
            Arc::new(SharedStore::ringing(connection, access, Some(Arc::new(bell)), clock, Handle::current()));
        let settings = Settings {
            agent: AGENT.to_owned(),
            workers: 2,
            allow_custom_ids: true,
            park_after: [0.0, 2.0, 30.0][usize::try_from(random.within(0..3)).unwrap()],
            max_recoveries: 1000,
            webhook_allow_private: true,
            webhooks: vec![Webhook {
                url: URL.to_owned(),
                token: None,
                include_messages: false,
                events: Some(EventName::FOR_WEBHOOKS.to_vec()),
            }],
            tries: Tries { retries: 60, pace: 0.1 },
            ..Settings::default()
        };
        let receiver = Receiver {
            life,
            log: Arc::clone(log),
            link: Arc::clone(link),
            random: std::sync::Mutex::new(Random(random.draw())),
        };
        let began = Self::begin(store, settings, receiver).await;
        let engine = match began {
            Ok(engine) => engine,
            Err(error) => {
                membership.leaving().cancel();
                return Err(error);
            }
        };
        let workers = Workers::new(life, &engine, Arc::clone(log), Arc::clone(link));
        let over = CancellationToken::new();
        let this =
            Arc::new(Self { life, id: membership.id(), link: Arc::clone(link), engine, over, workers, membership });
        tokio::spawn(Arc::clone(&this).obey());
        if let Err(error) = this.engine.attach(Arc::clone(&this.workers) as _).await {
            this.kill();
            return Err(error);
        }
        tokio::spawn(Arc::clone(&this).listen(Arc::clone(log)));
        Ok(this)
    }

    async fn begin(store: Arc<dyn Store>, settings: Settings, receiver: Receiver) -> Result<Arc<Engine>, Error> {
        // Whoever opens a store looks at it first.
        store.query(|reader| reader.store_id()).await?;
        Engine::start(settings, store, Arc::new(receiver)).await
    }

    /// Its process is over, whatever it is at.
    pub fn kill(&self) {
        self.link.set(LinkState::Gone);
        self.over.cancel();
        self.workers.die();
        self.membership.leaving().cancel();
        self.engine.stopped.cancel();
        self.engine.stopping.cancel();
    }

    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// As a process does that others may take for dead (`src/serve/presence.rs`).
    async fn obey(self: Arc<Self>) {
        let mut presence = self.membership.presence();
        loop {
            let standing = *presence.borrow_and_update();
            self.link.goes_on().await;
            match standing {
                Presence::Acts => {}
                Presence::CutOff => self.workers.kill_all(),
                Presence::Dead => return self.kill(),
            }
            tokio::select! {
                biased;
                () = self.over.cancelled() => return,
                changed = presence.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Somebody listens to all events, and goes on where he was when that ends.
    async fn listen(self: Arc<Self>, log: Arc<Log>) {
        let mut after: Option<u64> = None;
        while !self.is_over() {
            let Ok(mut subscription) = self.engine.subscribe(None, after).await else {
                sleep(Duration::from_secs(1)).await;
                continue;
            };
            loop {
                let heard = tokio::select! {
                    biased;
                    () = self.over.cancelled() => return,
                    heard = subscription.events.recv() => heard,
                };
                match heard {
                    Some(FeedItem::Stored(event)) => {
                        after = Some(event.number);
                        log.note(Line::Heard(self.life, event.event.session_id, event.number));
                    }
                    Some(FeedItem::Passing(_)) => {}
                    None => break,
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Where webhooks arrive.
struct Receiver {
    life: Life,
    log: Arc<Log>,
    link: Arc<Link>,
    random: std::sync::Mutex<Random>,
}

impl Deliver for Receiver {
    fn attempt<'a>(&'a self, notice: &'a Notice, _: Timestamp) -> BoxFuture<'a, Result<(), Undelivered>> {
        let (fate, late) = {
            let mut random = self.random.lock().unwrap();
            (random.within(0..100), Duration::from_millis(random.within(1..1200)))
        };
        Box::pin(async move {
            self.link.goes_on().await;
            self.log.note(Line::Posts(self.life, notice.id, notice.session_id));
            sleep(late).await;
            if fate >= 15 {
                self.log.note(Line::Took(notice.id, notice.session_id));
            }
            self.link.goes_on().await;
            self.log.note(Line::Posted(self.life, notice.id, notice.session_id));
            match fate {
                0..15 => Err(Undelivered::from("away".to_owned())),
                15..30 => Err(Undelivered::from("its reply was lost".to_owned())),
                _ => Ok(()),
            }
        })
    }
}
