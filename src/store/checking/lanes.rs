//! Notices of one session to one address go out in order: the first of them says when, and no other does.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::problem::{ProblemKind, StoreProblems};
use super::row::CheckedRow;

#[derive(Default)]
pub(super) struct CheckedLanes(BTreeMap<(Uuid, String), CheckedLane>);

#[derive(Default)]
struct CheckedLane {
    /// The number of the first notice that has not gone out, and whether it says when it is tried.
    first: Option<(i64, bool)>,
    /// How many say so.
    timed: u64,
}

impl CheckedLanes {
    pub(super) fn notice(&mut self, row: &CheckedRow) {
        if row.text("status") != Some("pending") {
            return;
        }
        // Without one of these the row is no notice, which its store does not take.
        let (Some(session), Some(url), Some(seq)) = (row.id("session"), row.text("url"), row.number("seq")) else {
            return;
        };
        let lane = self.0.entry((session, url.to_owned())).or_default();
        let is_timed = row.has("due_at");
        lane.timed += u64::from(is_timed);
        if lane.first.is_none_or(|(first, _)| seq < first) {
            lane.first = Some((seq, is_timed));
        }
    }

    pub(super) fn finish(self, problems: &mut StoreProblems) {
        for ((session, _), lane) in self.0 {
            // The address may hold a secret, and is not told.
            if lane.first.is_some_and(|(_, is_timed)| !is_timed) {
                problems.say(
                    ProblemKind::Lane,
                    Some(session),
                    "its first notice to an address has no time to go out at",
                );
            } else if lane.timed > 1 {
                let what = format!("{} notices to one address have a time to go out at, and one may", lane.timed);
                problems.say(ProblemKind::Lane, Some(session), what);
            }
        }
    }
}
