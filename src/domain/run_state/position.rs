//! Whose a run state is, and how far its turn has come.

use serde_json::Value;

use super::RunState;
use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::{Error, digest};

/// How far a turn had come: how many entries its journal had, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPosition {
    /// How many.
    pub entries: usize,
    /// Their digest, without the context, which a state holds apart.
    pub digest: String,
}

impl JournalPosition {
    /// That of a turn with this journal.
    ///
    /// # Errors
    /// [`Error::Internal`] for what is no JSON, which nothing that was stored is.
    pub fn of(journal: &[RecordedEntry]) -> Result<Self, Error> {
        let entries = journal.iter().map(|recorded| {
            let mut recorded = recorded.clone();
            if let Entry::Pause { context, .. } = &mut recorded.entry {
                *context = None;
            }
            serde_json::to_value(recorded).map_err(|error| Error::Internal(error.to_string()))
        });
        let entries: Vec<Value> = entries.collect::<Result<_, _>>()?;
        Ok(Self { entries: entries.len(), digest: digest::of(&Value::Array(entries)) })
    }
}

impl RunState {
    /// Whether its turn was there when it stood at `stand`, and nothing that came of it then is left out.
    ///
    /// # Errors
    /// Those of [`JournalPosition::of`].
    pub fn goes_on_from(&self, stand: &JournalPosition) -> Result<bool, Error> {
        match self.journal.get(..stand.entries) {
            Some(before) => Ok(JournalPosition::of(before)? == *stand),
            None => Ok(false),
        }
    }

    /// Whether it is of the agent that is served as `served` and calls itself `name`. What servers import is told apart
    /// by where it is from, all else by what it calls itself.
    pub fn is_of(&self, served: &str, name: Option<&str>) -> bool {
        if is_import(&self.agent) && is_import(served) {
            return self.agent == served;
        }
        self.called().is_some_and(|of| called(served, name) == Some(of))
    }

    /// What its agent calls itself; `None` where an older release wrote where it is from, and no more.
    pub fn called(&self) -> Option<&str> {
        called(&self.agent, self.agent_name.as_deref())
    }
}

fn called<'a>(agent: &'a str, name: Option<&'a str>) -> Option<&'a str> {
    name.or_else(|| (!is_import(agent)).then_some(agent))
}

/// Whether it is `MODULE:ATTR`.
fn is_import(agent: &str) -> bool {
    agent.contains(':')
}
