//! Several servers, one store, and a network that loses, delays and holds what it is given: whoever is called dead acts
//! no more, whoever is gone is called dead, and nobody else.
//!
//! Everything happens in one queue of events in true time, which nobody in the simulation knows; each server has a clock of
//! its own that starts anywhere and runs too fast or too slowly. A seed decides over everything, and is named where a run
//! fails. `HITL_SIMULATED_SEEDS=1000000` runs as many.

mod properties;
mod world;

use std::ops::Range;

/// SplitMix64: a few lines, the same numbers everywhere, and every seed is as good as another.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    fn chance(&mut self, per_cent: u64) -> bool {
        self.within(0..100) < per_cent
    }
}
