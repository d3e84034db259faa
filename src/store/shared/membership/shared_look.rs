//! A look at the other servers for those who cannot wait for the next one: one for all who ask at once.
//!
//! Clients bring them about, with as many requests as they like, and hang up when they like: no two are at work together, each
//! goes on to its end, and none is in the way of a beat.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Membership, Moment, OtherServer, ServerKind, now};
use crate::domain::Error;

/// How old what was found may be for somebody who asks.
const FRESH: Duration = Duration::from_millis(200);

/// The last look; held by whoever looks.
pub(super) struct SharedLook {
    /// When it began; none was made yet without it.
    begun: Option<Moment>,
    found: Result<Vec<OtherServer>, Error>,
}

impl Default for SharedLook {
    fn default() -> Self {
        Self { begun: None, found: Ok(Vec::new()) }
    }
}

impl Membership {
    /// The other servers, as they were a moment ago.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`].
    pub async fn look_at_others(self: &Arc<Self>) -> Result<Vec<OtherServer>, Error> {
        self.may_act()?;
        let (this, asked) = (Arc::clone(self), now());
        // To its end, whoever hangs up.
        let looked = tokio::spawn(async move { this.looked_after(asked.saturating_sub(FRESH)).await });
        looked.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
    }

    /// What a look found that began at `earliest` or later.
    async fn looked_after(&self, earliest: Moment) -> Result<Vec<OtherServer>, Error> {
        let mut last = self.looked.lock().await;
        if last.begun.is_some_and(|begun| begun >= earliest) {
            return last.found.clone();
        }
        let begun = now();
        let found = match timeout(self.timings.patience, self.rows.look(self.id())).await {
            Ok(others) => others.map(|others| others.into_iter().filter(|other| self.is_alive(other)).collect()),
            Err(_) => Err(Error::StoreUnavailable("the other servers could not be looked at in time".to_owned())),
        };
        *last = SharedLook { begun: Some(begun), found: found.clone() };
        found
    }

    fn is_alive(&self, other: &OtherServer) -> bool {
        let is_heard = u128::from(other.silent_ms) < self.timings.lease.as_millis();
        other.row.kind == ServerKind::Server && is_heard
    }
}
