//! What the owner of a turn knows of it beyond the store: it is at work, or paused in memory.

/// Where a turn stands that is at a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has a place, and what it does counts as work unless it is held.
    AtWork,
    /// It awaits nothing but people and timers: it is in memory, and may be parked.
    Paused,
}

/// What can happen to it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It awaits nothing but people and timers.
    Paused,
    /// It was told something that it awaited, or says something of its own.
    WentOn,
    /// It is at no worker any more: it was parked, has ended, or its worker is lost.
    Left,
}

/// What is owed to whoever waits for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It takes a place, past everybody and beyond `--workers` if need be.
    TakePlace,
    /// Its place is free.
    LeavePlace,
}

impl Stage {
    /// The stage after `event`, `None` once it is at no worker; and what is owed for it. Every event fits both stages: a
    /// turn may be told something as it pauses, and hear of it afterwards.
    pub fn transition(self, event: Event) -> (Option<Self>, Option<Effect>) {
        match (self, event) {
            (Self::AtWork, Event::Paused) => (Some(Self::Paused), Some(Effect::LeavePlace)),
            (Self::Paused, Event::WentOn) => (Some(Self::AtWork), Some(Effect::TakePlace)),
            (stage, Event::Paused | Event::WentOn) => (Some(stage), None),
            (Self::AtWork, Event::Left) => (None, Some(Effect::LeavePlace)),
            (Self::Paused, Event::Left) => (None, None),
        }
    }
}
