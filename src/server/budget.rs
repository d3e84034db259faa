//! How many bytes of requests, or of their answers, are in memory at once: each may be long, and there may be thousands.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a request that are not counted: answers and most messages come in whatever others send.
pub const FREE: usize = 16 * 1024;

/// Which part of all bytes is little: who has no more finds room where others, who have a lot, have taken all of it.
const LITTLE: usize = 32;
/// Which part of all bytes there is besides for these.
const RESERVE: usize = 4;

/// The bytes that all may have in memory; one client half of them.
pub struct Budget<K> {
    most: usize,
    spent: Mutex<Spent<K>>,
}

struct Spent<K> {
    all: usize,
    by_client: HashMap<K, usize>,
}

/// There are as many bytes as there may be: so many.
#[derive(Debug, thiserror::Error)]
#[error("requests that are at work have {0} bytes, as many as they may")]
pub struct Exhausted(pub usize);

/// What one request has of the budget, until it is released or forgotten by everybody.
pub struct RequestBytes<K: Eq + Hash + Clone>(Arc<RequestCounter<K>>);

struct RequestCounter<K: Eq + Hash + Clone> {
    budget: Arc<Budget<K>>,
    who: K,
    /// How many bytes have come, the free ones too.
    bytes: Mutex<usize>,
}

impl<K: Eq + Hash + Clone> Budget<K> {
    /// `most` bytes.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, spent: Mutex::new(Spent { all: 0, by_client: HashMap::new() }) })
    }

    /// For a request of `who`, which has nothing of it yet.
    pub fn count_for(self: &Arc<Self>, who: K) -> RequestBytes<K> {
        RequestBytes(Arc::new(RequestCounter { budget: Arc::clone(self), who, bytes: Mutex::new(0) }))
    }

    fn take(&self, who: &K, bytes: usize, at_least_one: bool) -> Result<(), Exhausted> {
        let mut taken = lock(&self.spent);
        let share = self.most / 2;
        let had = taken.by_client.get(who).copied().unwrap_or_default();
        let (of_client, of_all) = (had.saturating_add(bytes), taken.all.saturating_add(bytes));
        let is_let_in = at_least_one && had == 0;
        if of_client > share && !is_let_in {
            return Err(Exhausted(share));
        }
        let is_little = of_client <= self.most / LITTLE;
        let most = if is_little { self.most.saturating_add(self.most / RESERVE) } else { self.most };
        if of_all > most && !is_let_in {
            return Err(Exhausted(self.most));
        }
        taken.all = of_all;
        taken.by_client.insert(who.clone(), of_client);
        Ok(())
    }

    fn give_back(&self, who: &K, bytes: usize) {
        let mut taken = lock(&self.spent);
        taken.all = taken.all.saturating_sub(bytes);
        let Some(of_client) = taken.by_client.get_mut(who) else { return };
        *of_client = of_client.saturating_sub(bytes);
        // Who has nothing takes no memory.
        if *of_client == 0 {
            taken.by_client.remove(who);
        }
    }
}

impl<K: Eq + Hash + Clone> RequestBytes<K> {
    /// So many bytes more of the request have come.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn add(&self, bytes: usize) -> Result<(), Exhausted> {
        self.take(bytes, false)
    }

    /// So many bytes are there, all at once. Of a client that has no others it is never too many: nothing could be done about
    /// it.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn add_all(&self, bytes: usize) -> Result<(), Exhausted> {
        self.take(bytes, true)
    }

    fn take(&self, bytes: usize, at_least_one: bool) -> Result<(), Exhausted> {
        let mut had = lock(&self.0.bytes);
        let has = had.saturating_add(bytes);
        let more = counted(has).saturating_sub(counted(*had));
        if more > 0 {
            self.0.budget.take(&self.0.who, more, at_least_one)?;
        }
        *had = has;
        Ok(())
    }

    /// What came is not in memory any more, although the request goes on: it waits for something.
    pub fn release(&self) {
        let bytes = std::mem::take(&mut *lock(&self.0.bytes));
        if counted(bytes) > 0 {
            self.0.budget.give_back(&self.0.who, counted(bytes));
        }
    }
}

impl<K: Eq + Hash + Clone> Clone for RequestBytes<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash + Clone> Drop for RequestCounter<K> {
    fn drop(&mut self) {
        let bytes = counted(*lock(&self.bytes));
        if bytes > 0 {
            self.budget.give_back(&self.who, bytes);
        }
    }
}

/// How many of so many bytes are counted.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(FREE)
}

fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves counts that are a little off at worst.
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_half_and_what_is_given_back_is_there_for_the_next() {
        let budget = Budget::new(100);
        let (first, second) = (budget.count_for("ada"), budget.count_for("ada"));
        assert!(first.add(FREE + 30).is_ok());
        assert!(second.add(FREE).is_ok() && second.add(20).is_ok());
        assert!(matches!(second.add(1), Err(Exhausted(50))));
        let (of_bob, of_cyd) = (budget.count_for("bob"), budget.count_for("cyd"));
        assert!(of_bob.add(FREE + 45).is_ok(), "others have theirs");
        assert!(matches!(of_cyd.add(FREE + 6), Err(Exhausted(100))), "as far as there is any");
        assert!(of_cyd.add(FREE).is_ok(), "what is short comes in all the same");
        first.release();
        assert!(second.add(30).is_ok());
        drop((first, second, of_bob, of_cyd));
        let left = lock(&budget.spent);
        assert!(left.all == 0 && left.by_client.is_empty(), "{}", left.all);
    }

    #[test]
    fn few_who_have_a_lot_keep_nobody_out_who_has_little() {
        let budget = Budget::new(100);
        let (of_ada, of_bob) = (budget.count_for("ada"), budget.count_for("bob"));
        assert!(of_ada.add(FREE + 50).is_ok() && of_bob.add(FREE + 50).is_ok());
        let others: Vec<_> = (0..9).map(|_| budget.count_for("cyd")).collect();
        assert!(others[0].add(FREE + 3).is_ok());
        assert!(matches!(others[1].add(FREE + 1), Err(Exhausted(100))), "that is no little any more");
        let names = ["dan", "eve", "fay", "gus", "hal", "ida", "jan"];
        let little: Vec<_> = names.map(|name| budget.count_for(name)).into();
        assert!(little.iter().all(|each| each.add(FREE + 3).is_ok()));
        assert!(matches!(budget.count_for("kim").add(FREE + 3), Err(Exhausted(100))), "there is an end to it");
        drop(of_ada);
        assert!(budget.count_for("kim").add(FREE + 26).is_ok(), "as before");
    }

    #[test]
    fn what_is_there_all_at_once_is_never_too_much_for_who_has_nothing_else() {
        let budget = Budget::new(100);
        let (first, second) = (budget.count_for("ada"), budget.count_for("ada"));
        assert!(first.add_all(FREE + 1000).is_ok());
        assert!(matches!(second.add_all(FREE + 1), Err(Exhausted(50))), "one at a time");
        assert!(budget.count_for("bob").add_all(FREE + 60).is_ok(), "others have theirs");
        drop(first);
        assert!(second.add_all(FREE + 1).is_ok());
        assert!(matches!(budget.count_for("ada").add_all(FREE + 50), Err(Exhausted(50))));
    }
}
