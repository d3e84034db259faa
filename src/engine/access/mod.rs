//! Who may what: keys and sign-ins, and the rules that decide over calls.

pub mod keyring;
pub(super) mod policy;
pub mod policy_file;
pub(super) mod schemas;
