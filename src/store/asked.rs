//! What stores find in what a turn asked and began, without the rest of its journal: that may be long, and holds the
//! results of its steps.

use crate::domain::interrupt::Interrupt;
use crate::domain::journal::StepIdentity;
use crate::domain::{Error, InterruptId, TurnId};

/// Which interrupt is looked for.
pub type InterruptPredicate<'a> = &'a dyn Fn(&Interrupt) -> bool;

/// What can be read of it. No other entry has to be readable.
pub trait AskedReader {
    /// The step of a turn that asked for an interrupt.
    fn asking_step(&self, turn: TurnId, interrupt: InterruptId) -> Result<Option<StepIdentity>, Error>;

    /// The step at a path of a turn, as it was when it last began.
    fn begun_step(&self, turn: TurnId, path: &str) -> Result<Option<StepIdentity>, Error>;

    /// The last interrupt that a turn asked for, names approvers, and `is_it`; none from before it is read.
    fn last_with_approvers(&self, turn: TurnId, is_it: InterruptPredicate<'_>) -> Result<Option<Interrupt>, Error>;
}
