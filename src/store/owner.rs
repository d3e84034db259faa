//! Who claims turns.

use std::sync::LazyLock;

use uuid::Uuid;

/// Who claims turns: one life of a process that has a store. With the epoch of the claim it is the fence of a turn: what
/// comes from another owner, or from an older epoch, is refused. A store that one process has for itself keeps none: there
/// each epoch is of one owner, and the epoch alone is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnOwner(pub Uuid);

impl TurnOwner {
    /// Nobody: whoever has a slot for the turn may claim it.
    pub const NOBODY: Self = Self(Uuid::nil());

    /// This process, for as long as it lives: nobody else, before or after, is called the same.
    pub fn this_process() -> Self {
        static THIS: LazyLock<TurnOwner> = LazyLock::new(|| TurnOwner(Uuid::new_v4()));
        *THIS
    }
}
