//! The outbox: what webhooks are owed, sent until it is taken or given up.
//!
//! A notice is in the store before anybody acts on its event, so that none is lost and none is invented. One task leases
//! what is due and sends it; what came of a try counts only while its lease does. A server that dies leaves leases
//! behind, which the next one releases: a receiver may then get a notice twice, under the same id.

mod places;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::notice::{Notice, NoticeId, Reminded, Tries, origin};
use crate::domain::status::NoticeStatus;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, Timestamp};
use crate::engine::alarm::Alarm;
use crate::engine::alarm::STORE_PAUSE;
use crate::engine::detached;
use crate::engine::ports::deliver::{Deliver, Undelivered};
use crate::engine::telling::Notifier;
use crate::engine::telling::after_commit::{NotificationSettings, in_lane};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::query::{NoticeQuery, Page};
use crate::store::upkeep::Receivers;
use crate::store::{StoreExt, Transaction};
use places::{AT_ONCE, ReceiverPlaces};

/// How long tries at work may take to finish when the server stops; what comes of the others is unknown.
const GRACE: Duration = Duration::from_secs(2);

/// When there is something to send, and how much is being sent.
#[derive(Debug)]
pub struct Outbox {
    alarm: Alarm,
    permits: Arc<Semaphore>,
    places: Mutex<ReceiverPlaces>,
}

impl Outbox {
    /// One that sends nothing yet; `own` are the operator's receivers.
    pub fn new(own: &[Webhook]) -> Self {
        let places = ReceiverPlaces::new(own.iter().map(|webhook| origin(&webhook.url)).collect());
        Self { alarm: Alarm::default(), permits: Arc::new(Semaphore::new(AT_ONCE)), places: Mutex::new(places) }
    }

    /// There is something new in the outbox, and it is on disk.
    pub fn ring(&self) {
        self.alarm.set(Timestamp::from_millis(0));
    }

    /// Waits for the tries at work, but not for long.
    pub async fn finish(&self, patience: Duration) {
        // What does not finish stays leased, and is sent again by the next server.
        drop(tokio::time::timeout(patience.min(GRACE), self.permits.acquire_many(AT_ONCE as u32)).await);
    }

    fn places(&self) -> MutexGuard<'_, ReceiverPlaces> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room to send one notice: one of all places, and one of those to its origin.
struct SendPermit {
    outbox: Arc<Outbox>,
    origin: String,
    _permit: OwnedSemaphorePermit,
}

impl SendPermit {
    fn new(outbox: &Arc<Outbox>, origin: String, permit: OwnedSemaphorePermit) -> Self {
        outbox.places().take(&origin);
        Self { outbox: Arc::clone(outbox), origin, _permit: permit }
    }

    /// What came of the try.
    fn heard(&self, outcome: &Result<(), Undelivered>) {
        let is_silent = outcome.as_ref().is_err_and(|undelivered| undelivered.is_silent);
        self.outbox.places().heard_of(&self.origin, is_silent);
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        self.outbox.places().leave(&self.origin);
    }
}

impl Notifier {
    /// Notices over all sessions, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn notices(&self, query: NoticeQuery) -> Result<Page<Notice>, Error> {
        self.store.query(move |reader| reader.notices(&query)).await
    }

    /// Tries a notice again that was given up, as often as a new one. `id` is as the client wrote it.
    ///
    /// # Errors
    /// [`Error::UnknownNotice`], [`Error::NoticeNotFailed`].
    pub async fn retry_notice(self: &Arc<Self>, id: &str) -> Result<Notice, Error> {
        let unknown = Error::UnknownNotice(id.to_owned());
        let id: NoticeId = id.parse().map_err(|_| unknown.clone())?;
        let telling = Arc::clone(self);
        // To its end, though the client may be gone: what is due has to be sent.
        detached(async move {
            let found = telling.store.query(move |reader| reader.notice(id)).await?;
            let session = found.ok_or_else(|| unknown.clone())?.session_id;
            let retried = telling
                .store
                .transact(About::Session(session), move |tx| try_again(tx, id)?.ok_or_else(|| unknown.clone()));
            let notice = retried.await?;
            faults::at(Point::OutboxRetryCommitted);
            telling.outbox.ring();
            Ok(notice)
        })
        .await
    }

    /// Lets the tries that are under way finish.
    pub(in crate::engine) async fn finish_outbox(&self, patience: Duration) {
        self.outbox.finish(patience).await;
    }

    /// Sends what is due until the server stops.
    pub(in crate::engine) fn spawn_outbox(self: &Arc<Self>) {
        let Some(deliver) = self.deliver.clone() else { return };
        let telling = Arc::clone(self);
        tokio::spawn(async move {
            let (stopping, stopped) = (telling.stopping.clone(), telling.stopped.clone());
            tokio::select! {
                () = stopping.cancelled() => {}
                () = stopped.cancelled() => {}
                () = telling.send_for_ever(&deliver) => {}
            }
        });
    }

