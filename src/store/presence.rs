//! Whether a process may still change what is in its store.

/// Where a process stands with the others that use its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It may act.
    Acts,
    /// It has not reached the store for so long that others may soon take it for dead: it does nothing until it has.
    CutOff,
    /// It was taken for dead, and another one may have taken its place. It never acts again.
    Dead,
}
