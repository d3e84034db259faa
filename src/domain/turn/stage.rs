//! What the owner of a turn knows of it beyond the store: it is at work, or paused in memory.

/// Where a turn stands that is at a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has a slot, and what it does counts as work unless it is held.
    AtWork,
    /// It awaits nothing but people and timers: it is in memory, and may be parked.
    Paused,
}

/// What can happen to it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageEvent {
    /// It awaits nothing but people and timers.
    Paused,
    /// It was told something that it awaited, or says something of its own.
    WentOn,
    /// It is at no worker any more: it was parked, has ended, or its worker is lost.
    Left,
}

/// What is owed to whoever waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageEffect {
    /// It takes a slot, past everybody and beyond `--workers` if need be.
    TakePlace,
    /// Its slot is free.
    LeavePlace,
}

impl Stage {
    /// The stage after `event`, `None` once it is at no worker; and what is owed for it. Every event fits both stages: a
    /// turn may be told something as it pauses, and hear of it afterwards.
    pub fn transition(self, event: StageEvent) -> (Option<Self>, Option<StageEffect>) {
        match (self, event) {
            (Self::AtWork, StageEvent::Paused) => (Some(Self::Paused), Some(StageEffect::LeavePlace)),
            (Self::Paused, StageEvent::WentOn) => (Some(Self::AtWork), Some(StageEffect::TakePlace)),
            (stage, StageEvent::Paused | StageEvent::WentOn) => (Some(stage), None),
            (Self::AtWork, StageEvent::Left) => (None, Some(StageEffect::LeavePlace)),
            (Self::Paused, StageEvent::Left) => (None, None),
        }
    }
}
