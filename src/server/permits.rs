//! How many at once: everybody has so many permits, and gives each back when it is done with it.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

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

/// The body of an answer, with what its client has of what there is for all until it has taken all of it: its permit.
pub struct PermittedBody<H> {
    body: Body,
    held: Option<H>,
}

/// The end of such a body.
struct LastBytes<H> {
    bytes: Bytes,
    _held: H,
}

impl<H> PermittedBody<H> {
    /// `body`, which takes with it what is `held` when it goes.
    pub fn new(body: Body, held: H) -> Self {
        Self { body, held: Some(held) }
    }
}

impl<H> AsRef<[u8]> for LastBytes<H> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<H: Send + Unpin + 'static> HttpBody for PermittedBody<H> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let is_last = frame.is_some() && self.body.is_end_stream();
        // hyper lets go of a body as soon as it has the last of it, and of that only when it has been written.
        Poll::Ready(match (frame, is_last.then(|| self.held.take()).flatten()) {
            (Some(Ok(frame)), Some(held)) => {
                Some(Ok(frame.map_data(|bytes| Bytes::from_owner(LastBytes { bytes, _held: held }))))
            }
            (frame, _) => frame,
        })
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
