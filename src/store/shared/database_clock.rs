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
/// Over how long it is compared how fast both clocks go.
const PACE: Duration = Duration::from_secs(60);
/// A clock is steady that is off by less than this part of the time that has passed. Those that are left alone drift apart by
/// a fifth of it at most; what sets a clock right little by little may go to a hundred times of it.
const STEADY: i64 = 1000;
/// A clock was set that went off by more than this part of the time since the look before: none is slewed as fast.
const SET: i64 = 10;

/// What is told of the database's clock, once for each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockNews {
    /// It was set, or another database is there.
    Set,
    /// It goes faster than this machine's, or slower: so many milliseconds ahead of it, or behind where that is below 0, within
    /// so many seconds. It is slewed, or one of the two is wrong.
    Unsteady {
        /// How far.
        millis: i64,
        /// Within what.
        seconds: u64,
    },
    /// It goes as this machine's again.
    Steady,
}

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
    /// With what it is compared how fast the database's clock goes.
    paced_from: Option<ClockSample>,
    is_unsteady: bool,
    news: Option<ClockNews>,
}

/// A look at the database's clock.
#[derive(Debug, Clone, Copy)]
struct ClockSample {
    /// When it was, by the steady clock.
    at: Duration,
    took: Duration,
    /// How late it was by the database when the steady clock began, in milliseconds.
    at_origin: i64,
}

impl ClockSample {
    /// Whether one clock can have said both.
    fn agrees_with(&self, other: &Self) -> bool {
        self.ahead_of(other).saturating_abs() <= self.doubt(other)
    }

    /// How many milliseconds the database's clock has gone ahead of this machine's since `other`.
    fn ahead_of(&self, other: &Self) -> i64 {
        self.at_origin.saturating_sub(other.at_origin)
    }

    /// How much of that may be because the looks took their time.
    fn doubt(&self, other: &Self) -> i64 {
        whole(self.took + other.took).saturating_add(ROUNDED_MILLIS)
    }

    /// Whether it is too much to have come little by little since `other`.
    fn was_set_since(&self, other: &Self) -> bool {
        let most = whole(self.at.saturating_sub(other.at)) / SET;
        self.ahead_of(other).saturating_abs() > most.saturating_add(self.doubt(other))
    }
}

impl ClockState {
    /// Compares how fast both clocks go, once that shows through what the looks took.
    fn pace(&mut self, look: ClockSample) {
        let Some(from) = self.paced_from else {
            self.paced_from = Some(look);
            return;
        };
        let passed = look.at.saturating_sub(from.at);
        if passed < PACE {
            return;
        }
        let (ahead, doubt, most) = (look.ahead_of(&from), look.doubt(&from), whole(passed) / STEADY);
        let off = ahead.saturating_abs();
        let is_unsteady = if off.saturating_sub(doubt) > most {
            true
        } else if off.saturating_add(doubt) <= most {
            false
        } else {
            if look.took < from.took {
                self.paced_from = Some(look);
            }
            return;
        };
        if is_unsteady != self.is_unsteady {
            let unsteady = ClockNews::Unsteady { millis: ahead, seconds: passed.as_secs() };
            self.news = Some(if is_unsteady { unsteady } else { ClockNews::Steady });
        }
        (self.is_unsteady, self.paced_from) = (is_unsteady, Some(look));
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
        let (looks, doubtful, told) = (Vec::new(), None, i64::MIN);
        let state = ClockState { before, looks, doubtful, told, paced_from: None, is_unsteady: false, news: None };
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
        let at = asked + took / 2;
        let look = ClockSample { at, took, at_origin: millis.saturating_sub(whole(at)) };
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
            Some(last) => match doubtful.filter(|doubtful| doubtful.agrees_with(&look)) {
                Some(first) => {
                    if first.was_set_since(last) {
                        (state.news, state.paced_from) = (Some(ClockNews::Set), None);
                    }
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
        state.pace(look);
        false
    }

    /// What is to be told since this was asked last.
    pub fn news(&self) -> Option<ClockNews> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).news.take()
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

        /// A look, and another one where it is doubtful; what is to be told then.
        fn follow(&self, took: u64) -> Option<ClockNews> {
            if self.look(took) {
                self.look(took);
            }
            self.clock.news()
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
    fn clocks_that_drift_apart_are_followed_and_nothing_is_told() {
        let mut machine = Machine::new();
        for _ in 0..100 {
            assert_eq!(machine.follow(2), None);
            assert!(machine.ahead().abs() <= 20, "{}", machine.ahead());
            machine.pass(10_000);
            machine.database += 5;
        }
    }

    #[test]
    fn a_clock_that_was_set_is_told_once() {
        for step in [HOUR, -HOUR, 2_000, -2_000] {
            let mut machine = Machine::new();
            let mut told = Vec::new();
            for look in 0..100 {
                machine.database += if look == 50 { step } else { 0 };
                told.extend(machine.follow(4));
                machine.pass(10_000);
            }
            assert_eq!(told, [ClockNews::Set], "{step}");
        }
    }

    #[test]
    fn a_clock_that_is_slewed_is_told_when_it_begins_and_when_it_is_over() {
        // Whether the looks show it at once or take too long for that.
        for (took, each) in [(0, 20), (4, -100), (4, 800), (200, 100), (200, -800)] {
            let mut machine = Machine::new();
            let mut told = Vec::new();
            for look in 0..300 {
                machine.database += if (100..200).contains(&look) { each } else { 0 };
                told.extend(machine.follow(took).map(|news| (look, news)));
                machine.pass(10_000);
            }
            let [(began, ClockNews::Unsteady { millis, seconds }), (over, ClockNews::Steady)] = told[..] else {
                panic!("{took} {each}: {told:?}")
            };
            assert!((100..=112).contains(&began) && (200..=280).contains(&over), "{took} {each}: {told:?}");
            assert!(millis.signum() == each.signum() && (60..=400).contains(&seconds), "{took} {each}: {told:?}");
        }
    }

    #[test]
    fn a_look_that_took_long_does_not_end_what_is_told() {
        let mut machine = Machine::new();
        let mut told = Vec::new();
        for look in 0..100 {
            machine.database += 100;
            told.extend(machine.follow(if look % 7 == 6 { 3_000 } else { 4 }));
            machine.pass(10_000);
        }
        assert!(matches!(told[..], [ClockNews::Unsteady { .. }]), "{told:?}");
    }
}
