//! What others are told after a commit: pollers, listeners, webhooks, and whoever reads the figures.

pub(super) mod after_commit;
pub mod bells;
pub(super) mod feed;
pub mod figures;
pub mod histogram;
pub mod metrics;
pub(super) mod outbox;
pub(super) mod passing;
pub mod resting;
pub mod view;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::domain::access::Actor;
use crate::domain::event::EventView;
use crate::domain::notice::Tries;
use crate::domain::session::Session;
use crate::domain::told::StartedTool;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::engine::ports::deliver::Deliver;
use crate::engine::settings::Settings;
use crate::store::{Store, StoreExt, Transaction};
use after_commit::{AfterCommit, FailedTurn, NotificationSettings};
use bells::{Bells, Listener, SessionSnapshot};
use feed::Feed;
use metrics::{Counters, StoreCounts};
use outbox::Outbox;
use view::Subscription;

/// See the module.
pub struct Notifier {
    store: Arc<dyn Store>,
    bells: Bells,
    feed: Feed,
    counters: Counters,
    counts: StoreCounts,
    notifications: Arc<NotificationSettings>,
    outbox: Arc<Outbox>,
    /// `None` for a run, which calls nobody.
    deliver: Option<Arc<dyn Deliver>>,
    tries: Tries,
    /// The server stops: no new notice is sent.
    stopping: CancellationToken,
    /// The engine is over: nothing is waited for.
    stopped: CancellationToken,
}

impl Notifier {
    /// Tells listeners through `feed`, and webhooks through `deliver`.
    pub(super) fn new(
        store: Arc<dyn Store>,
        settings: &Settings,
        feed: Feed,
        deliver: Option<Arc<dyn Deliver>>,
        (stopping, stopped): (CancellationToken, CancellationToken),
    ) -> Arc<Self> {
        let (webhooks, remind_after) = (settings.webhooks.clone(), settings.remind_after);
        let outbox = Arc::new(Outbox::new(&webhooks));
        Arc::new(Self {
            store,
            bells: Bells::default(),
            feed,
            counters: Counters::default(),
            counts: StoreCounts::default(),
            notifications: Arc::new(NotificationSettings { webhooks, remind_after }),
            outbox,
            deliver,
            tries: settings.tries,
            stopping,
            stopped,
        })
    }

    /// What a change will owe.
    pub(super) fn after_commit(&self) -> AfterCommit {
        AfterCommit::new(&self.notifications, None)
    }

    /// What a change will owe that `actor` makes.
    pub(super) fn owed_by(&self, actor: &Actor) -> AfterCommit {
        AfterCommit::new(&self.notifications, Some(actor.clone()))
    }

    /// Has `after_commit` show what the turn's session has become to whoever waits for that.
    ///
    /// # Errors
    /// The store's.
    pub(super) fn show(
        &self,
        after_commit: &mut AfterCommit,
        tx: &dyn Transaction,
        session: Session,
        turn: TurnId,
    ) -> Result<(), Error> {
        after_commit.show(tx, &self.bells, session, turn)
    }

    /// Does what is owed after a commit.
    pub(super) fn run(&self, after_commit: AfterCommit) {
        if let Some(FailedTurn { session, code, is_kept }) = &after_commit.failed {
            if *is_kept {
                tracing::error!(%session, code, "a turn cannot go on; its journal is kept");
            } else {
                tracing::error!(%session, code, "a turn has failed; `hitl sessions get` tells why");
            }
        }
        for session in after_commit.woken {
            let shown = after_commit.shown.clone().filter(|shown| shown.view.session.id == session);
            self.ring(session, shown);
        }
        let last_event = after_commit.last_event.get();
        if last_event > 0 {
            self.feed.ring(last_event);
        }
        if after_commit.has_steps {
            self.feed.look();
        }
        if after_commit.has_notices {
            self.outbox.ring();
        }
    }

    /// Tells of what was stored by nobody knows which transaction.
    pub(super) async fn run_late(&self, session: SessionId) {
        self.ring(session, None);
        match self.store.query(|reader| reader.last_event()).await {
            Ok(last) => self.feed.ring(last),
            Err(error) => tracing::warn!(%error, "listeners hear of what was stored when something else happens"),
        }
        self.outbox.ring();
    }

    /// Wakes the pollers of a session.
    pub(super) fn ring(&self, session: SessionId, shown: Option<Arc<SessionSnapshot>>) {
        self.bells.ring(session, shown);
    }

    /// Another process has changed the session: whoever waits for that looks.
    pub(super) fn changed_elsewhere(&self, session: SessionId) {
        self.ring(session, None);
        self.feed.look_elsewhere();
    }

    /// Another process has stored the event with this number.
    pub(super) fn stored_elsewhere(&self, last: u64) {
        self.feed.ring(last);
    }

    /// Anything may have changed elsewhere.
    pub(super) fn missed_elsewhere(&self) {
        self.bells.ring_all();
        self.feed.look_elsewhere();
        self.feed.recheck();
    }

    /// A process is gone that would have told webhooks: what it has not is everybody's.
    pub(super) fn take_over_outbox(&self) {
        self.outbox.ring();
    }

    /// Listens for changes of a session.
    pub(super) fn listen(&self, session: SessionId) -> Listener<'_> {
        self.bells.listen(session)
    }

    /// See [`Feed::subscribe`].
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn subscribe(
        &self,
        session: Option<SessionId>,
        after: Option<u64>,
    ) -> Result<Subscription, Error> {
        self.feed.subscribe(session, after).await
    }

    /// Passes on an event that is not stored.
    pub(super) fn pass(&self, event: EventView) {
        self.feed.pass(event);
    }

    /// Tells listeners of a tool that begins, where there are any.
    pub(super) fn tell_started(&self, session: SessionId, turn: TurnId, tool: &StartedTool) {
        if self.feed.is_heard() {
            self.feed.pass(tool.view(session, turn));
        }
    }

    /// A session is gone; its listeners hear what came before, and then the end.
    pub(super) fn close(&self, session: SessionId) {
        self.feed.close(session);
    }

    /// Ends what listens, once it has heard everything.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn finish_events(&self) -> Result<(), Error> {
        let last = self.store.query(|reader| reader.last_event()).await?;
        self.feed.finish(last);
        Ok(())
    }

    /// What is counted.
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    fn now(&self) -> Timestamp {
        self.store.clock().now()
    }
}
