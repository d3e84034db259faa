//! How often somebody may ask: a bucket of tokens for each, which fills up again with time.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many buckets are kept before the full ones, which say nothing, are thrown away.
const MANY: usize = 4096;
/// How long at least from one such cleaning to the next.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Whose an address is, as far as counting goes: of an IPv6 network everybody has 2^64 addresses.
pub fn network(address: Option<IpAddr>) -> Option<IpAddr> {
    address.map(|address| match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
        v4 @ IpAddr::V4(_) => v4,
    })
}

/// Buckets of the same size for everybody.
pub struct Buckets<K> {
    /// Tokens of a full bucket: how much may come at once.
    size: f64,
    /// Tokens that come back in a second.
    rate: f64,
    levels: Mutex<HashMap<K, Level>>,
    /// When the full ones were thrown away last.
    swept: Mutex<Option<Instant>>,
}

#[derive(Clone, Copy)]
struct Level {
    tokens: f64,
    at: Instant,
}

impl<K: Eq + Hash> Buckets<K> {
    /// Buckets of `size` tokens that fill at `rate` tokens a second.
    pub fn new(size: f64, rate: f64) -> Self {
        Self { size, rate, levels: Mutex::default(), swept: Mutex::default() }
    }

    /// Takes a token out of the bucket of `who`.
    ///
    /// # Errors
    /// The seconds until there is one.
    pub fn take(&self, who: K, now: Instant) -> Result<(), u32> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if levels.len() >= MANY && !levels.contains_key(&who) && self.may_sweep(now) {
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

    /// Whether it is worth while to look at all buckets again: whoever comes under ever new names is not to cost that much
    /// each time.
    fn may_sweep(&self, now: Instant) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_PAUSE);
        if is_time {
            *swept = Some(now);
        }
        is_time
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
    fn addresses_of_one_network_are_counted_as_one() {
        let of = |text: &str| network(Some(text.parse().unwrap())).unwrap().to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("192.0.2.1"), "192.0.2.1");
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(network(None), None);
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
