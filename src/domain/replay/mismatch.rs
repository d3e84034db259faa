//! How the difference between a journal and the agent's code is told to people.

use std::fmt;

use super::recorded::Author;
use crate::domain::journal::StepIdentity;

/// The agent's code asks for something else than its journal holds; `Display` is the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What does not fit.
    pub cause: Cause,
    /// What the journal holds.
    pub recorded: Option<StepDescription>,
    /// What the code asks for.
    pub attempted: Option<StepDescription>,
    /// Another path at which the journal holds what the code asks for.
    pub recorded_elsewhere: Option<String>,
    /// The index of the entry.
    pub entry: usize,
    /// What recorded that entry.
    pub author: Option<Author>,
    /// The version of the code at hand.
    pub code: String,
}

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Another kind or name; the arguments that differ as well.
    Different {
        /// Their names.
        arguments: Vec<Argument>,
    },
    /// The same kind and name, other arguments.
    Arguments {
        /// Their names.
        arguments: Vec<Argument>,
    },
    /// Nobody asks for an entry.
    Unasked,
    /// Asked for after its entry had to be passed.
    TooLate,
    /// Somebody waits for an interrupt that was withdrawn.
    StillWaits,
}

/// An argument that differs. Its value is nobody's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    name: String,
    only: Option<&'static str>,
}

/// A step, interrupt or timer as people see it: kind, name, path or key, `file:line`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepDescription {
    what: String,
    at: Option<String>,
    location: Option<String>,
}

/// Longer names and paths are cut: an error is shown in lists and logs.
const LONGEST: usize = 120;
const MOST_ARGUMENTS: usize = 12;

impl StepDescription {
    /// A step or an interrupt.
    pub(super) fn step(step: &StepIdentity) -> Self {
        let last = step.path.rsplit('/').next().unwrap_or_default();
        let at = match last.split_once('~') {
            Some((_, key)) => format!("key {}, path {}", quoted(key), shorten(&step.path)),
            None => shorten(&step.path),
        };
        Self {
            what: format!("{} {}", shorten(&step.kind), quoted(&step.name)),
            at: Some(at),
            location: step.location.as_deref().map(shorten),
        }
    }

    /// A timer.
    pub(super) fn timer(path: &str) -> Self {
        Self { what: "a timer".to_owned(), at: Some(shorten(path)), location: None }
    }

    /// The agent's return.
    pub(super) fn end() -> Self {
        Self { what: "nothing: the agent returned".to_owned(), at: None, location: None }
    }
}

impl fmt::Display for StepDescription {
    /// `tool "delete" (0#2, agent.py:41)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match (&self.at, &self.location) {
            (Some(at), Some(location)) => write!(f, " ({at}, {location})"),
            (Some(at), None) => write!(f, " ({at})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.cause {
            Cause::Different { .. } => "the agent asks for another step than its journal holds",
            Cause::Arguments { .. } => "the agent asks for a step with other arguments than its journal holds",
            Cause::Unasked => "the journal holds an entry that the agent does not ask for",
            Cause::TooLate => {
                "the agent asks for a step whose entry was passed, because nothing ran that could ask for it"
            }
            Cause::StillWaits => "the agent waits for an interrupt that its journal says nobody waits for any more",
        })?;
        write!(f, "\n  recorded:  ")?;
        match &self.recorded {
            Some(recorded) => write!(f, "{recorded}, entry {}", self.entry)?,
            None => write!(f, "entry {}", self.entry)?,
        }
        if let Some(author) = &self.author {
            write!(f, ", by code {} on Python {}", shorten(&author.code), shorten(&author.python))?;
        }
        write!(f, "\n  attempted: ")?;
        match &self.attempted {
            Some(attempted) => write!(f, "{attempted}")?,
            None => f.write_str("nothing that is in the journal")?,
        }
        write!(f, ", by code {}", shorten(&self.code))?;
        if let Cause::Different { arguments } | Cause::Arguments { arguments } = &self.cause
            && !arguments.is_empty()
        {
            write!(f, "\n  arguments that differ: {}", names(arguments))?;
        }
        if let Some(path) = &self.recorded_elsewhere {
            write!(f, "\n  the journal holds the attempted step at {}", shorten(path))?;
        }
        write!(f, "\n\nhint: {}", self.hint())
    }
}

impl Mismatch {
    fn hint(&self) -> String {
        match &self.author {
            Some(author) if author.code != self.code => format!(
                "deploy code {} again, or let turns that began under it go its way: `if await hitl.patched(\"...\"): <new> \
                 else: <old>`. The answers are kept; the turn is retried when the code version changes, and on \
                 POST /sessions/{{id}}/retry.",
                shorten(&author.code)
            ),
            _ => "the code version is the same, so something that is no step decided otherwise: time, chance, the \
                  order of a set, the environment, raw I/O; or what is taken up is another agent's. Make it a step (hitl.now(), hitl.random(), hitl.uuid(), \
                  hitl.step()), or, if the code did change, say so with @hitl.agent(version=...). The answers are \
                  kept; POST /sessions/{id}/retry tries again."
                .to_owned(),
        }
    }
}

/// The arguments that two askings for the same step differ in.
pub(super) fn differing_arguments(recorded: &StepIdentity, attempted: &StepIdentity) -> Vec<Argument> {
    let in_both = recorded.arguments.iter().filter_map(|(name, digest)| match attempted.arguments.get(name) {
        Some(other) if other == digest => None,
        Some(_) => Some(Argument { name: name.clone(), only: None }),
        None => Some(Argument { name: name.clone(), only: Some("only recorded") }),
    });
    let added = attempted.arguments.keys().filter(|name| !recorded.arguments.contains_key(*name));
    in_both.chain(added.map(|name| Argument { name: name.clone(), only: Some("only attempted") })).collect()
}

/// Whether both ask for the same work, wherever.
pub(super) fn is_same_work(recorded: &StepIdentity, attempted: &StepIdentity) -> bool {
    recorded.kind == attempted.kind && recorded.name == attempted.name && recorded.arguments == attempted.arguments
}

/// `path, mode (only attempted)`.
pub(super) fn names(arguments: &[Argument]) -> String {
    let mut listed: Vec<String> = arguments
        .iter()
        .take(MOST_ARGUMENTS)
        .map(|argument| match argument.only {
            Some(only) => format!("{} ({only})", shorten(&argument.name)),
            None => shorten(&argument.name),
        })
        .collect();
    if arguments.len() > MOST_ARGUMENTS {
        listed.push(format!("and {} more", arguments.len() - MOST_ARGUMENTS));
    }
    listed.join(", ")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", shorten(name))
}

/// On one line, and not without end.
fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST).map(|char| if char.is_control() { ' ' } else { char }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push_str("...");
    }
    shown
}
