//! How often somebody may ask: a bucket of tokens for each, which fills up again with time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How many buckets are kept before the full ones, which say nothing, are thrown away.
const MANY: usize = 4096;

/// Buckets of the same size for everybody.
pub struct Buckets<K> {
    /// Tokens of a full bucket: how much may come at once.
    size: f64,
    /// Tokens that come back in a second.
    rate: f64,
    levels: Mutex<HashMap<K, Level>>,
}

#[derive(Clone, Copy)]
struct Level {
    tokens: f64,
    at: Instant,
}

impl<K: Eq + Hash> Buckets<K> {
    /// Buckets of `size` tokens that fill at `rate` tokens a second.
    pub fn new(size: f64, rate: f64) -> Self {
        Self { size, rate, levels: Mutex::default() }
    }

    /// Takes a token out of the bucket of `who`.
    ///
    /// # Errors
    /// The seconds until there is one.
    pub fn take(&self, who: K, now: Instant) -> Result<(), u32> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if levels.len() >= MANY && !levels.contains_key(&who) {
            levels.retain(|_, level| self.tokens(level, now) < self.size);
        }
        let level = levels.entry(who).or_insert(Level { tokens: self.size, at: now });
        let tokens = self.tokens(level, now);
        *level = Level { tokens: if tokens >= 1.0 { tokens - 1.0 } else { tokens }, at: now };
        if tokens >= 1.0 { Ok(()) } else { Err(self.seconds_until_one(tokens)) }
    }

    /// Whether there is a token in the bucket of `who`; none is taken.
    ///
    /// # Errors
    /// The seconds until there is one.
    pub fn look(&self, who: &K, now: Instant) -> Result<(), u32> {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = levels.get(who).map_or(self.size, |level| self.tokens(level, now));
        if tokens >= 1.0 { Ok(()) } else { Err(self.seconds_until_one(tokens)) }
    }

    fn tokens(&self, level: &Level, now: Instant) -> f64 {
        let since = now.saturating_duration_since(level.at).as_secs_f64();
        (level.tokens + since * self.rate).min(self.size)
    }

    fn seconds_until_one(&self, tokens: f64) -> u32 {
        ((1.0 - tokens) / self.rate).ceil().max(1.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_gives_what_it_holds_and_then_what_comes_back() {
        let (buckets, start) = (Buckets::new(3.0, 0.5), Instant::now());
        let outcomes: Vec<_> = (0..4).map(|_| buckets.take("ada", start)).collect();
        assert_eq!(outcomes, [Ok(()), Ok(()), Ok(()), Err(2)]);
        assert_eq!(buckets.take("ada", start + Duration::from_secs(1)), Err(1));
        assert_eq!(buckets.take("ada", start + Duration::from_secs(2)), Ok(()));
    }

    #[test]
    fn everybody_has_a_bucket_of_their_own() {
        let (buckets, now) = (Buckets::new(1.0, 1.0), Instant::now());
        assert_eq!(buckets.take("ada", now), Ok(()));
        assert_eq!(buckets.look(&"ada", now), Err(1));
        assert_eq!(buckets.look(&"bob", now), Ok(()));
        assert_eq!(buckets.take("bob", now), Ok(()));
    }

    #[test]
    fn full_buckets_are_not_kept_for_ever() {
        let (buckets, start) = (Buckets::new(1.0, 1.0), Instant::now());
        for number in 0..MANY {
            assert_eq!(buckets.take(number, start), Ok(()));
        }
        assert_eq!(buckets.take(MANY, start + Duration::from_secs(1)), Ok(()));
        assert_eq!(buckets.levels.lock().unwrap().len(), 1);
    }
}
