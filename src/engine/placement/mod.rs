//! Where turns are: which are at work, which wait for a place, which are in memory, and who owns one.

pub(super) mod deliveries;
mod held_turns;
pub(super) mod live;
pub(super) mod live_turn;
pub(super) mod slots;
pub(super) mod turn_queue;
