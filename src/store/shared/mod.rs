//! A store that many servers share: jobs over a database that is elsewhere.

pub mod backend;
pub mod changes;
pub mod question;
