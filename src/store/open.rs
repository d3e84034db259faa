//! From a store's address (`--store`) to a store, or to an error that says what to do.

use std::path::PathBuf;
use std::sync::Arc;

use super::Store;
use super::memory::MemoryStore;
use super::open_error::OpenError;
use super::sqlite::SqliteStore;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `memory`: gone with the process.
    Memory,
    /// `sqlite:PATH`, or just a path: one file.
    Sqlite(PathBuf),
}

impl Address {
    /// Reads the value of `--store`.
    ///
    /// # Errors
    /// [`OpenError::InvalidAddress`], [`OpenError::Unsupported`].
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        // An address may carry a password, so it is not repeated.
        let invalid = |reason: &str| Err(OpenError::InvalidAddress(reason.to_owned()));
        let (scheme, path) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => ("sqlite".to_owned(), text),
        };
        match scheme.as_str() {
            "sqlite" if path.trim().is_empty() => invalid("it has no path"),
            "sqlite" if path.contains('\0') => invalid("a path cannot hold a null character"),
            "sqlite" if path == ":memory:" => invalid("SQLite's :memory: is the database of a single connection"),
            "sqlite" if path.starts_with("//") => invalid("a path follows sqlite: at once, without two slashes"),
            "sqlite" => Ok(Self::Sqlite(PathBuf::from(path))),
            "postgres" | "postgresql" => Err(OpenError::Unsupported("PostgreSQL")),
            "memory" => invalid("nothing may follow memory"),
            _ => invalid(&format!("unknown kind of store {scheme:?}")),
        }
    }
}

impl Address {
    /// The address to find the same store by from every directory; `None` for one that is gone when it is closed.
    pub fn whole(&self) -> Option<String> {
        let Self::Sqlite(path) = self else { return None };
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        // What is no text came from the directory and not from the address, which was one.
        Some(format!("sqlite:{}", absolute.to_str().or_else(|| path.to_str())?))
    }
}

/// Whether the word before a colon names a kind of store; a path such as `./a:b` or `C:x` has none.
fn is_scheme(word: &str) -> bool {
    word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-'))
}

/// Opens the store at `address` (`sqlite:PATH`, a path, or `memory`) for one server alone.
///
/// # Errors
/// [`OpenError`]; nothing has been created then.
pub fn open(address: &str) -> Result<Arc<dyn Store>, OpenError> {
    match Address::parse(address)? {
        Address::Memory => Ok(Arc::new(MemoryStore::default())),
        Address::Sqlite(path) => Ok(Arc::new(SqliteStore::open(&path)?)),
    }
}

/// Opens the store at `address` for a process that runs agents without a server, beside others like it.
///
/// # Errors
/// [`OpenError`]; [`OpenError::Locked`] while a server has it.
pub fn shared(address: &str) -> Result<Arc<dyn Store>, OpenError> {
    match Address::parse(address)? {
        Address::Memory => Ok(Arc::new(MemoryStore::default())),
        Address::Sqlite(path) => Ok(Arc::new(SqliteStore::open_shared(&path)?)),
    }
}

/// Opens the existing store at `address` for reading, whoever has it. Nothing of it is changed; a write is
/// [`Error::StoreUnavailable`](crate::domain::Error::StoreUnavailable).
///
/// # Errors
/// [`OpenError`]; [`OpenError::Missing`] where there is none.
pub fn read_only(address: &str) -> Result<Arc<dyn Store>, OpenError> {
    match Address::parse(address)? {
        Address::Memory => Err(OpenError::InvalidAddress("memory holds nothing that is there to be read".to_owned())),
        Address::Sqlite(path) => Ok(Arc::new(SqliteStore::open_read_only(&path)?)),
    }
}
