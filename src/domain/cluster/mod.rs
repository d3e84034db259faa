//! Servers that share a store: which of them may act, and which of them is dead.
//!
//! A server keeps a row of its own and counts it up, a *beat* at a time. Clocks of different machines are never compared:
//! each measures on its own, one since when it has not reached the store ([`lease`]), the others since when its count
//! stands still ([`watch`]). The first of these times is the shorter one ([`Timings`]), so whoever is called dead has
//! stopped acting by then. That spares work which would run twice; what makes a turn's journal safe is its fence, which a
//! server loses with the row, and which holds for a server that was frozen in the middle of something, too.
//!
//! Held by a simulation of several servers over one store: clocks that run at different rates, requests that are lost,
//! late or answered to nobody, servers that stop, freeze and go on (`simulation`).

pub mod lease;
pub mod routing;
pub mod watch;

#[cfg(test)]
mod simulation;

use std::time::Duration;

/// A moment on the monotonic clock of one process: the time since one that it chose. It goes on while the process is
/// stopped, and while the machine sleeps.
pub type Moment = Duration;

/// How long servers have for what keeps them alive. All are of the process's own monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// From the start of one beat that succeeded to the next one.
    pub beat: Duration,
    /// From a beat that failed to the next try.
    pub retry: Duration,
    /// How long a beat is waited for before it has failed.
    pub patience: Duration,
    /// From the start of its last good beat a server acts for this long: it answers requests and its turns are at work.
    pub lease: Duration,
    /// From the end of its lease until its last worker is killed.
    pub kill: Duration,
    /// Who has not been counted up for this long is dead.
    pub death: Duration,
    /// ... and for so many looks at it after the first.
    pub looks: u32,
    /// Whoever has not looked for this long has seen nothing: it was stopped or cut off itself.
    pub gap: Duration,
    /// For how long a turn that could go on is left to servers with the code that recorded it, all of which have no slot.
    pub starve: Duration,
}

impl Timings {
    /// What servers use.
    pub const USUAL: Self = Self {
        beat: Duration::from_secs(2),
        retry: Duration::from_millis(500),
        patience: Duration::from_millis(1500),
        lease: Duration::from_secs(6),
        kill: Duration::from_millis(500),
        death: Duration::from_secs(10),
        looks: 4,
        gap: Duration::from_secs(3),
        starve: Duration::from_secs(30),
    };

    /// The same ratios, everything `times` faster. For tests of several processes.
    pub fn faster(self, times: u32) -> Self {
        Self {
            beat: self.beat / times,
            retry: self.retry / times,
            patience: self.patience / times,
            lease: self.lease / times,
            kill: self.kill / times,
            death: self.death / times,
            looks: self.looks,
            gap: self.gap / times,
            starve: self.starve / times,
        }
    }

    /// After how long at most a server that is gone is found dead, where another one reaches the store all the time: its
    /// last beat was seen up to a beat after it was made. What messages take comes to it.
    pub fn takeover(&self) -> Duration {
        self.death + self.beat
    }
}
