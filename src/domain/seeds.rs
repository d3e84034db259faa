//! Simulations: a seed decides over everything in a world, and is named where something goes wrong in it.

use std::ops::Range;

/// How many worlds a property looks at, unless `HITL_SIMULATED_SEEDS` says otherwise.
const SEEDS: u64 = 300;

/// Runs a world for each seed, one of `share` of all seeds: which of them came to something that `is_wrong`.
pub fn wrong<T>(share: u64, run: impl Fn(u64) -> T, is_wrong: impl Fn(&T) -> bool) -> Vec<u64> {
    let seeds = std::env::var("HITL_SIMULATED_SEEDS").map_or(SEEDS, |text| text.parse().expect("a number"));
    (0..seeds.div_ceil(share)).filter(|seed| is_wrong(&run(*seed))).collect()
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
