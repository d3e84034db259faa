//! Simulations: a seed decides over everything in a world, and is named where something goes wrong in it.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use uuid::Uuid;

/// How many worlds a property looks at, unless `HITL_SIMULATED_SEEDS` says otherwise.
const SEEDS: u64 = 300;

/// Runs a world for each seed, one of `share` of all seeds: which of them came to something that `is_wrong`.
pub fn wrong<T>(share: u64, run: impl Fn(u64) -> T, is_wrong: impl Fn(&T) -> bool) -> Vec<u64> {
    of_share(share).filter(|seed| is_wrong(&run(*seed))).collect()
}

/// One of `share` of all seeds, or the one that alone is asked for.
pub fn of_share(share: u64) -> Range<u64> {
    only().map_or(0..number("HITL_SIMULATED_SEEDS", SEEDS).div_ceil(share), |seed| seed..seed + 1)
}

/// The seed that alone is asked for (`HITL_SIMULATED_SEED`), if one is.
pub fn only() -> Option<u64> {
    let seed = std::env::var("HITL_SIMULATED_SEED").ok()?;
    Some(seed.parse().expect("a number"))
}

/// So many seeds, unless `HITL_SIMULATED_SEEDS` says how many, from the first on or that of `HITL_SIMULATED_FROM`.
pub fn of_worlds(usual: u64) -> Range<u64> {
    let first = number("HITL_SIMULATED_FROM", 0);
    first..first + number("HITL_SIMULATED_SEEDS", usual)
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// SplitMix64: a few lines, the same numbers everywhere, and every seed is as good as another.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number of all there are.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of the range.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.draw() % (range.end - range.start)
    }

    /// Whether it happens, this time.
    pub fn chance(&mut self, per_cent: u64) -> bool {
        self.within(0..100) < per_cent
    }
}

thread_local! {
    static DRAWN: RefCell<Option<Drawn>> = const { RefCell::new(None) };
}

/// What a world on one thread has instead of a machine's clock and chance.
struct Drawn {
    random: Random,
    ids: u128,
    now: fn() -> Duration,
}

/// From here on this thread draws its ids from `seed` and has the time from `now`: a world that is run twice comes to the
/// same.
pub fn enter(seed: u64, now: fn() -> Duration) {
    DRAWN.set(Some(Drawn { random: Random(seed), ids: 0, now }));
}

/// The next id, where a seed decides over it: later ones are larger, as those of the clock are.
pub fn id() -> Option<Uuid> {
    DRAWN.try_with(|drawn| drawn.borrow_mut().as_mut().map(Drawn::id)).ok().flatten()
}

/// The moment, where a world decides over it.
pub fn moment() -> Option<Duration> {
    let now = DRAWN.try_with(|drawn| drawn.borrow().as_ref().map(|drawn| drawn.now)).ok().flatten()?;
    Some(now())
}

impl Drawn {
    fn id(&mut self) -> Uuid {
        self.ids += 1;
        uuid::Builder::from_u128((self.ids << 80) | u128::from(self.random.draw()))
            .with_version(uuid::Version::SortRand)
            .into_uuid()
    }
}
