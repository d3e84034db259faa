//! Replay: what an agent that runs again is told, so that it comes to stand where its journal ends.
//!
//! [`Replay`] holds the identities of a journal, no values. The runtime says what the agent asks for, which timers it
//! sets and what it gives up; whenever nothing of the turn runs it takes the next delivery. Deliveries come in the
//! journal's order, one at a time, and only to who asked: a result, answer or timer before its ask is waited for, and
//! once nothing runs any more it is a [`Mismatch`].
//!
//! The order is the journal's, with two exceptions. A wake from outside stands right after the entry that had been
//! delivered last before it, because its mark is written late. Entries of the body of a finished step are left out: that
//! body does not run again.

mod mismatch;
mod order;
mod recorded;

pub use mismatch::{Cause, Mismatch, StepDescription};
pub use recorded::{Author, ReplayEntry, ReplayRecord, ReplayWake};

use super::journal::StepIdentity;
use order::{Journal, Progress, SlotContent, TimerProgress, around};

/// Why a journal, or a call, cannot be: a bug of ours, never the agent's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

/// Why an ask is refused.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The journal holds something else there.
    #[error("{0}")]
    Mismatch(Box<Mismatch>),
    /// The runtime asks what it must not.
    #[error("{0}")]
    Invalid(#[from] Invalid),
}

/// What becomes of a step that the agent asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepLookup {
    /// The journal has nothing of it: to be done once the journal is at its end.
    Live,
    /// Its result will be delivered.
    Recorded,
    /// It has no result, but its body ran: the body runs again now, served from the journal.
    Body,
    /// A `once` step that first began at this time, in milliseconds since 1970, has no result, and asked for nothing:
    /// nobody knows what became of it.
    Intent(i64),
    /// It asked this interrupt.
    Interrupt(String),
}

/// What a quiescent turn gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayAction<'a> {
    /// The entry `index` goes to who asked, or armed, `path`.
    Deliver {
        /// Its place in the journal.
        index: usize,
        /// Of the step, interrupt or timer.
        path: &'a str,
    },
    /// A wake of this task from outside comes next, and then [`Replay::woken`].
    Wake(&'a str),
    /// The next entry has not been asked for yet.
    Wait,
    /// Nothing is left: the turn is live.
    End,
}

/// A turn that is run again from its journal.
#[derive(Debug)]
pub struct Replay {
    journal: Journal,
    cursor: usize,
    asked: usize,
    code: String,
    warnings: Vec<String>,
}

impl Replay {
    /// A replay of `entries` by an agent whose code is of the version `code`.
    ///
    /// # Errors
    /// Names the entry that no turn can have recorded.
    pub fn new(entries: Vec<ReplayRecord>, code: impl Into<String>) -> Result<Self, Invalid> {
        let journal = Journal::read(entries).map_err(|(index, wrong)| Invalid(format!("journal[{index}]: {wrong}")))?;
        Ok(Self { journal, cursor: 0, asked: 0, code: code.into(), warnings: Vec::new() })
    }

    /// The agent asks for a step; `once` as its code says now.
    ///
    /// # Errors
    /// [`AskError::Mismatch`] when the journal holds something else at its path; [`AskError::Invalid`] for a path that
    /// was asked before, or whose outer step has a result.
    pub fn ask(&mut self, step: StepIdentity, once: bool) -> Result<StepLookup, AskError> {
        let place = self.journal.place(&step.path);
        self.admit(place, step)?;
        let known = &self.journal.places[place];
        let asked = if known.finished {
            StepLookup::Recorded
        } else if known.has_inner {
            StepLookup::Body
        } else if let Some(began) = known.intents.first() {
            StepLookup::Intent(*began)
        } else if let Some(interrupt) = &known.interrupt {
            StepLookup::Interrupt(interrupt.clone())
        } else {
            StepLookup::Live
        };
        if !once && let (StepLookup::Intent(_), Some((_, step))) = (&asked, &known.asked) {
            let shown = StepDescription::step(step);
            self.warnings.push(format!("{shown}: it began as a once step, so its outcome counts as unknown"));
        }
        Ok(asked)
    }

    /// When the body of the `once` step at `path` began, each time, in milliseconds since 1970.
    pub fn intents(&self, path: &str) -> &[i64] {
        self.journal.find(path).map_or(&[], |place| &self.journal.places[place].intents)
    }

