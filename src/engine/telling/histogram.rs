//! Times, counted by how long they were. Without a lock: adding one costs two additions, wherever it is done.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct Histogram {
    /// Upper ends of the buckets, in seconds, ascending; there is one more without an end.
    bounds: &'static [f64],
    /// For each bucket, those that took no longer than its end, and longer than that of the one before.
    counts: Vec<AtomicU64>,
    /// All of them together, in microseconds: nanoseconds overflow after centuries, and people let questions wait.
    micros: AtomicU64,
}

/// What a [`Histogram`] came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// The end of each bucket in seconds, and how many took no longer.
    pub buckets: Vec<(f64, u64)>,
    /// How many there are in all.
    pub total: u64,
    /// How long they took together.
    pub sum: Duration,
}

impl Histogram {
    /// An empty one.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { bounds, counts, micros: AtomicU64::default() }
    }

    /// One more.
    pub fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Relaxed);
        }
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// What it came to. The buckets and the total are of one moment, the sum may be of a moment later.
    pub fn counted(&self) -> Counted {
        let mut total = 0;
        let so_far: Vec<u64> = self
            .counts
            .iter()
            .map(|count| {
                total += count.load(Relaxed);
                total
            })
            .collect();
        let buckets = self.bounds.iter().copied().zip(so_far).collect();
        Counted { buckets, total, sum: Duration::from_micros(self.micros.load(Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_counted_up_and_the_total_has_all() {
        let histogram = Histogram::new(&[0.1, 1.0]);
        for millis in [50, 100, 500, 5_000] {
            histogram.add(Duration::from_millis(millis));
        }
        let buckets = vec![(0.1, 2), (1.0, 3)];
        assert_eq!(histogram.counted(), Counted { buckets, total: 4, sum: Duration::from_millis(5_650) });
    }

    #[test]
    fn one_without_bounds_has_a_total_alone() {
        let histogram = Histogram::new(&[]);
        histogram.add(Duration::from_secs(2));
        assert_eq!(histogram.counted(), Counted { buckets: Vec::new(), total: 1, sum: Duration::from_secs(2) });
    }
}
