//! How far a store's schema is, for `hitl migrate`.

/// Which schema there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaState {
    /// Its version; `None` where there is none.
    pub found: Option<i32>,
    /// The version that this build reads and writes.
    pub newest: i32,
}
