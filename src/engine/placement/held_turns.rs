//! The turns that are held: said by their workers, and shown.

use crate::domain::TurnId;
use crate::engine::placement::Placement;
use crate::engine::ports::held::{Held, HeldTurn};
use crate::engine::telling::view::SessionView;

/// How many turns that are held `GET /health` names.
const SHOWN: usize = 20;

impl Placement {
    /// See [`crate::engine::ports::dispatch::TurnInbox::turn_held`].
    pub fn turn_held(&self, turn: TurnId, epoch: u64, held: Held) {
        let Some(standing) = self.standing(turn, epoch) else { return };
        let by = held.by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let what = match (held.replay, held.at_work) {
            (true, _) => "the replay of a turn waits",
            (false, true) => "a turn that waits for a person stays in memory, since it is at work",
            (false, false) => "a turn that waits for a person stays in memory for --hold",
        };
        tracing::info!(session = %standing.session, by, "{what}");
        self.hold(turn, epoch, held);
    }

    /// A session with what the replay of its turn waits for, which no store knows.
    pub(in crate::engine) fn with_waits(&self, mut view: SessionView) -> SessionView {
        if let Some(turn) = view.session.turn() {
            let waits_for = self.replay_waits_for(turn);
            if !waits_for.is_empty() {
                view.replay.get_or_insert_default().waits_for = waits_for;
            }
        }
        view
    }

    /// How many turns are held, and the first of them.
    pub(in crate::engine) fn held_turns(&self) -> (usize, Vec<HeldTurn>) {
        let mut held = self.held();
        let count = held.len();
        held.sort_unstable_by_key(|turn| turn.session_id);
        held.truncate(SHOWN);
        (count, held)
    }
}
