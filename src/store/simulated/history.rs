//! All that is in a database, for whoever looks at it from outside when everything is over.

use super::SimulatedDatabase;
use crate::domain::audit::AuditRow;
use crate::domain::event::NumberedEvent;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::RecordedEntry;
use crate::domain::notice::Notice;
use crate::domain::session::Session;
use crate::domain::{Error, SessionId, TurnId};
use crate::store::Reader;
use crate::store::record::Turn;

/// See the module. All of it in the order in which it came.
pub struct History {
    pub sessions: Vec<Session>,
    pub turns: Vec<(Turn, Vec<RecordedEntry>)>,
    pub interrupts: Vec<Interrupt>,
    pub notices: Vec<Notice>,
    pub events: Vec<NumberedEvent>,
    pub audit: Vec<AuditRow>,
}

impl History {
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }

    pub fn journal(&self, id: TurnId) -> Option<&[RecordedEntry]> {
        self.turns.iter().find(|(turn, _)| turn.id == id).map(|(_, journal)| journal.as_slice())
    }
}

impl SimulatedDatabase {
    /// What is there now.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn history(&self) -> Result<History, Error> {
        let rows = self.lock();
        let state = &rows.state;
        Ok(History {
            sessions: state.sessions.values().map(|row| row.session.clone()).collect(),
            turns: state.turns.values().map(|row| (row.turn.clone(), row.journal.clone())).collect(),
            interrupts: state.interrupts.values().cloned().collect(),
            notices: state.notices.values().cloned().collect(),
            events: state.events_after(0, None, usize::MAX)?,
            audit: state.audit.clone(),
        })
    }
}
