//! Notices of one session to one address go out one after the other: of those that have not, one says when it is tried. That
//! need not be the first, since one that was given up takes its old place when it is tried again.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::problem::{ProblemKind, StoreProblems};
use super::row::CheckedRow;

/// How many of the notices of a session to an address have a time.
#[derive(Default)]
pub(super) struct CheckedLanes(BTreeMap<(Uuid, String), u64>);

impl CheckedLanes {
    pub(super) fn notice(&mut self, row: &CheckedRow) {
        if row.text("status") != Some("pending") {
            return;
        }
        // Without one of these the row is no notice, which its store does not take.
        let (Some(session), Some(url)) = (row.id("session"), row.text("url")) else { return };
        *self.0.entry((session, url.to_owned())).or_default() += u64::from(row.has("due_at"));
    }

    pub(super) fn finish(self, problems: &mut StoreProblems) {
        for ((session, _), timed) in self.0 {
            // The address may hold a secret, and is not told.
            match timed {
                0 => problems.say(ProblemKind::Lane, Some(session), "no notice to an address has a time to go out at"),
                1 => {}
                _ => {
                    let what = format!("{timed} notices to one address have a time to go out at, and one may");
                    problems.say(ProblemKind::Lane, Some(session), what);
                }
            }
        }
    }
}
