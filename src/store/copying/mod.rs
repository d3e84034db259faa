//! All rows of a store, on their way into another one ([`super::copy`]) or to whoever looks whether they fit ([`super::check`]),
//! and in which form.

pub(in crate::store) mod batches;
pub(in crate::store) mod lines;
pub(in crate::store) mod tables;