    /// The agent set a timer.
    ///
    /// # Errors
    /// A path that was armed before.
    pub fn arm(&mut self, path: &str) -> Result<(), Invalid> {
        let timer = self.journal.timer(path);
        let known = &mut self.journal.timers[timer];
        if known.stand != TimerProgress::Unarmed {
            return Err(Invalid(format!("the timer {path} was armed before")));
        }
        known.stand = TimerProgress::Armed;
        Ok(())
    }

    /// The agent cancelled a timer; one that fired, or was never armed, is left as it is.
    pub fn disarm(&mut self, path: &str) {
        let timer = self.journal.timer(path);
        let known = &mut self.journal.timers[timer];
        if known.stand == TimerProgress::Armed {
            known.stand = TimerProgress::Over;
        }
    }

    /// Nobody waits for this step or interrupt any more: its entries are dropped from here on. Nothing changes for what
    /// was delivered, or was never asked for.
    pub fn withdraw(&mut self, path: &str) {
        if let Some(place) = self.journal.find(path) {
            let known = &mut self.journal.places[place];
            if known.stand == Progress::Asked {
                known.stand = Progress::Withdrawn;
            }
        }
    }

    /// The body of this step has come to its end. Where nobody waits for the step either, nobody will ever ask for what
    /// the journal holds inside it: a thread may have got further live, before the step was given up, than it did now.
    pub fn body_ended(&mut self, path: &str) {
        if let Some(place) = self.journal.find(path) {
            self.journal.places[place].ended = true;
        }
    }

