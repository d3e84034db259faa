//! How long a server may act.

use super::{Moment, Timings};

/// What a server knows of its own standing: [`Self::may_act`] is asked before anything that others could do, too.
#[derive(Debug, Clone)]
pub struct ServerLease {
    timings: Timings,
    standing: LeaseState,
}

/// Where a server stands with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    /// It has not reached the store yet.
    Unproved,
    /// It was alive, for the store, at some moment after this one.
    Proved(Moment),
    /// It was called dead. What comes to life again is another server.
    Buried,
}

/// What came of a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// The row was counted up.
    Counted,
    /// The row is that of a dead server, or is not there.
    Refused,
    /// Nobody knows: no answer came in time, or an error did.
    Failed,
}

impl ServerLease {
    /// Of a server that has not reached the store yet.
    pub fn new(timings: Timings) -> Self {
        Self { timings, standing: LeaseState::Unproved }
    }

    /// What came of the beat that was sent at `begun`, however late that is known. It proves the server alive from when it
    /// was sent, not from when it was answered: the store may have counted at any moment between the two.
    pub fn told(&mut self, begun: Moment, beat: Beat) {
        self.standing = match (self.standing, beat) {
            (LeaseState::Buried, _) | (_, Beat::Refused) => LeaseState::Buried,
            (LeaseState::Proved(before), Beat::Counted) => LeaseState::Proved(before.max(begun)),
            (LeaseState::Unproved, Beat::Counted) => LeaseState::Proved(begun),
            (standing, Beat::Failed) => standing,
        };
    }

    /// Whether the server may do what is the living's: answer, claim, let turns work.
    pub fn may_act(&self, now: Moment) -> bool {
        self.ends().is_some_and(|end| now < end)
    }

    /// Until when it may, as far as is known; `None` before the first beat, and after its burial.
    pub fn ends(&self) -> Option<Moment> {
        match self.standing {
            LeaseState::Proved(since) => Some(since + self.timings.lease),
            LeaseState::Unproved | LeaseState::Buried => None,
        }
    }

    /// Whether it was called dead: it does nothing any more under this name.
    pub fn is_buried(&self) -> bool {
        self.standing == LeaseState::Buried
    }

    /// When the next beat is due after the one that was sent at `begun` and came to `beat` at `ended`; `None` for a server
    /// that was called dead.
    pub fn next_beat(&self, begun: Moment, ended: Moment, beat: Beat) -> Option<Moment> {
        match beat {
            Beat::Counted => Some(begun + self.timings.beat),
            Beat::Failed => Some(ended + self.timings.retry),
            Beat::Refused => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Timings = Timings::USUAL;

    fn at(seconds: u64) -> Moment {
        Moment::from_secs(seconds)
    }

    #[test]
    fn nobody_acts_before_the_store_has_counted_a_beat() {
        let mut lease = ServerLease::new(T);
        assert!(!lease.may_act(at(0)));
        lease.told(at(0), Beat::Failed);
        assert!(!lease.may_act(at(1)));
        lease.told(at(1), Beat::Counted);
        assert!(lease.may_act(at(1)));
    }

    #[test]
    fn a_beat_lasts_from_when_it_was_sent() {
        let mut lease = ServerLease::new(T);
        lease.told(at(10), Beat::Counted);
        assert_eq!(lease.ends(), Some(at(16)));
        assert!(lease.may_act(at(15)));
        assert!(!lease.may_act(at(16)));
    }

    #[test]
    fn a_beat_that_is_answered_after_its_time_lets_nobody_act() {
        let mut lease = ServerLease::new(T);
        lease.told(at(10), Beat::Counted);
        // Sent at 12, known at 30.
        lease.told(at(12), Beat::Counted);
        assert!(!lease.may_act(at(30)));
    }

    #[test]
    fn answers_that_come_in_another_order_take_nothing_back() {
        let mut lease = ServerLease::new(T);
        lease.told(at(12), Beat::Counted);
        lease.told(at(10), Beat::Counted);
        assert_eq!(lease.ends(), Some(at(18)));
    }

    #[test]
    fn a_beat_that_fails_changes_nothing_and_is_tried_again_sooner() {
        let mut lease = ServerLease::new(T);
        lease.told(at(10), Beat::Counted);
        lease.told(at(12), Beat::Failed);
        assert_eq!(lease.ends(), Some(at(16)));
        assert_eq!(lease.next_beat(at(12), at(13), Beat::Failed), Some(Moment::from_millis(13_500)));
        assert_eq!(lease.next_beat(at(12), at(13), Beat::Counted), Some(at(14)));
    }

    #[test]
    fn who_was_called_dead_stays_so() {
        let mut lease = ServerLease::new(T);
        lease.told(at(10), Beat::Counted);
        lease.told(at(12), Beat::Refused);
        assert!(lease.is_buried());
        assert!(!lease.may_act(at(12)));
        lease.told(at(13), Beat::Counted);
        assert!(!lease.may_act(at(13)));
        assert_eq!(lease.next_beat(at(12), at(12), Beat::Refused), None);
    }
}
