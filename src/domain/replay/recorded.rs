//! What a replay reads of a journal: who asked for what, and when. Results and answers stay with the caller.

use serde::Deserialize;

use crate::domain::journal::StepIdentity;

/// One entry of a journal as a worker's `turn` frame carries it; its index is its place in the list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Members")]
pub struct ReplayRecord {
    /// When it was appended, in milliseconds since 1970.
    pub at: i64,
    /// What happened.
    pub entry: ReplayEntry,
}

/// The identities in an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplayEntry {
    /// The turn began, or went over to a worker with other code or another Python.
    Author(Author),
    /// The body of a `once` step began.
    Intent(StepIdentity),
    /// A step finished.
    Step(StepIdentity),
    /// Somebody was asked.
    Ask {
        /// By which step.
        step: StepIdentity,
        /// The interrupt's id.
        interrupt: String,
    },
    /// An interrupt was answered, or expired.
    Settled(String),
    /// Nobody waited for an interrupt any more.
    Withdrawn(String),
    /// A timer of the turn fired.
    Timer(String),
    /// Where wakes from outside the journal stood in its order.
    Wakes(Vec<ReplayWake>),
    /// What tells a replay nothing: `pause`, `cancel`, `end`.
    Passed,
}

/// What recorded the entries from here on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The version of the agent's code.
    pub code: String,
    /// The minor version of Python, such as `3.11`.
    pub python: String,
}

/// A wake of a task that no entry caused: raw I/O, a thread, another turn.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReplayWake {
    /// The index of the entry delivered last before it.
    pub after: usize,
    /// The path of the task that was woken.
    pub task: String,
    /// Where that task waited, `file.py:12`.
    #[serde(default)]
    pub location: Option<String>,
}

/// The members of all entries in one: a tagged enum would make serde keep the values of results and answers.
#[derive(Deserialize)]
struct Members {
    at: i64,
    entry: String,
    step: Option<StepIdentity>,
    interrupt_id: Option<String>,
    path: Option<String>,
    wakes: Option<Vec<ReplayWake>>,
    code: Option<String>,
    python: Option<String>,
}

impl TryFrom<Members> for ReplayRecord {
    type Error = String;

    fn try_from(members: Members) -> Result<Self, String> {
        let Members { at, entry: name, step, interrupt_id, path, wakes, code, python } = members;
        let missing = |member: &str| format!("an entry `{name}` has no `{member}`");
        let step = || step.ok_or_else(|| missing("step"));
        let interrupt = || interrupt_id.ok_or_else(|| missing("interrupt_id"));
        let entry = match name.as_str() {
            "start" | "taken" => ReplayEntry::Author(Author {
                code: code.ok_or_else(|| missing("code"))?,
                python: python.ok_or_else(|| missing("python"))?,
            }),
            "intent" => ReplayEntry::Intent(step()?),
            "step" => ReplayEntry::Step(step()?),
            "ask" => ReplayEntry::Ask { step: step()?, interrupt: interrupt()? },
            "answer" | "expire" => ReplayEntry::Settled(interrupt()?),
            "withdraw" => ReplayEntry::Withdrawn(interrupt()?),
            "timer" => ReplayEntry::Timer(path.ok_or_else(|| missing("path"))?),
            "wakes" => ReplayEntry::Wakes(wakes.ok_or_else(|| missing("wakes"))?),
            "pause" | "cancel" | "end" => ReplayEntry::Passed,
            _ => return Err(format!("there is no entry `{name}`")),
        };
        Ok(Self { at, entry })
    }
}
