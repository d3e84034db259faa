//! What keeps turns that could rest: raw I/O, threads and bodies of steps beside an open question, or under a replay. The
//! worker says it, with the line of code that waits; nothing of it is stored.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::domain::SessionId;

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