    async fn send_for_ever(self: &Arc<Self>, deliver: &Arc<dyn Deliver>) {
        while let Err(error) = self.release().await {
            tracing::error!(%error, "what the last server was sending could not be taken up; it is tried again");
            tokio::time::sleep(STORE_PAUSE).await;
        }
        loop {
            self.outbox.alarm.awake();
            match self.send_due(deliver).await {
                Ok(next) => self.outbox.alarm.sleep(next, self.now()).await,
                Err(error) => {
                    tracing::error!(%error, "what webhooks are owed could not be read; it is tried again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    /// Takes over what the last server was sending.
    async fn release(&self) -> Result<(), Error> {
        match self.store.upkeep().next_notice_at(Receivers::all()).await? {
            Some(_) => self.store.upkeep().release_notices(self.now()).await,
            None => Ok(()),
        }
    }

    /// Begins to send what is due, and tells when the next notice is.
    async fn send_due(self: &Arc<Self>, deliver: &Arc<dyn Deliver>) -> Result<Option<Timestamp>, Error> {
        loop {
            // A place that becomes free rings.
            let open = self.outbox.places().open();
            // However much is due, the store need not look through it.
            if open.are_none() {
                return Ok(None);
            }
            let next = self.store.upkeep().next_notice_at(open).await?;
            if next.is_none_or(|next| next > self.now()) {
                return Ok(next);
            }
            let mut permits = vec![self.permit().await?];
            // Nobody else takes any.
            permits.extend(std::iter::from_fn(|| Arc::clone(&self.outbox.permits).try_acquire_owned().ok()));
            let (leased, all) = self.take_due(permits.len()).await?;
            faults::at(Point::OutboxLeaseCommitted);
            for (notice, permit) in leased.into_iter().zip(permits) {
                let place = SendPermit::new(&self.outbox, notice.origin(), permit);
                tokio::spawn(Arc::clone(self).deliver(Arc::clone(deliver), notice, place));
            }
            all?;
        }
    }

    /// Takes what is due, as far as there is room, each in a transaction of its own: the notices to be sent, which are
    /// leased, and what kept others from it. Reminders whose time has come join their lanes, or are dropped.
    async fn take_due(&self, limit: usize) -> Result<(Vec<Notice>, Result<(), Error>), Error> {
        let mut places = self.outbox.places().clone();
        let seen = self.store.upkeep().due_notices(self.now(), places.open(), limit).await?;
        let mut jobs = Vec::new();
        for notice in seen {
            if notice.status == NoticeStatus::Scheduled || places.take_free(&notice.origin()) {
                let notifications = Arc::clone(&self.notifications);
                let about = About::Session(notice.session_id);
                jobs.push(self.store.transact(about, move |tx| take(tx, &notice, &notifications)));
            }
        }
        let (mut leased, mut all) = (Vec::new(), Ok(()));
        for taken in join_all(jobs).await {
            match taken {
                Ok(taken) => leased.extend(taken),
                Err(error) => all = all.and(Err(error)),
            }
        }
        Ok((leased, all))
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, Error> {
        let permit = Arc::clone(&self.outbox.permits).acquire_owned().await;
        permit.map_err(|error| Error::Internal(error.to_string()))
    }

    async fn deliver(self: Arc<Self>, deliver: Arc<dyn Deliver>, notice: Notice, place: SendPermit) {
        let outcome = tokio::select! {
            outcome = deliver.attempt(&notice, self.now()) => outcome,
            () = self.stopped.cancelled() => return,
        };
        faults::at(Point::OutboxSent);
        place.heard(&outcome);
        let (id, attempt, tries) = (notice.id, notice.attempts, self.tries);
        let about = About::Session(notice.session_id);
        let outcome = outcome.map_err(|undelivered| undelivered.why);
        let reason = outcome.clone().err();
        let settled = self.store.transact(about, move |tx| record_attempt(tx, id, attempt, &outcome, &tries)).await;
        drop(place);
        let reason = reason.unwrap_or_default();
        match settled {
            Ok(Some(NoticeStatus::Delivered)) => self.counters.notice_delivered(),
            Ok(Some(NoticeStatus::Failed)) => {
                tracing::warn!(%id, attempt, reason, "webhook given up; `hitl webhooks retry` tries it again");
                self.counters.notice_failed();
            }
            Ok(Some(_)) => {
                tracing::info!(%id, attempt, reason, "webhook failed, it is tried again");
                self.counters.notice_retried();
            }
            Ok(None) => tracing::warn!(%id, attempt, "a webhook's try came to an end after its time"),
            // Its lease runs out, then it is tried again.
            Err(error) => tracing::error!(%id, %error, "what came of a webhook could not be stored"),
        }
        faults::at(Point::OutboxSettleCommitted);
        self.outbox.ring();
    }
}

/// Takes a notice that was `seen` to be due: leased, where it is to be sent. Nothing where it has changed since; what is due
/// of it then is seen the next time.
fn take(
    tx: &mut dyn Transaction,
    seen: &Notice,
    notifications: &NotificationSettings,
) -> Result<Option<Notice>, Error> {
    let now = tx.now();
    if tx.notice(seen.id)?.as_ref() != Some(seen) {
        return Ok(None);
    }
    if seen.status == NoticeStatus::Scheduled {
        remind(tx, seen.clone(), notifications, now)?;
        return Ok(None);
    }
    let leased = seen.clone().leased(now);
    tx.update_notice(&leased)?;
    faults::at(Point::OutboxLeaseWritten);
    Ok(Some(leased))
}

fn remind(
    tx: &mut dyn Transaction,
    scheduled: Notice,
    notifications: &NotificationSettings,
    now: Timestamp,
) -> Result<(), Error> {
    // It goes behind everything that has been written since it was scheduled.
    tx.delete_notice(scheduled.id)?;
    let session = tx.session(scheduled.session_id)?;
    let interrupt = match (scheduled.interrupt_id, &session) {
        (Some(id), Some(session)) => tx.interrupt(id)?.map(|interrupt| (interrupt, session)),
        _ => None,
    };
    // The operator may want no reminders any more, or none at this address.
    let wanted = match &interrupt {
        Some((interrupt, session)) if notifications.remind_after > 0.0 => {
            notifications.hears_of_it(tx, session, interrupt.turn_id, &scheduled.url)?
        }
        _ => false,
    };
    let is_suspended = session.as_ref().is_some_and(|session| session.retry().is_some());
    match scheduled.remind(interrupt.as_ref().map(|(interrupt, _)| interrupt), is_suspended, now) {
        Reminded::Told(told) if wanted => {
            let told = in_lane(tx, *told, now)?;
            tx.insert_notice(&told)?;
            tx.insert_notice(&told.reminder(notifications.remind_after, now))?;
        }
        Reminded::Later(later) if wanted => tx.insert_notice(&later)?,
        Reminded::Told(_) | Reminded::Later(_) | Reminded::Nothing => {}
    }
    faults::at(Point::OutboxRemindWritten);
    Ok(())
}

/// Puts a notice that was given up into its lane again; `None` where there is none of that id.
fn try_again(tx: &mut dyn Transaction, id: NoticeId) -> Result<Option<Notice>, Error> {
    let Some(failed) = tx.notice(id)? else { return Ok(None) };
    let notice = in_lane(tx, failed.retried()?, tx.now())?;
    if notice.due_at.is_none() {
        see_again(tx, &notice)?;
    }
    tx.update_notice(&notice)?;
    faults::at(Point::OutboxRetryWritten);
    Ok(Some(notice))
}

/// Whoever settles the first of a notice's lane is to have seen what becomes of the notice here. While the session is there
/// its version tells; once it is deleted, nothing does but the notices.
fn see_again(tx: &mut dyn Transaction, notice: &Notice) -> Result<(), Error> {
    match tx.first_pending_notice(notice.session_id, &notice.url) {
        // Nobody here settles it, and who can read it looks at the lane then.
        Err(Error::Unreadable(_)) | Ok(None) => Ok(()),
        first => first?.map_or(Ok(()), |first| tx.update_notice(&first.stirred())),
    }
}

/// Writes what came of a try, unless the lease for it is over; the next of the lane is due once this one is settled.
fn record_attempt(
    tx: &mut dyn Transaction,
    id: NoticeId,
    attempt: u32,
    outcome: &Result<(), String>,
    tries: &Tries,
) -> Result<Option<NoticeStatus>, Error> {
    let now = tx.now();
    let Some(stored) = tx.notice(id)?.filter(|stored| stored.is_leased_for(attempt)) else { return Ok(None) };
    let settled = match outcome {
        Ok(()) => stored.delivered(now),
        Err(reason) => stored.failed(reason, tries, now),
    };
    tx.update_notice(&settled)?;
    if settled.is_settled() {
        match tx.first_pending_notice(settled.session_id, &settled.url) {
            Ok(Some(next)) if next.due_at.is_none() => tx.update_notice(&next.first_in_lane(now))?,
            Ok(Some(_)) => see_again(tx, &settled)?,
            // This one was sent all the same; the next waits for who can read it, and all others for that.
            Err(Error::Unreadable(_)) => tx.make_first_due(settled.session_id, &settled.url, now)?,
            none => drop(none?),
        }
    }
    faults::at(Point::OutboxSettleWritten);
    Ok(Some(settled.status))
}

#[cfg(test)]
mod tests;
