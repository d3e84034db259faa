//! What keeps turns that could rest: raw I/O, threads and bodies of steps beside an open question, or under a replay. The
//! worker says it, with the line of code that waits; nothing of it is stored.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::domain::{SessionId, TurnId};
use crate::engine::Engine;
use crate::engine::telling::view::SessionView;

/// How many turns that are held `GET /health` names.
const SHOWN: usize = 20;

/// What keeps a turn, as its worker says it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Held {
    /// Each thing that does.
    pub by: Vec<Holder>,
    /// Whether any of it must be neither stopped nor repeated: then it holds the turn for as long as it takes, and
    /// `--timeout` counts. All else gives way after `--hold` seconds.
    pub at_work: bool,
    /// Whether it is a replay that waits for it, and not a turn with an open question.
    #[serde(default)]
    pub replay: bool,
}

/// One thing that keeps a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// `raw I/O`, `a child process`, `a thread`, `something unknown`, or the kind and the name of a step.
    pub what: String,
    /// Where the agent waits for it: `file.py:12`. Null where nobody can tell.
    pub location: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => write!(formatter, "{} at {location}", self.what),
            None => formatter.write_str(&self.what),
        }
    }
}

/// A turn that is held, for `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldTurn {
    /// Whose turn.
    pub session_id: SessionId,
    /// Whether its replay waits; else the turn has an open question, and could rest.
    pub replay: bool,
    /// Whether something of it must be neither stopped nor repeated; else it gives way after `--hold` seconds.
    pub at_work: bool,
    /// What keeps it.
    pub by: Vec<Holder>,
}

impl Engine {
    /// See [`crate::engine::placement::dispatch::TurnInbox::turn_held`].
    pub fn turn_held(&self, turn: TurnId, epoch: u64, held: Held) {
        let Some(standing) = self.live.standing(turn, epoch) else { return };
        let by = held.by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let what = match (held.replay, held.at_work) {
            (true, _) => "the replay of a turn waits",
            (false, true) => "a turn that waits for a person stays in memory, since it is at work",
            (false, false) => "a turn that waits for a person stays in memory for --hold",
        };
        tracing::info!(session = %standing.session, by, "{what}");
        self.live.hold(turn, epoch, held);
    }

    /// A session with what the replay of its turn waits for, which no store knows.
    pub(in crate::engine) fn with_waits(&self, mut view: SessionView) -> SessionView {
        if let Some(turn) = view.session.turn() {
            let waits_for = self.live.replay_waits_for(turn);
            if !waits_for.is_empty() {
                view.replay.get_or_insert_default().waits_for = waits_for;
            }
        }
        view
    }

    /// How many turns are held, and the first of them.
    pub(in crate::engine) fn held_turns(&self) -> (usize, Vec<HeldTurn>) {
        let mut held = self.live.held();
        let count = held.len();
        held.sort_unstable_by_key(|turn| turn.session_id);
        held.truncate(SHOWN);
        (count, held)
    }
}
