//! What goes from one store to another when it is copied ([`super::copy`]), and in which form.

pub(in crate::store) mod batches;
pub(in crate::store) mod lines;
pub(in crate::store) mod tables;
