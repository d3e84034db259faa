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
        Ok(self.entries(turn).find_map(|entry| match entry {
            Entry::Ask { step, interrupt_id } if *interrupt_id == interrupt => Some(step.clone()),
            _ => None,
        }))
    }

    fn begun_step(&self, turn: TurnId, path: &str) -> Result<Option<StepIdentity>, Error> {
        Ok(self.entries(turn).find_map(|entry| match entry {
            Entry::Intent { step } if step.path == path => Some(step.clone()),
            _ => None,
        }))
    }

    fn last_with_approvers(&self, turn: TurnId, is_it: InterruptPredicate<'_>) -> Result<Option<Interrupt>, Error> {
        let asked = self.entries(turn).filter_map(|entry| match entry {
            Entry::Ask { interrupt_id, .. } => self.interrupts.get(*interrupt_id),
            _ => None,
        });
        Ok(asked.filter(|asked| !asked.approvers.is_empty()).find(|asked| is_it(asked)).cloned())
    }
}
