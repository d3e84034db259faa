//! How many at once: everybody has so many permits, and gives each back when it is done with it.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

type Counts<K> = Arc<Mutex<HashMap<K, usize>>>;

/// As many permits for everybody.
pub struct Permits<K> {
    most: usize,
    taken: Counts<K>,
}

/// One of somebody's permits, until it is dropped.
pub struct Permit<K: Eq + Hash> {
    who: K,
    taken: Counts<K>,
}

impl<K: Eq + Hash + Clone> Permits<K> {
    /// `most` permits for everybody, at least one.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: Counts::default() }
    }

    /// How many everybody has.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A permit of `who`; `None` where all of them are taken.
    pub fn take(&self, who: K) -> Option<Permit<K>> {
        let mut taken = lock(&self.taken);
        match taken.get_mut(&who) {
            Some(count) if *count >= self.most => return None,
            Some(count) => *count += 1,
            None => drop(taken.insert(who.clone(), 1)),
        }
        Some(Permit { who, taken: Arc::clone(&self.taken) })
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        let Some(count) = taken.get_mut(&self.who) else { return };
        *count -= 1;
        // Who is not there takes no memory.
        if *count == 0 {
            taken.remove(&self.who);
        }
    }
}

fn lock<K>(taken: &Counts<K>) -> MutexGuard<'_, HashMap<K, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of an answer, with the permit of its client until all of it has been taken.
pub struct PermittedBody<K: Eq + Hash> {
    body: Body,
    _place: Permit<K>,
}

impl<K: Eq + Hash> PermittedBody<K> {
    /// `body`, which takes the permit with it when it goes.
    pub fn new(body: Body, place: Permit<K>) -> Self {
        Self { body, _place: place }
    }
}

impl<K: Eq + Hash + Unpin> HttpBody for PermittedBody<K> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_so_many_places_and_gets_back_what_is_given_back() {
        let permits = Permits::new(2);
        let (first, second) = (permits.take("ada"), permits.take("ada"));
        assert!(first.is_some() && second.is_some() && permits.take("ada").is_none());
        assert!(permits.take("bob").is_some(), "others have theirs");
        drop(first);
        assert!(permits.take("ada").is_some());
        drop(second);
        assert!(lock(&permits.taken).is_empty(), "who has none is not remembered");
    }
}
