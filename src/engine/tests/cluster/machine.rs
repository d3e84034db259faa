//! The clocks of machines: none shows the same time, none goes as fast as another, and somebody sets some of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{BASE, Setting};
use crate::domain::cluster::Timings;
use crate::domain::seeds::{self, Random};
use crate::domain::{Error, Timestamp};
use crate::store::clock::Clock;
use crate::store::shared::database_clock::DatabaseClock;
use crate::store::simulated::LeftOut;
use crate::store::simulated::network::SimulatedConnection;

/// How far a clock on the wall may be off, either way, in milliseconds; how far it may be set.
const OFF: u64 = 180_000;
/// How much faster or slower than time a machine's clocks may go, in millionths: as no quartz does.
const DRIFT: u64 = 2_000;
/// When it may be set.
const SET_WITHIN: u64 = 120_000;
/// How long it is between two looks at the database's clock, as on PostgreSQL.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(10);

/// The database's clock, by which all others are judged.
pub struct TrueClock;

impl Clock for TrueClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(BASE + millis(passed()))
    }
}

/// A machine of a server.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// How far its clock on the wall is off at first.
    off: i64,
    /// When somebody sets it, and how far.
    set: (Duration, i64),
    /// How fast its clocks go, in millionths.
    pace: u32,
    /// How far what it hears of the database's clock is off, since the way there is slower than the way back.
    lag: i64,
}

/// The clock on the wall of a machine: what no server may go by.
struct OnTheWall(Machine);

impl Clock for OnTheWall {
    fn now(&self) -> Timestamp {
        let Machine { off, set: (at, by), .. } = self.0;
        let set = if passed() < at { 0 } else { by };
        Timestamp::from_millis(BASE + millis(self.0.steady()) + off + set)
    }
}

impl Machine {
    pub fn any(setting: Setting, random: &mut Random) -> Self {
        let mut either =
            |most: u64| i64::try_from(random.within(0..most * 2 + 1)).unwrap() - i64::try_from(most).unwrap();
        let (off, by, drift, lag) = (either(OFF), either(OFF), either(DRIFT), either(setting.skew_ms));
        let pace = u32::try_from(1_000_000 + drift).unwrap();
        Self { off, set: (Duration::from_millis(random.within(0..SET_WITHIN)), by), pace, lag }
    }

    /// How late it is by what goes on steadily there.
    fn steady(self) -> Duration {
        passed() * self.pace / 1_000_000
    }

    /// What times are to whoever measures them here: where clocks go fast, they are over soon.
    pub fn timings(self, timings: Timings) -> Timings {
        let here = |lasts: Duration| lasts * 1_000_000 / self.pace;
        Timings {
            beat: here(timings.beat),
            retry: here(timings.retry),
            patience: here(timings.patience),
            lease: here(timings.lease),
            kill: here(timings.kill),
            death: here(timings.death),
            gap: here(timings.gap),
            starve: here(timings.starve),
            looks: timings.looks,
        }
    }

    /// What a server on it takes for the time, once the database has said how late it is.
    pub async fn clock(self, setting: Setting, connection: SimulatedConnection) -> Result<Arc<dyn Clock>, Error> {
        if setting.left_out == Some(LeftOut::Time) {
            return Ok(Arc::new(OnTheWall(self)));
        }
        let clock = Arc::new(DatabaseClock::beside(move || self.steady()));
        self.look_at_clock(&clock, &connection).await?;
        let followed = Arc::downgrade(&clock);
        tokio::spawn(async move {
            loop {
                sleep(LOOK_AT_CLOCK).await;
                let Some(clock) = followed.upgrade() else { return };
                // The next look tells.
                drop(self.look_at_clock(&clock, &connection).await);
            }
        });
        Ok(clock)
    }

    async fn look_at_clock(self, clock: &DatabaseClock, connection: &SimulatedConnection) -> Result<(), Error> {
        if self.look_once(clock, connection).await? {
            self.look_once(clock, connection).await?;
        }
        Ok(())
    }

    /// Whether it is to be looked again at once.
    async fn look_once(self, clock: &DatabaseClock, connection: &SimulatedConnection) -> Result<bool, Error> {
        let asked = clock.moment();
        let now = connection.now().await?;
        Ok(clock.looked(asked, clock.moment(), now.millis() + self.lag))
    }
}

/// Since the world began.
fn passed() -> Duration {
    seeds::moment().unwrap_or_default()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}
