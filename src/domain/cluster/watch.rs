//! Which of the other servers are dead.

use std::collections::BTreeMap;

use super::{Moment, Timings};

/// What one server has seen of the others' counts.
///
/// `S` is the name of a server's life: what starts again has another one.
#[derive(Debug, Clone)]
pub struct Watch<S> {
    timings: Timings,
    seen: BTreeMap<S, Seen>,
    last: Option<Moment>,
}

/// A count, and since when it has been the same.
#[derive(Debug, Clone, Copy)]
struct Seen {
    beat: u64,
    since: Moment,
    looks: u32,
}

/// A server that seems to be dead. It is, once its row says so, which may be written only where the row's count is still
/// `beat`: a server that has come back meanwhile lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspect<S> {
    /// Whose row.
    pub server: S,
    /// What it has to be at.
    pub beat: u64,
}

impl<S: Ord + Copy> Watch<S> {
    /// Of a server that has seen nobody yet.
    pub fn new(timings: Timings) -> Self {
        Self { timings, seen: BTreeMap::new(), last: None }
    }

    /// The counts of the others, as they were in one snapshot that was asked for at `begun` and had at `ended`; comes to
    /// those who seem to be dead.
    ///
    /// A count was seen *since* the end of the look that had it first, and stands still *until* the beginning of this one:
    /// so the store has held it at least as long as is measured here.
    pub fn look(
        &mut self,
        begun: Moment,
        ended: Moment,
        counts: impl IntoIterator<Item = (S, u64)>,
    ) -> Vec<Suspect<S>> {
        if self.last.is_none_or(|last| ended.saturating_sub(last) > self.timings.gap) {
            self.seen.clear();
        }
        self.last = Some(ended);
        let before = std::mem::take(&mut self.seen);
        let mut suspects = Vec::new();
        for (server, beat) in counts {
            let seen = match before.get(&server) {
                Some(seen) if seen.beat == beat => Seen { looks: seen.looks + 1, ..*seen },
                _ => Seen { beat, since: ended, looks: 0 },
            };
            if seen.looks >= self.timings.looks && begun.saturating_sub(seen.since) >= self.timings.death {
                suspects.push(Suspect { server, beat });
            }
            self.seen.insert(server, seen);
        }
        suspects
    }

    /// Forgets what was seen, by somebody whose own beats are not counted: those of the others may not be either, however well the
    /// store tells what it holds. Each has all of its time again once they are.
    pub fn forget(&mut self) {
        self.seen.clear();
    }

    /// When somebody who has been seen to stand still can be found dead, by a look that begins then; for after the last
    /// look, which began at `begun`, and perhaps over by now. It is worth a look of its own: the time between two beats
    /// would come to what a takeover takes.
    pub fn decides_after(&self, begun: Moment) -> Option<Moment> {
        let standing = self.seen.values().filter(|seen| seen.looks > 0);
        standing.map(|seen| seen.since + self.timings.death).filter(|at| *at > begun).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Timings = Timings::USUAL;

    /// Looks that are answered at once, every two seconds from 0, at one server; when it seems to be dead, if ever.
    fn suspected(counts: &[u64]) -> Option<u64> {
        let mut watch = Watch::new(T);
        counts.iter().enumerate().find_map(|(number, count)| {
            let now = T.beat * u32::try_from(number).expect("a few looks");
            let suspects = watch.look(now, now, [('a', *count)]);
            (!suspects.is_empty()).then_some(now.as_secs())
        })
    }

    #[test]
    fn a_count_that_stands_still_for_its_time_is_that_of_a_dead_server() {
        assert_eq!(suspected(&[7, 7, 7, 7, 7, 7, 7]), Some(10));
        assert_eq!(suspected(&[7, 8, 8, 8, 8, 8, 8, 8]), Some(12));
    }

    #[test]
    fn a_count_that_moves_is_that_of_a_living_one_however_slowly() {
        assert_eq!(suspected(&[1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4]), None);
    }

    #[test]
    fn the_time_between_two_looks_counts_for_less_than_it_lasts() {
        let mut watch = Watch::new(T);
        let at = Moment::from_secs;
        // The first was answered a second after it was asked for.
        assert_eq!(watch.look(at(0), at(1), [('a', 7)]), []);
        for second in [3, 5, 7, 9] {
            assert_eq!(watch.look(at(second), at(second), [('a', 7)]), []);
        }
        // 10.5 s after the first, but only 9.5 s since it was seen; and this one was answered late.
        assert_eq!(watch.look(Moment::from_millis(10_500), at(12), [('a', 7)]), []);
        assert_eq!(watch.look(at(12), at(12), [('a', 7)]), [Suspect { server: 'a', beat: 7 }]);
    }

    #[test]
    fn time_alone_is_not_enough_without_looks() {
        let mut watch = Watch::new(Timings { gap: Moment::from_secs(60), ..T });
        let at = Moment::from_secs;
        assert_eq!(watch.look(at(0), at(0), [('a', 7)]), []);
        for second in [20, 21, 22] {
            assert_eq!(watch.look(at(second), at(second), [('a', 7)]), []);
        }
        assert_eq!(watch.look(at(23), at(23), [('a', 7)]), [Suspect { server: 'a', beat: 7 }]);
    }

    #[test]
    fn whoever_did_not_look_for_a_while_has_seen_nothing() {
        let mut watch = Watch::new(T);
        let at = Moment::from_secs;
        for second in [0, 2, 4, 6, 8] {
            assert_eq!(watch.look(at(second), at(second), [('a', 7)]), []);
        }
        // It was stopped for four seconds, and so may the other have been, or the store.
        for second in [12, 14, 16, 18, 20] {
            assert_eq!(watch.look(at(second), at(second), [('a', 7)]), []);
        }
        assert_eq!(watch.look(at(22), at(22), [('a', 7)]), [Suspect { server: 'a', beat: 7 }]);
    }

    #[test]
    fn a_look_is_due_when_it_can_decide_over_somebody() {
        let mut watch = Watch::new(Timings { gap: Moment::from_secs(60), ..T });
        let at = Moment::from_secs;
        watch.look(at(0), at(1), [('a', 7), ('b', 0)]);
        assert_eq!(watch.decides_after(at(0)), None);
        watch.look(at(2), at(3), [('a', 7), ('b', 1)]);
        assert_eq!(watch.decides_after(at(2)), Some(at(11)));
        // One that begins too soon and is answered after that moment has missed it.
        assert_eq!(watch.look(at(10), at(12), [('a', 7), ('b', 2)]), []);
        assert_eq!(watch.decides_after(at(10)), Some(at(11)));
        assert_eq!(watch.decides_after(at(11)), None);
    }

    #[test]
    fn who_is_not_there_any_more_is_forgotten() {
        let mut watch = Watch::new(T);
        let at = Moment::from_secs;
        for second in [0, 2, 4, 6, 8] {
            assert_eq!(watch.look(at(second), at(second), [('a', 7)]), []);
        }
        assert_eq!(watch.look(at(10), at(10), []), []);
        assert_eq!(watch.look(at(12), at(12), [('a', 7)]), []);
    }

    #[test]
    fn each_is_told_from_the_others() {
        let mut watch = Watch::new(T);
        for number in 0..5 {
            let now = T.beat * number;
            assert_eq!(watch.look(now, now, [('a', 7), ('b', u64::from(number))]), []);
        }
        let now = T.beat * 5;
        assert_eq!(watch.look(now, now, [('a', 7), ('b', 5)]), [Suspect { server: 'a', beat: 7 }]);
    }
}
