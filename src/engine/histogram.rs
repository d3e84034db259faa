//! Times, counted into buckets as Prometheus wants them.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct Histogram {
    /// Upper ends of the buckets, in seconds, ascending; there is one more without an end.
    bounds: &'static [f64],
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// For each bound, those that took no longer, and longer than the one before.
    counts: Vec<u64>,
    total: u64,
    sum: Duration,
}

impl Histogram {
    /// An empty one.
    pub fn new(bounds: &'static [f64]) -> Self {
        let times = Times { counts: vec![0; bounds.len()], total: 0, sum: Duration::ZERO };
        Self { bounds, times: Mutex::new(times) }
    }

    /// One more.
    pub fn add(&self, took: Duration) {
        let place = self.bounds.iter().position(|bound| took.as_secs_f64() <= *bound);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = place.and_then(|place| times.counts.get_mut(place)) {
            *count += 1;
        }
        times.total += 1;
        times.sum += took;
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let Times { counts, total, sum } = &*times;
        let (more, whole) = if labels.is_empty() {
            (String::new(), String::new())
        } else {
            (format!("{labels},"), format!("{{{labels}}}"))
        };
        let mut so_far = 0;
        for (bound, count) in self.bounds.iter().zip(counts) {
            so_far += count;
            let _ = writeln!(text, "{name}_bucket{{{more}le=\"{bound}\"}} {so_far}");
        }
        let _ = writeln!(text, "{name}_bucket{{{more}le=\"+Inf\"}} {total}");
        let _ = writeln!(text, "{name}_sum{whole} {}\n{name}_count{whole} {total}", sum.as_secs_f64());
    }
}

/// Histograms of one name, each with its labels (`a="b"`, or none), as Prometheus text. Writing to a String cannot fail.
pub fn write(text: &mut String, name: &str, help: &str, histograms: &[(&str, &Histogram)]) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
    for (labels, histogram) in histograms {
        histogram.write(text, name, labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_counted_up_and_the_last_has_all() {
        let histogram = Histogram::new(&[0.1, 1.0]);
        for millis in [50, 100, 500, 5_000] {
            histogram.add(Duration::from_millis(millis));
        }
        let mut text = String::new();
        let empty = Histogram::new(&[]);
        write(&mut text, "t_seconds", "Times.", &[("", &histogram), ("of=\"b\"", &empty)]);
        let expected = "# HELP t_seconds Times.\n# TYPE t_seconds histogram\n\
            t_seconds_bucket{le=\"0.1\"} 2\nt_seconds_bucket{le=\"1\"} 3\nt_seconds_bucket{le=\"+Inf\"} 4\n\
            t_seconds_sum 5.65\nt_seconds_count 4\n\
            t_seconds_bucket{of=\"b\",le=\"+Inf\"} 0\nt_seconds_sum{of=\"b\"} 0\nt_seconds_count{of=\"b\"} 0\n";
        assert_eq!(text, expected);
    }
}
