//! The time, by the database: many servers compare times with each other, and none of their own clocks is asked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::domain::Timestamp;
use crate::store::clock::{Clock, WallClock};

/// How many looks at the database's clock are compared: the quickest of them is off by the least.
const LOOKS: usize = 8;
/// How much two looks that took no time may differ: what they found is rounded.
const ROUNDED_MILLIS: i64 = 2;

/// This machine's steady clock, and how far it is from the database's.
pub struct DatabaseClock {
    /// How long it is since the beginning of something, by whatever goes on steadily.
    steady: Box<dyn Fn() -> Duration + Send + Sync>,
    state: Mutex<ClockState>,
}

#[derive(Debug)]
struct ClockState {
    /// How late it was by the database when the steady clock began, as this machine's own clock has it: until the database has
    /// said something.
    before: i64,
    /// What was found last, of which nothing contradicts what came after it; the newest is the last.
    looks: Vec<ClockSample>,
    /// What contradicts the last of these. The database's clock was set, or another database is there, once a second look
    /// agrees with it.
    doubtful: Option<ClockSample>,
    /// The last time that was told: it goes back only where the database's clock does.
    told: i64,
}

/// A look at the database's clock.
#[derive(Debug, Clone, Copy)]
struct ClockSample {
    took: Duration,
    /// How late it was by the database when the steady clock began, in milliseconds.
    at_origin: i64,
}

impl ClockSample {
    /// Whether one clock can have said both.
    fn agrees_with(&self, other: &Self) -> bool {
        let most = whole(self.took + other.took).saturating_add(ROUNDED_MILLIS);
        self.at_origin.saturating_sub(other.at_origin).saturating_abs() <= most
    }
}

impl Default for DatabaseClock {
    fn default() -> Self {
        Self::beside(since_boot)
    }
}

impl DatabaseClock {
    /// On a machine with that steady clock.
    pub fn beside(steady: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let before = WallClock.now().millis().saturating_sub(whole(steady()));
        let state = ClockState { before, looks: Vec::new(), doubtful: None, told: i64::MIN };
        Self { steady: Box::new(steady), state: Mutex::new(state) }
    }

    /// The moment it is, for [`DatabaseClock::looked`].
    pub fn moment(&self) -> Duration {
        (self.steady)()
    }

    /// Between these two moments, the database said that it is so late. Whether that is doubtful: it contradicts what was found
    /// before, and is believed once another look, which is due at once, has found the same.
    pub fn looked(&self, asked: Duration, replied: Duration, millis: i64) -> bool {
        let took = replied.saturating_sub(asked);
        let look = ClockSample { took, at_origin: millis.saturating_sub(whole(asked + took / 2)) };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let doubtful = state.doubtful.take();
        match state.looks.last() {
            Some(last) if last.agrees_with(&look) => {
                // Steady clocks drift apart, and what was found long ago is not true any more.
                state.looks.retain(|earlier| earlier.agrees_with(&look));
                if state.looks.len() >= LOOKS {
                    state.looks.remove(0);
                }
                state.looks.push(look);
            }
            Some(_) => match doubtful.filter(|doubtful| doubtful.agrees_with(&look)) {
                Some(first) => {
                    state.looks = vec![first, look];
                    state.told = i64::MIN;
                }
                None => {
                    state.doubtful = Some(look);
                    return true;
                }
            },
            None => {
                state.looks.push(look);
                state.told = i64::MIN;
            }
        }
        false
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Of those that are as quick the newest.
        let quickest = state.looks.iter().rev().min_by_key(|look| look.took);
        let at_origin = quickest.map_or(state.before, |look| look.at_origin);
        let now = at_origin.saturating_add(whole(self.moment()));
        state.told = state.told.max(now);
        Timestamp::from_millis(state.told)
    }
}

/// The moment it is on a clock of this machine that goes on while the process is stopped and while the machine sleeps.
pub(super) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn whole(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// What the database says first.
    const NOON: i64 = 5_000_000_000_000;
    const HOUR: i64 = 3_600_000;

    /// A machine whose steady clock goes on when the test says so, beside a database.
    struct Machine {
        steady: Arc<AtomicU64>,
        clock: DatabaseClock,
        /// How late it is by the database when the steady clock begins.
        database: i64,
    }

    impl Machine {
        fn new() -> Self {
            let steady = Arc::new(AtomicU64::new(0));
            let of_clock = Arc::clone(&steady);
            let clock = DatabaseClock::beside(move || Duration::from_millis(of_clock.load(Ordering::Relaxed)));
            Self { steady, clock, database: NOON }
        }

        fn pass(&self, millis: u64) {
            self.steady.fetch_add(millis, Ordering::Relaxed);
        }

        /// A look that takes so long, and as long there as back; whether it is doubtful.
        fn look(&self, took: u64) -> bool {
            let asked = self.clock.moment();
            self.pass(took / 2);
            let said = self.database_now();
            self.pass(took / 2);
            self.clock.looked(asked, self.clock.moment(), said)
        }

        fn database_now(&self) -> i64 {
            self.database + whole(self.clock.moment())
        }

        fn ahead(&self) -> i64 {
            self.clock.now().millis() - self.database_now()
        }
    }

    #[test]
    fn it_is_as_late_as_the_quickest_look_said() {
        let clock = DatabaseClock::default();
        let start = clock.moment();
        clock.looked(start, start + Duration::from_secs(4), NOON + 1_000);
        assert!(!clock.looked(start, start + Duration::from_millis(2), NOON + 1));
        clock.looked(start, start + Duration::from_secs(4), NOON + 3_000);
        let now = clock.now().millis();
        assert!((NOON..NOON + 60_000).contains(&now), "{now}");
    }

    #[test]
    fn between_looks_it_never_goes_back() {
        let machine = Machine::new();
        let start = machine.clock.moment();
        // Half a second late, and nobody can know it.
        machine.clock.looked(start, start + Duration::from_secs(1), NOON + 1_000);
        let now = machine.clock.now();
        assert!(!machine.look(0));
        assert_eq!(machine.clock.now(), now);
        machine.pass(10_000);
        assert_eq!(machine.ahead(), 0);
    }

    #[test]
    fn a_step_of_the_databases_clock_is_believed_at_the_second_look() {
        for step in [HOUR, -HOUR, 500, -500] {
            let mut machine = Machine::new();
            for _ in 0..LOOKS {
                assert!(!machine.look(4));
                machine.pass(10_000);
            }
            assert_eq!(machine.ahead(), 0);
            machine.database += step;
            assert!(machine.look(30), "it is to be looked again");
            assert_eq!(machine.ahead(), -step, "one alone may be mistaken");
            assert!(!machine.look(30));
            assert_eq!(machine.ahead(), 0, "{step}");
        }
    }

    #[test]
    fn a_look_that_nothing_agrees_with_changes_nothing() {
        let mut machine = Machine::new();
        machine.look(4);
        for step in [HOUR, -HOUR, 2 * HOUR] {
            machine.database += step;
            assert!(machine.look(4));
            machine.database -= step;
            assert_eq!(machine.ahead(), 0);
        }
        assert!(!machine.look(4));
        machine.database += 2 * HOUR;
        assert!(machine.look(4), "what was said before the last look that agreed is forgotten");
    }

    #[test]
    fn clocks_that_drift_apart_are_followed() {
        let mut machine = Machine::new();
        for _ in 0..100 {
            if machine.look(2) {
                machine.look(2);
            }
            assert!(machine.ahead().abs() <= 20, "{}", machine.ahead());
            machine.pass(10_000);
            machine.database += 5;
        }
    }
}
