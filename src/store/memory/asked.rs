//! What a turn asked and began.

use super::state::MemoryState;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Entry, StepIdentity};
use crate::domain::{Error, InterruptId, TurnId};
use crate::store::asked::{AskedReader, InterruptPredicate};

impl MemoryState {
    /// What a turn said, the last first.
    fn entries(&self, turn: TurnId) -> impl Iterator<Item = &Entry> {
        self.turns.get(turn).into_iter().flat_map(|row| row.journal.iter().rev().map(|recorded| &recorded.entry))
    }
}

impl AskedReader for MemoryState {
    fn asking_step(&self, turn: TurnId, interrupt: InterruptId) -> Result<Option<StepIdentity>, Error> {
        let mut asked = self.entries(turn).filter_map(Entry::asked);
        Ok(asked.find(|(asked, _)| *asked == interrupt).map(|(_, step)| step.clone()))
    }

    fn begun_step(&self, turn: TurnId, path: &str) -> Result<Option<StepIdentity>, Error> {
        Ok(self.entries(turn).filter_map(Entry::intent).find(|step| step.path == path).cloned())
    }

    fn last_with_approvers(&self, turn: TurnId, is_it: InterruptPredicate<'_>) -> Result<Option<Interrupt>, Error> {
        let asked = self.entries(turn).filter_map(|entry| self.interrupts.get(entry.asked()?.0));
        Ok(asked.filter(|asked| !asked.approvers.is_empty()).find(|asked| is_it(asked)).cloned())
    }
}
