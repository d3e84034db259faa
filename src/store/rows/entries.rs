//! Between entries and rows of the journal. What every entry of a kind has stands in columns of its own, which takes a
//! hundred bytes less than the names of the members would in JSON; only what is free in form is JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{self as rows, Cells};
use crate::domain::event::EventView;
use crate::domain::journal::{Abandoned, Entry, PendingTimer, RecordedEntry, StepIdentity};
use crate::domain::told;
use crate::domain::{Error, InterruptId, JsonObject, SessionId, Timestamp, TurnId};

/// What a row holds beside its place and time.
#[derive(Default)]
pub(in crate::store) struct EntryColumns<'e> {
    pub(in crate::store) entry: &'static str,
    step: Option<&'e StepIdentity>,
    /// Of a timer.
    path: Option<&'e str>,
    pub(in crate::store) interrupt: Option<InterruptId>,
    pub(in crate::store) body: Option<String>,
}

/// The body of a pause that has a context; of any other it is the list of its timers.
#[derive(Serialize, Deserialize)]
struct PauseBody<T, C> {
    timers: T,
    context: C,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Paused {
    Timers(Vec<PendingTimer>),
    Body(PauseBody<Vec<PendingTimer>, Option<Value>>),
}

impl<'e> EntryColumns<'e> {
    pub(in crate::store) fn of(entry: &'e Entry) -> Result<Self, Error> {
        let none = Self::default();
        Ok(match entry {
            Entry::Start { code, python, policy: false, abandoned: None, traceparent: None } => {
                Self { entry: "start", body: Some(rows::json(&(code, python))?), ..none }
            }
            Entry::Start { code, python, policy, abandoned: None, traceparent: None } => {
                Self { entry: "start", body: Some(rows::json(&(code, python, policy))?), ..none }
            }
            Entry::Start { code, python, policy, abandoned, traceparent: None } => {
                Self { entry: "start", body: Some(rows::json(&(code, python, policy, abandoned))?), ..none }
            }
            Entry::Start { code, python, policy, abandoned, traceparent } => Self {
                entry: "start",
                body: Some(rows::json(&(code, python, policy, abandoned, traceparent))?),
                ..none
            },
            Entry::Taken { code, python, policy: None } => {
                Self { entry: "taken", body: Some(rows::json(&(code, python))?), ..none }
            }
            Entry::Taken { code, python, policy } => {
                Self { entry: "taken", body: Some(rows::json(&(code, python, policy))?), ..none }
            }
            Entry::Intent { step, arguments } => {
                let body = arguments.as_ref().map(rows::json).transpose()?;
                Self { entry: "intent", step: Some(step), body, ..none }
            }
            Entry::Step { step, result } => {
                Self { entry: "step", step: Some(step), body: Some(rows::json(result)?), ..none }
            }
            Entry::Ask { step, interrupt_id } => {
                Self { entry: "ask", step: Some(step), interrupt: Some(*interrupt_id), ..none }
            }
            Entry::Answer { interrupt_id, value } => {
                Self { entry: "answer", interrupt: Some(*interrupt_id), body: Some(rows::json(value)?), ..none }
            }
            Entry::Expire { interrupt_id } => Self { entry: "expire", interrupt: Some(*interrupt_id), ..none },
            Entry::Withdraw { interrupt_id } => Self { entry: "withdraw", interrupt: Some(*interrupt_id), ..none },
            Entry::Timer { path, due } => {
                Self { entry: "timer", path: Some(path), body: Some(due.millis().to_string()), ..none }
            }
            Entry::Wakes { wakes } => Self { entry: "wakes", body: Some(rows::json(wakes)?), ..none },
            Entry::Pause { timers, context: None } if timers.is_empty() => Self { entry: "pause", ..none },
            Entry::Pause { timers, context: None } => Self { entry: "pause", body: Some(rows::json(timers)?), ..none },
            Entry::Pause { timers, context } => {
                Self { entry: "pause", body: Some(rows::json(&PauseBody { timers, context })?), ..none }
            }
            Entry::Cancel {} => Self { entry: "cancel", ..none },
            Entry::End { ending } => Self { entry: "end", body: Some(rows::json(ending)?), ..none },
        })
    }

    pub(in crate::store) fn path(&self) -> Option<&'e str> {
        self.step.map(|step| step.path.as_str()).or(self.path)
    }

