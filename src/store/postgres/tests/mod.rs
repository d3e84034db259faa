//! The database itself.