    /// What a turn in which nothing runs gets next; a delivery moves on, the rest answers the same until something
    /// changes.
    #[expect(clippy::should_implement_trait, reason = "the one word for it, in Python too; it borrows from the replay")]
    pub fn next(&mut self) -> ReplayAction<'_> {
        self.pass();
        let Some(slot) = self.journal.slots.get(self.cursor) else {
            return ReplayAction::End;
        };
        match &slot.what {
            SlotContent::Result(place) | SlotContent::Settled(place) => {
                let known = &mut self.journal.places[*place];
                if known.stand == Progress::Unasked {
                    return ReplayAction::Wait;
                }
                known.stand = Progress::Delivered;
                self.cursor += 1;
                ReplayAction::Deliver { index: slot.index, path: &known.path }
            }
            SlotContent::Timer(timer) => {
                let known = &mut self.journal.timers[*timer];
                if known.stand == TimerProgress::Unarmed {
                    return ReplayAction::Wait;
                }
                known.stand = TimerProgress::Over;
                self.cursor += 1;
                ReplayAction::Deliver { index: slot.index, path: &known.path }
            }
            SlotContent::Mark(_) | SlotContent::Withdrawn(_) => ReplayAction::Wait,
            SlotContent::Wake(task) => ReplayAction::Wake(task),
        }
    }

    /// The wake that [`Self::next`] named has been delivered.
    ///
    /// # Errors
    /// When no wake stands next.
    pub fn woken(&mut self) -> Result<(), Invalid> {
        self.pass();
        match self.journal.slots.get(self.cursor) {
            Some(slot) if matches!(slot.what, SlotContent::Wake(_)) => {
                self.cursor += 1;
                Ok(())
            }
            _ => Err(Invalid("no wake stands next in the journal".to_owned())),
        }
    }

    /// Whether the replay could go on without the wakes that stand next: the entry after them has been asked for, or there
    /// is none.
    pub fn is_asked_for(&self) -> bool {
        let left = self.journal.slots.get(self.cursor..).unwrap_or_default();
        for slot in left {
            let stand = match &slot.what {
                SlotContent::Wake(_) => continue,
                SlotContent::Mark(place) | SlotContent::Withdrawn(place) => {
                    return self.journal.places[*place].stand != Progress::Unasked;
                }
                SlotContent::Result(place) | SlotContent::Settled(place) => self.journal.places[*place].stand,
                SlotContent::Timer(timer) => match self.journal.timers[*timer].stand {
                    TimerProgress::Unarmed => Progress::Unasked,
                    TimerProgress::Armed => Progress::Asked,
                    TimerProgress::Over => continue,
                },
            };
            match stand {
                Progress::Withdrawn | Progress::PassedOver => {}
                stand => return stand == Progress::Asked,
            }
        }
        true
    }

    /// Nothing of the turn runs, and [`Self::next`] does not go on: what is wrong, or None when what was in the way could
    /// be dropped. `held` are the asks that wait for the end of the journal.
    pub fn stuck(&mut self, held: &[StepIdentity]) -> Option<Mismatch> {
        self.pass();
        let slot = self.journal.slots.get(self.cursor)?;
        match &slot.what {
            // How often raw I/O wakes its task is not the journal's to say; what the task asks for is, and is compared.
            SlotContent::Wake(_) => self.cursor += 1,
            SlotContent::Mark(place) | SlotContent::Result(place) | SlotContent::Settled(place) => {
                let known = &self.journal.places[*place];
                if known.stand != Progress::Unasked {
                    return None;
                }
                if !self.journal.may_stay_unasked(known) {
                    return self.unasked(self.attempted(held));
                }
                self.journal.places[*place].stand = Progress::PassedOver;
            }
            SlotContent::Timer(timer) => {
                let known = &self.journal.timers[*timer];
                if known.stand != TimerProgress::Unarmed {
                    return None;
                }
                if !self.journal.is_below_withdrawn(&known.path) {
                    return self.unasked(self.attempted(held));
                }
                self.journal.timers[*timer].stand = TimerProgress::Over;
            }
            SlotContent::Withdrawn(place) => {
                let attempted = self.journal.places[*place].asked.as_ref().map(|(_, step)| StepDescription::step(step));
                return Some(self.mismatch(Cause::StillWaits, slot.index, self.recorded(*place), attempted));
            }
        }
        None
    }

    /// The agent has returned, and so have the tasks it left behind: what the journal still holds that nobody asked for.
    ///
    /// A body that the agent left behind may have gone on while the agent was returning, when nothing was delivered any
    /// more: woken by a timer of its own, which this replay has not come to. What it asked for then is no mismatch.
    pub fn returned(&mut self) -> Option<Mismatch> {
        self.pass();
        let left = self.journal.slots.get(self.cursor..)?;
        let mut gone_on: Vec<&str> = Vec::new();
        let unasked = left.iter().position(|slot| match &slot.what {
            SlotContent::Mark(place) | SlotContent::Result(place) => {
                let known = &self.journal.places[*place];
                known.stand == Progress::Unasked
                    && !self.journal.may_stay_unasked(known)
                    && !around(&known.path).any(|outer| gone_on.contains(&outer))
            }
            SlotContent::Timer(timer) => {
                let known = &self.journal.timers[*timer];
                known.stand == TimerProgress::Unarmed
                    && !self.journal.is_below_withdrawn(&known.path)
                    && !around(&known.path).any(|outer| gone_on.contains(&outer))
            }
            SlotContent::Wake(task) => {
                gone_on.extend(around(task).last());
                false
            }
            SlotContent::Settled(_) | SlotContent::Withdrawn(_) => false,
        })?;
        self.cursor += unasked;
        self.unasked(Some(StepDescription::end()))
    }

    /// Interrupts that the journal leaves open although nobody waits for them: their asks were withdrawn in this replay,
    /// or stand below a finished step. In the order they were asked.
    pub fn orphans(&self) -> Vec<&str> {
        let mut open: Vec<_> = self
            .journal
            .places
            .iter()
            .filter(|place| !place.settled)
            .filter(|place| place.skipped || matches!(place.stand, Progress::Withdrawn | Progress::PassedOver))
            .filter_map(|place| Some((place.recorded.as_ref()?.0, place.interrupt.as_deref()?)))
            .collect();
        open.sort_unstable_by_key(|(index, _)| *index);
        open.into_iter().map(|(_, interrupt)| interrupt).collect()
    }

    /// What differs from the journal and is let pass, for people.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether nothing is left to deliver or to wait for.
    pub fn is_done(&mut self) -> bool {
        self.pass();
        self.cursor == self.journal.slots.len()
    }

    /// Takes note of an ask, unless the journal holds something else there.
    fn admit(&mut self, place: usize, step: StepIdentity) -> Result<(), AskError> {
        let known = &self.journal.places[place];
        if known.asked.is_some() {
            return Err(Invalid(format!("the step {} was asked for before", known.path)).into());
        }
        if known.skipped {
            return Err(Invalid(format!("the step {} belongs to one that has a result", known.path)).into());
        }
        if let Some((index, recorded)) = &known.recorded {
            if known.stand == Progress::PassedOver {
                return Err(self.refused(Cause::TooLate, place, *index, &step));
            }
            let arguments = mismatch::differing_arguments(recorded, &step);
            let same_work = recorded.kind == step.kind && recorded.name == step.name;
            if same_work && !arguments.is_empty() && known.finished && step.kind == "model" {
                self.warnings.push(format!(
                    "{}: other arguments than its recorded answer had: {}",
                    StepDescription::step(&step),
                    mismatch::names(&arguments)
                ));
            } else if !same_work {
                return Err(self.refused(Cause::Different { arguments }, place, *index, &step));
            } else if !arguments.is_empty() {
                return Err(self.refused(Cause::Arguments { arguments }, place, *index, &step));
            }
        }
        let known = &mut self.journal.places[place];
        known.stand = Progress::Asked;
        known.asked = Some((self.asked, step));
        self.asked += 1;
        Ok(())
    }

    /// Moves over what waits for nothing: marks that were asked for, entries of what was given up.
    fn pass(&mut self) {
        while let Some(slot) = self.journal.slots.get(self.cursor) {
            if self.journal.is_out_of_reach(slot) {
                if let SlotContent::Mark(place) | SlotContent::Result(place) | SlotContent::Settled(place) = slot.what {
                    self.journal.places[place].stand = Progress::PassedOver;
                }
                self.cursor += 1;
                continue;
            }
            let stand = |place: &usize| self.journal.places[*place].stand;
            let passes = match &slot.what {
                SlotContent::Mark(place) => stand(place) != Progress::Unasked,
                SlotContent::Result(place) | SlotContent::Settled(place) => {
                    matches!(stand(place), Progress::Withdrawn | Progress::PassedOver)
                }
                // Else somebody waits for an interrupt that is settled already, and would for ever.
                SlotContent::Withdrawn(place) => stand(place) != Progress::Asked,
                SlotContent::Timer(timer) => self.journal.timers[*timer].stand == TimerProgress::Over,
                SlotContent::Wake(_) => false,
            };
            if !passes {
                return;
            }
            self.cursor += 1;
        }
    }

    /// What the agent does ask for: the first ask that is held, else the first that waits for a later entry.
    fn attempted(&self, held: &[StepIdentity]) -> Option<StepDescription> {
        held.first().map(StepDescription::step).or_else(|| {
            let waiting = self.journal.places.iter().filter(|place| place.stand == Progress::Asked);
            let later = waiting.filter(|place| place.recorded.is_some()).filter_map(|place| place.asked.as_ref());
            later.min_by_key(|(order, _)| *order).map(|(_, step)| StepDescription::step(step))
        })
    }

    fn refused(&self, cause: Cause, place: usize, index: usize, step: &StepIdentity) -> AskError {
        let elsewhere = self.journal.places.iter().find(|place| {
            place.stand == Progress::Unasked
                && place.path != step.path
                && place.recorded.as_ref().is_some_and(|(_, recorded)| mismatch::is_same_work(recorded, step))
        });
        let mut mismatch = self.mismatch(cause, index, self.recorded(place), Some(StepDescription::step(step)));
        mismatch.recorded_elsewhere = elsewhere.map(|place| place.path.clone());
        AskError::Mismatch(Box::new(mismatch))
    }

    /// The entry at the cursor, which nobody asks for.
    fn unasked(&self, attempted: Option<StepDescription>) -> Option<Mismatch> {
        let slot = self.journal.slots.get(self.cursor)?;
        let recorded = match &slot.what {
            SlotContent::Timer(timer) => Some(StepDescription::timer(&self.journal.timers[*timer].path)),
            SlotContent::Mark(place)
            | SlotContent::Result(place)
            | SlotContent::Settled(place)
            | SlotContent::Withdrawn(place) => self.recorded(*place),
            SlotContent::Wake(_) => None,
        };
        Some(self.mismatch(Cause::Unasked, slot.index, recorded, attempted))
    }

    fn recorded(&self, place: usize) -> Option<StepDescription> {
        self.journal.places[place].recorded.as_ref().map(|(_, step)| StepDescription::step(step))
    }

    fn mismatch(
        &self,
        cause: Cause,
        entry: usize,
        recorded: Option<StepDescription>,
        attempted: Option<StepDescription>,
    ) -> Mismatch {
        let author = self.journal.author(entry).cloned();
        Mismatch { cause, recorded, attempted, recorded_elsewhere: None, entry, author, code: self.code.clone() }
    }
}

#[cfg(test)]
mod random_agents;
#[cfg(test)]
mod tests;
