//! Places that everybody waits for in one line, and of which nobody has more than a share: who asks for much waits for
//! themselves first.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// So many places.
pub struct AnswerPlaces<K> {
    all: Arc<Semaphore>,
    share: usize,
    shares: Mutex<HashMap<K, Weak<Semaphore>>>,
}

/// One of them, until it is dropped.
pub struct AnswerPlace {
    _of_all: OwnedSemaphorePermit,
    _of_share: OwnedSemaphorePermit,
}

impl<K: Eq + Hash> AnswerPlaces<K> {
    /// So many for `all`, of which everybody has a `share` at the most.
    pub fn new(all: usize, share: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), share, shares: Mutex::default() }
    }

    /// A place for `who`, once there is one.
    ///
    /// # Errors
    /// Once they are closed, which nobody does.
    pub async fn take(&self, who: K) -> Result<AnswerPlace, AcquireError> {
        let of_share = self.share_of(who).acquire_owned().await?;
        let of_all = Arc::clone(&self.all).acquire_owned().await?;
        Ok(AnswerPlace { _of_all: of_all, _of_share: of_share })
    }

    fn share_of(&self, who: K) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&who).and_then(Weak::upgrade) {
            return share;
        }
        // Who has none and waits for none takes no memory.
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share));
        shares.insert(who, Arc::downgrade(&share));
        share
    }

    /// How many are free.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.all.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn who_has_a_share_waits_and_keeps_nobody_else_from_the_rest() {
        let places = AnswerPlaces::new(3, 2);
        let taken = |who: &'static str| places.take(who).now_or_never().map(Result::unwrap);
        let of_ada = [taken("ada"), taken("ada")];
        let mut more = Box::pin(places.take("ada"));
        assert!(of_ada.iter().all(Option::is_some) && (&mut more).now_or_never().is_none());
        let of_bob = taken("bob");
        assert!(of_bob.is_some() && taken("bob").is_none(), "all are taken");
        drop(of_ada);
        assert!(more.now_or_never().is_some() && taken("bob").is_some());
    }

    #[test]
    fn who_has_none_takes_no_memory() {
        let places = AnswerPlaces::new(3, 2);
        drop(places.take("ada").now_or_never());
        let _of_bob = places.take("bob").now_or_never();
        assert_eq!(places.shares.lock().unwrap().keys().collect::<Vec<_>>(), [&"bob"]);
        drop(places.take("bob").now_or_never());
        assert_eq!(places.free(), 2);
    }
}
