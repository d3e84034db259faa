//! What the engine asks of the world outside, done for it: each module stands behind a port of [`crate::engine`], and is
//! put in its place by [`crate::serve`].

pub mod policy_file;
pub mod webhooks;
