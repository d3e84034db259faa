//! How many at once: everybody has so many places, and gives each back when it is done with it.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

type Taken<K> = Arc<Mutex<HashMap<K, usize>>>;

/// As many places for everybody.
pub struct Places<K> {
    most: usize,
    taken: Taken<K>,
}

/// One of somebody's places, until it is dropped.
pub struct Place<K: Eq + Hash> {
    who: K,
    taken: Taken<K>,
}

impl<K: Eq + Hash + Clone> Places<K> {
    /// `most` places for everybody, at least one.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: Taken::default() }
    }

    /// How many everybody has.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A place of `who`; `None` where all of them are taken.
    pub fn take(&self, who: K) -> Option<Place<K>> {
        let mut taken = lock(&self.taken);
        match taken.get_mut(&who) {
            Some(count) if *count >= self.most => return None,
            Some(count) => *count += 1,
            None => drop(taken.insert(who.clone(), 1)),
        }
        Some(Place { who, taken: Arc::clone(&self.taken) })
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
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

fn lock<K>(taken: &Taken<K>) -> MutexGuard<'_, HashMap<K, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of an answer, with the place of its client until all of it has been taken.
pub struct Held<K: Eq + Hash> {
    body: Body,
    _place: Place<K>,
}

impl<K: Eq + Hash> Held<K> {
    /// `body`, which takes the place with it when it goes.
    pub fn new(body: Body, place: Place<K>) -> Self {
        Self { body, _place: place }
    }
}

impl<K: Eq + Hash + Unpin> HttpBody for Held<K> {
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
        let places = Places::new(2);
        let (first, second) = (places.take("ada"), places.take("ada"));
        assert!(first.is_some() && second.is_some() && places.take("ada").is_none());
        assert!(places.take("bob").is_some(), "others have theirs");
        drop(first);
        assert!(places.take("ada").is_some());
        drop(second);
        assert!(lock(&places.taken).is_empty(), "who has none is not remembered");
    }
}
