//! Disks that fail, lie, and lose their power.

mod failing;
mod image;
mod powercut;
mod shim;

pub(in crate::store::sqlite) use shim::{synced, wrote};