    pub(in crate::store) fn kind(&self) -> Option<&'e str> {
        self.step.map(|step| step.kind.as_str())
    }

    pub(in crate::store) fn name(&self) -> Option<&'e str> {
        self.step.map(|step| step.name.as_str())
    }

    pub(in crate::store) fn location(&self) -> Option<&'e str> {
        self.step.and_then(|step| step.location.as_deref())
    }

    /// The digests of a step's arguments, behind the id of its tool call where it has one.
    pub(in crate::store) fn arguments(&self) -> Result<Option<String>, Error> {
        match self.step {
            Some(StepIdentity { arguments, tool_call_id: Some(id), .. }) => rows::json(&(id, arguments)).map(Some),
            Some(StepIdentity { arguments, tool_call_id: None, .. }) if !arguments.is_empty() => {
                rows::json(arguments).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The body of a `start`: what stands at its end is left out where it says nothing.
#[derive(Deserialize)]
struct Start(
    String,
    String,
    #[serde(default)] bool,
    #[serde(default)] Option<Box<Abandoned>>,
    #[serde(default)] Option<String>,
);

/// The body of a `taken`, in the same way.
#[derive(Deserialize)]
struct TakenBody(String, String, #[serde(default)] Option<bool>);

/// A row of `journal/of_turn.sql`.
pub(in crate::store) fn recorded(cells: &mut impl Cells) -> Result<RecordedEntry, Error> {
    let at = cells.time()?;
    let word: String = cells.plain()?;
    let unknown = cells.malformed(format!("unknown entry {word:?}"));
    let mut place = IndexedColumns::of(cells)?;
    let entry = match word.as_str() {
        "start" => {
            let Start(code, python, policy, abandoned, traceparent) = cells.json()?;
            Entry::Start { code, python, policy, abandoned, traceparent }
        }
        "taken" => {
            let TakenBody(code, python, policy) = cells.json()?;
            Entry::Taken { code, python, policy }
        }
        "intent" => Entry::Intent { step: place.step(cells)?, arguments: cells.json_or_none()? },
        "step" => Entry::Step { step: place.step(cells)?, result: cells.json()? },
        "ask" => Entry::Ask { step: place.step(cells)?, interrupt_id: place.interrupt(cells)? },
        "answer" => Entry::Answer { interrupt_id: place.interrupt(cells)?, value: cells.json::<Value>()? },
        "expire" => Entry::Expire { interrupt_id: place.interrupt(cells)? },
        "withdraw" => Entry::Withdraw { interrupt_id: place.interrupt(cells)? },
        "timer" => Entry::Timer { path: place.path(cells)?, due: Timestamp::from_millis(cells.json()?) },
        "wakes" => Entry::Wakes { wakes: cells.json()? },
        "pause" => match cells.json_or_none()? {
            None => Entry::Pause { timers: Vec::new(), context: None },
            Some(Paused::Timers(timers)) => Entry::Pause { timers, context: None },
            Some(Paused::Body(PauseBody { timers, context })) => Entry::Pause { timers, context },
        },
        "cancel" => Entry::Cancel {},
        "end" => Entry::End { ending: cells.json()? },
        _ => return Err(unknown),
    };
    Ok(RecordedEntry { at, entry })
}

/// A row of `events/told.sql`: its number, and the event; `None` where it tells nobody anything.
pub(in crate::store) fn told(cells: &mut impl Cells) -> Result<(u64, Option<EventView>), Error> {
    let number = cells.number()?;
    let (session, turn) = (SessionId(cells.uuid()?), TurnId(cells.uuid()?));
    match recorded(cells) {
        Ok(RecordedEntry { entry, .. }) => Ok((number, told::view(session, turn, &entry))),
        // What is to come after it is for others too.
        Err(Error::Unreadable(_)) => Ok((number, None)),
        Err(error) => Err(error),
    }
}

/// The step of a row of `journal/asking.sql` or `journal/begun.sql`.
pub(in crate::store) fn step(cells: &mut impl Cells) -> Result<StepIdentity, Error> {
    IndexedColumns::of(cells)?.step(cells)
}

/// The columns between an entry's word and its body.
struct IndexedColumns {
    path: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    location: Option<String>,
    arguments: Arguments,
    interrupt: Option<InterruptId>,
}

/// The digests of a step's arguments, behind the id of the tool call that it belongs to, where it has one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Arguments {
    Plain(JsonObject),
    OfCall(String, JsonObject),
}

impl IndexedColumns {
    fn of(cells: &mut impl Cells) -> Result<Self, Error> {
        Ok(Self {
            path: cells.plain()?,
            kind: cells.plain()?,
            name: cells.plain()?,
            location: cells.plain()?,
            arguments: cells.json_or_none()?.unwrap_or_else(|| Arguments::Plain(JsonObject::new())),
            interrupt: cells.plain::<Option<[u8; 16]>>()?.map(|id| InterruptId(Uuid::from_bytes(id))),
        })
    }

    fn path(&mut self, cells: &impl Cells) -> Result<String, Error> {
        self.path.take().ok_or_else(|| cells.malformed("the path is missing"))
    }

    fn interrupt(&self, cells: &impl Cells) -> Result<InterruptId, Error> {
        self.interrupt.ok_or_else(|| cells.malformed("the interrupt is missing"))
    }

    fn step(&mut self, cells: &impl Cells) -> Result<StepIdentity, Error> {
        let missing = || cells.malformed("the step is missing");
        let (tool_call_id, arguments) =
            match std::mem::replace(&mut self.arguments, Arguments::Plain(JsonObject::new())) {
                Arguments::Plain(arguments) => (None, arguments),
                Arguments::OfCall(id, arguments) => (Some(id), arguments),
            };
        Ok(StepIdentity {
            path: self.path(cells)?,
            kind: self.kind.take().ok_or_else(missing)?,
            name: self.name.take().ok_or_else(missing)?,
            location: self.location.take(),
            arguments,
            tool_call_id,
        })
    }
}
