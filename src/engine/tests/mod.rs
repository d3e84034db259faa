//! The rules of pausing, parking, recovery and retries, with workers that the tests play.

mod abandoned;
mod clocks;
#[cfg(feature = "failpoints")]
mod cluster;
mod commits;
mod compaction;
mod decisions;
mod due;
mod failovers;
mod journal;
mod late;
mod locks;
mod losses;
mod orphans;
mod others;
mod outages;
mod outbox;
mod parking;
mod policies;
mod polls;
mod prechecks;
mod races;
mod receiver;
mod reruns;
mod restarts;
mod retries;
mod scans;
mod spoiled;
mod statements;
mod steps;
mod stopping;
mod storm;
mod support;
mod sweeping;
mod waking;
