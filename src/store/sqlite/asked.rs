//! What a turn asked and began, in SQL.

use rusqlite::params;

use super::connection::Handle;
use super::rows::Cells as _;
use super::{entries, sql};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::StepIdentity;
use crate::domain::{Error, InterruptId, TurnId};
use crate::store::Reader;
use crate::store::asked::{AskedReader, InterruptPredicate};

impl AskedReader for Handle<'_> {
    fn asking_step(&self, turn: TurnId, interrupt: InterruptId) -> Result<Option<StepIdentity>, Error> {
        let params = params![turn.0.as_bytes(), interrupt.0.as_bytes()];
        self.one("journal", sql!("journal/asking"), params, |cells| entries::step(cells))
    }

    fn begun_step(&self, turn: TurnId, path: &str) -> Result<Option<StepIdentity>, Error> {
        self.one("journal", sql!("journal/begun"), params![turn.0.as_bytes(), path], |cells| entries::step(cells))
    }

    fn last_with_approvers(&self, turn: TurnId, is_it: InterruptPredicate<'_>) -> Result<Option<Interrupt>, Error> {
        self.find("interrupts", sql!("interrupts/with_approvers"), [turn.0.as_bytes()], |cells| {
            Ok(self.interrupt(InterruptId(cells.uuid()?))?.filter(is_it))
        })
    }
}
