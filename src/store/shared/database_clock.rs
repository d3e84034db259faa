//! The time, by the database: many servers compare times with each other, and none of their own clocks is asked.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::Timestamp;
use crate::store::clock::{Clock, WallClock};

/// How many looks at the database's clock are compared: the quickest of them is off by the least.
const LOOKS: usize = 8;

/// This machine's steady clock, and how far it is from the database's.
pub struct DatabaseClock {
    /// How long it is since the beginning of something, by whatever goes on steadily.
    steady: Box<dyn Fn() -> Duration + Send + Sync>,
    state: Mutex<ClockState>,
}

#[derive(Debug)]
struct ClockState {
    /// How long each look took, and what the database's clock said at the beginning, in milliseconds; the newest is the last.
    looks: Vec<(Duration, i64)>,
    /// The last time that was told: it never goes back.
    told: i64,
}

impl Default for DatabaseClock {
    fn default() -> Self {
        let origin = Instant::now();
        Self::beside(move || origin.elapsed())
    }
}

impl DatabaseClock {
    /// On a machine with that steady clock.
    pub fn beside(steady: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        // Until the database has said something.
        let start = WallClock.now().millis();
        let state = ClockState { looks: vec![(Duration::MAX, start)], told: 0 };
        Self { steady: Box::new(steady), state: Mutex::new(state) }
    }

    /// The moment it is, for [`DatabaseClock::looked`].
    pub fn moment(&self) -> Duration {
        (self.steady)()
    }

    /// Between these two moments, the database said that it is so late.
    pub fn looked(&self, asked: Duration, replied: Duration, millis: i64) {
        let took = replied.saturating_sub(asked);
        let at_origin = millis.saturating_sub(whole(asked + took / 2));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.looks.retain(|(took, _)| *took != Duration::MAX);
        if state.looks.len() >= LOOKS {
            state.looks.remove(0);
        }
        state.looks.push((took, at_origin));
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let at_origin = state.looks.iter().min_by_key(|(took, _)| *took).map_or(0, |(_, at_origin)| *at_origin);
        let now = at_origin.saturating_add(whole(self.moment()));
        state.told = state.told.max(now);
        Timestamp::from_millis(state.told)
    }
}

fn whole(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_late_as_the_quickest_look_said_and_never_earlier_than_before() {
        let clock = DatabaseClock::default();
        let start = Duration::ZERO;
        clock.looked(start, start + Duration::from_secs(4), 9_000_000_000_000);
        clock.looked(start, start + Duration::from_millis(2), 5_000_000_000_001);
        let now = clock.now().millis();
        assert!((5_000_000_000_000..5_000_000_060_000).contains(&now), "{now}");
        // The database is another one now, whose clock is an hour behind.
        for _ in 0..LOOKS {
            clock.looked(start, start + Duration::from_millis(1), 4_999_996_400_000);
        }
        assert!(clock.now().millis() >= now);
    }
}
