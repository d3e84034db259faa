//! The order in which a journal is replayed, and what it holds at each path.

use std::collections::HashMap;

use super::recorded::{Author, ReplayEntry, ReplayRecord, ReplayWake};
use crate::domain::journal::StepIdentity;

/// A journal ready for a replay.
#[derive(Debug)]
pub(super) struct Journal {
    pub slots: Vec<Slot>,
    pub places: Vec<PathState>,
    pub timers: Vec<Timer>,
    place_of: HashMap<String, usize>,
    timer_of: HashMap<String, usize>,
    authors: Vec<(usize, Author)>,
}

/// One thing a replay passes or delivers.
#[derive(Debug)]
pub(super) struct Slot {
    /// The index of its entry in the journal; of a wake, that of the entry it follows.
    pub index: usize,
    pub what: SlotContent,
}

/// What stands in a slot; numbers are indexes into `places` or `timers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotContent {
    /// An intent or an ask: passed once its step has been asked for.
    Mark(usize),
    /// The result of a step.
    Result(usize),
    /// The answer to an interrupt, or its expiry.
    Settled(usize),
    /// Nobody waited for an interrupt any more.
    Withdrawn(usize),
    /// A timer fired.
    Timer(usize),
    /// A task was woken from outside.
    Wake(String),
}

/// What the journal holds at a path, and how far the replay has come with it.
#[derive(Debug, Default)]
pub(super) struct PathState {
    pub path: String,
    /// The last entry that says what was asked for here, by index.
    pub recorded: Option<(usize, StepIdentity)>,
    /// Whether it has a result.
    pub finished: bool,
    /// When its body began, each time it did.
    pub intents: Vec<i64>,
    pub interrupt: Option<String>,
    /// Whether the interrupt was answered, expired or withdrawn.
    pub settled: bool,
    /// Whether its body asked for something: it has to run again where it has no result.
    pub has_inner: bool,
    /// Below a finished step, whose body does not run again.
    pub skipped: bool,
    /// Its body ran in this replay and has come to its end.
    pub ended: bool,
    pub stand: Progress,
    /// As it was asked for in this replay, and as the how manyth.
    pub asked: Option<(usize, StepIdentity)>,
}

/// How far a replay has come with a step or interrupt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Progress {
    #[default]
    Unasked,
    Asked,
    Delivered,
    Withdrawn,
    /// An entry of it was in the way of a turn in which nothing ran, and could be dropped.
    PassedOver,
}

/// A timer of the journal or of the replay.
#[derive(Debug)]
pub(super) struct Timer {
    pub path: String,
    pub stand: TimerProgress,
}

/// How far a replay has come with a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerProgress {
    Unarmed,
    Armed,
    /// It fired, was cancelled, or was passed over like a step.
    Over,
}

impl PathState {
    /// Whether it marks an edit of the code (`hitl.patched`): code that has taken the edit for granted asks no more.
    pub fn is_patch(&self) -> bool {
        let is_named = |step: &StepIdentity| step.kind == "step" && step.name == "patched";
        let last = self.path.rsplit('/').next().unwrap_or_default();
        last.starts_with("~patched:") && self.recorded.as_ref().is_some_and(|(_, step)| is_named(step))
    }
}

