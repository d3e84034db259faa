//! A database that many servers share: PostgreSQL.

pub(super) mod cells;