/// The paths of the steps around `path`, outermost first.
pub(super) fn around(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

impl Journal {
    /// Reads a journal.
    ///
    /// # Errors
    /// The index of the entry that cannot be, and why.
    pub fn read(entries: Vec<ReplayRecord>) -> Result<Self, (usize, String)> {
        let mut journal = Self {
            slots: Vec::with_capacity(entries.len()),
            places: Vec::new(),
            timers: Vec::new(),
            place_of: HashMap::new(),
            timer_of: HashMap::new(),
            authors: Vec::new(),
        };
        let mut interrupts = HashMap::new();
        let mut wakes = Vec::new();
        let length = entries.len();
        for (index, recorded) in entries.into_iter().enumerate() {
            if let ReplayEntry::Wakes(marks) = recorded.entry {
                if let Some(wrong) = marks.iter().find(|wake| wake.after >= length) {
                    return Err((index, format!("a wake after entry {}, which does not exist", wrong.after)));
                }
                wakes.extend(marks);
            } else {
                let what = journal.record(index, recorded, &mut interrupts).map_err(|wrong| (index, wrong))?;
                journal.slots.extend(what.map(|what| Slot { index, what }));
            }
        }
        for ReplayWake { after, task, .. } in wakes {
            journal.mark_inner(&task);
            journal.slots.push(Slot { index: after, what: SlotContent::Wake(task) });
        }
        // Stable: wakes stay behind the entry they follow, and in the order of their marks.
        journal.slots.sort_by_key(|slot| slot.index);
        journal.skip_inner_of_finished();
        Ok(journal)
    }

    /// The step or interrupt at `path`, made when the journal has none.
    pub fn place(&mut self, path: &str) -> usize {
        if let Some(place) = self.place_of.get(path) {
            return *place;
        }
        let place = self.places.len();
        self.places.push(PathState { path: path.to_owned(), ..PathState::default() });
        self.place_of.insert(path.to_owned(), place);
        place
    }

    /// The step or interrupt at `path`.
    pub fn find(&self, path: &str) -> Option<usize> {
        self.place_of.get(path).copied()
    }

    /// The timer at `path`, made when the journal has none.
    pub fn timer(&mut self, path: &str) -> usize {
        if let Some(timer) = self.timer_of.get(path) {
            return *timer;
        }
        let timer = self.timers.len();
        self.timers.push(Timer { path: path.to_owned(), stand: TimerProgress::Unarmed });
        self.timer_of.insert(path.to_owned(), timer);
        timer
    }

    /// What recorded the entry `index`.
    pub fn author(&self, index: usize) -> Option<&Author> {
        self.authors.iter().rev().find(|(from, _)| *from <= index).map(|(_, author)| author)
    }

    /// Whether a turn in which nothing runs may go on although nobody asks for this place.
    pub fn may_stay_unasked(&self, place: &PathState) -> bool {
        place.is_patch() || self.is_below_withdrawn(&place.path)
    }

    /// Whether `path` lies below a step that was withdrawn in this replay.
    pub fn is_below_withdrawn(&self, path: &str) -> bool {
        around(path).any(|outer| self.find(outer).is_some_and(|place| self.places[place].stand == Progress::Withdrawn))
    }

    /// Whether nobody has asked for what stands in a slot, and nobody can any more: it is inside a step that was
    /// withdrawn, and whose body is over.
    pub fn is_out_of_reach(&self, slot: &Slot) -> bool {
        let path = match &slot.what {
            SlotContent::Mark(place) | SlotContent::Result(place) | SlotContent::Settled(place) => {
                let place = &self.places[*place];
                if place.stand != Progress::Unasked {
                    return false;
                }
                &place.path
            }
            SlotContent::Timer(timer) => {
                let timer = &self.timers[*timer];
                if timer.stand != TimerProgress::Unarmed {
                    return false;
                }
                &timer.path
            }
            SlotContent::Wake(task) => task,
            SlotContent::Withdrawn(_) => return false,
        };
        if !path.contains('/') {
            return false;
        }
        let outer: Vec<&str> = around(path).collect();
        for step in outer.into_iter().rev().filter_map(|outer| self.find(outer)).map(|place| &self.places[place]) {
            match step.stand {
                Progress::Withdrawn => return step.ended,
                Progress::Asked | Progress::Delivered => return false,
                Progress::Unasked | Progress::PassedOver => {}
            }
        }
        false
    }

    fn record(
        &mut self,
        index: usize,
        recorded: ReplayRecord,
        interrupts: &mut HashMap<String, usize>,
    ) -> Result<Option<SlotContent>, String> {
        Ok(Some(match recorded.entry {
            ReplayEntry::Author(author) => {
                self.authors.push((index, author));
                return Ok(None);
            }
            ReplayEntry::Intent(step) => {
                let place = self.record_step(index, step);
                self.places[place].intents.push(recorded.at);
                SlotContent::Mark(place)
            }
            ReplayEntry::Step(step) => {
                let place = self.record_step(index, step);
                let known = &mut self.places[place];
                if known.finished {
                    return Err(format!("a second result of the step {}", known.path));
                }
                known.finished = true;
                SlotContent::Result(place)
            }
            ReplayEntry::Ask { step, interrupt } => {
                let place = self.record_step(index, step);
                let known = &mut self.places[place];
                if known.interrupt.is_some() {
                    return Err(format!("a second interrupt of the step {}", known.path));
                }
                known.interrupt = Some(interrupt.clone());
                if interrupts.insert(interrupt, place).is_some() {
                    return Err("its interrupt was asked before".to_owned());
                }
                SlotContent::Mark(place)
            }
            ReplayEntry::Settled(interrupt) => SlotContent::Settled(self.settle(&interrupt, interrupts)?),
            ReplayEntry::Withdrawn(interrupt) => SlotContent::Withdrawn(self.settle(&interrupt, interrupts)?),
            ReplayEntry::Timer(path) => {
                if self.timer_of.contains_key(&path) {
                    return Err(format!("the timer {path} fired before"));
                }
                self.mark_inner(&path);
                SlotContent::Timer(self.timer(&path))
            }
            ReplayEntry::Wakes(_) | ReplayEntry::Passed => return Ok(None),
        }))
    }

    fn record_step(&mut self, index: usize, step: StepIdentity) -> usize {
        self.mark_inner(&step.path);
        let place = self.place(&step.path);
        self.places[place].recorded = Some((index, step));
        place
    }

    fn settle(&mut self, interrupt: &str, interrupts: &HashMap<String, usize>) -> Result<usize, String> {
        let place =
            *interrupts.get(interrupt).ok_or_else(|| format!("the interrupt {interrupt} has not been asked"))?;
        self.places[place].settled = true;
        Ok(place)
    }

    fn mark_inner(&mut self, path: &str) {
        for outer in around(path) {
            // `P/?1` asks a person what became of the once step P: that is not P's body.
            if !path[outer.len() + 1..].starts_with('?') {
                let place = self.place(outer);
                self.places[place].has_inner = true;
            }
        }
    }

    /// The body of a finished step does not run again, so nobody asks for what it asked for.
    fn skip_inner_of_finished(&mut self) {
        let skipped: Vec<bool> = self.places.iter().map(|place| self.is_below_finished(&place.path)).collect();
        let slots = std::mem::take(&mut self.slots);
        self.slots = slots
            .into_iter()
            .filter(|slot| match &slot.what {
                SlotContent::Mark(place)
                | SlotContent::Result(place)
                | SlotContent::Settled(place)
                | SlotContent::Withdrawn(place) => !skipped[*place],
                SlotContent::Timer(timer) => !self.is_below_finished(&self.timers[*timer].path),
                SlotContent::Wake(task) => !self.is_below_finished(task),
            })
            .collect();
        for (place, skipped) in self.places.iter_mut().zip(skipped) {
            place.skipped = skipped;
        }
    }

    fn is_below_finished(&self, path: &str) -> bool {
        around(path).any(|outer| self.find(outer).is_some_and(|place| self.places[place].finished))
    }
}
