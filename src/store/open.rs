//! From a store's address (`--store`) to a store, or to an error that says what to do.

use std::path::PathBuf;
use std::sync::Arc;

use super::Store;
use super::memory::MemoryStore;
use super::open_error::OpenError;
use super::postgres::{self, PgAddress};
use super::shared::membership::Admission;
use super::shared::servers::{ServerKind, ServerRole};
use super::sqlite::SqliteStore;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `memory`: gone with the process.
    Memory,
    /// `sqlite:PATH`, or just a path: one file.
    Sqlite(PathBuf),
    /// `postgresql://...`: a database that is elsewhere.
    Postgres(Box<PgAddress>),
}

impl Address {
    /// Reads the value of `--store`.
    ///
    /// # Errors
    /// [`OpenError::InvalidAddress`].
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        // An address may carry a password, so it is not repeated.
        let invalid = |reason: &str| Err(OpenError::InvalidAddress(reason.to_owned()));
        if text.eq_ignore_ascii_case("memory") {
            return invalid("memory is written in small letters, and a file of that name as ./Memory");
        }
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
            "postgres" | "postgresql" => Ok(Self::Postgres(Box::new(text.parse()?))),
            "memory" => invalid("nothing may follow memory"),
            _ => invalid(&format!("unknown kind of store {scheme:?}")),
        }
    }
}

impl Address {
    /// The address to find the same store by from every directory; `None` for one that is gone when it is closed.
    pub fn whole(&self) -> Option<String> {
        let path = match self {
            Self::Memory => return None,
            Self::Sqlite(path) => path,
            // Without the password: whoever has the state need not have the database.
            Self::Postgres(address) => return Some(address.to_string()),
        };
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        // What is no text came from the directory and not from the address, which was one.
        Some(format!("sqlite:{}", absolute.to_str().or_else(|| path.to_str())?))
    }
}

/// Whether the word before a colon names a kind of store; a path such as `./a:b` or `C:x` has none.
fn is_scheme(word: &str) -> bool {
    word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-'))
}

/// Opens the store at `address` for a server that does what `role` says: where it is elsewhere, beside other servers, and once
/// no run has it.
///
/// # Errors
/// [`OpenError`]; nothing has been created then. [`OpenError::Locked`] and
/// [`ServerTrouble::InUse`](super::open_error::ServerTrouble::InUse) while somebody has it.
pub async fn serve(address: &str, role: ServerRole) -> Result<Arc<dyn Store>, OpenError> {
    open_as(address, ServerKind::Server, role, Admission::StandsBy).await
}

/// Opens the store at `address` for a command that changes what is everybody's: alone, or, where it is elsewhere, beside
/// whoever has it.
///
/// # Errors
/// [`OpenError`], as [`serve`].
pub async fn change(address: &str) -> Result<Arc<dyn Store>, OpenError> {
    open_as(address, ServerKind::Tool, ServerRole::default(), Admission::AtOnce).await
}

/// The same for a server, a run or a tool, which waits as `admission` says.
pub(in crate::store) async fn open_as(
    address: &str,
    kind: ServerKind,
    role: ServerRole,
    admission: Admission,
) -> Result<Arc<dyn Store>, OpenError> {
    Ok(match Address::parse(address)? {
        Address::Memory => Arc::new(MemoryStore::default()),
        Address::Sqlite(path) => Arc::new(SqliteStore::open(&path)?),
        Address::Postgres(address) => Arc::new(postgres::join(&address, kind, role, admission).await?),
    })
}

/// Opens the store at `address` for a process that runs agents without a server, beside others like it.
///
/// # Errors
/// [`OpenError`], as [`serve`], while a server has it.
pub async fn shared(address: &str) -> Result<Arc<dyn Store>, OpenError> {
    Ok(match Address::parse(address)? {
        Address::Memory => Arc::new(MemoryStore::default()),
        Address::Sqlite(path) => Arc::new(SqliteStore::open_shared(&path)?),
        Address::Postgres(address) => {
            Arc::new(postgres::join(&address, ServerKind::Run, ServerRole::default(), Admission::AtOnce).await?)
        }
    })
}

/// Opens the existing store at `address` for reading, whoever has it. Nothing of it is changed; a write is
/// [`Error::StoreUnavailable`](crate::domain::Error::StoreUnavailable).
///
/// # Errors
/// [`OpenError`]; [`OpenError::Missing`] and [`ServerTrouble::NoSchema`](super::open_error::ServerTrouble::NoSchema) where
/// there is none.
pub async fn read_only(address: &str) -> Result<Arc<dyn Store>, OpenError> {
    Ok(match Address::parse(address)? {
        Address::Memory => {
            return Err(OpenError::InvalidAddress("memory holds nothing that is there to be read".to_owned()));
        }
        Address::Sqlite(path) => Arc::new(SqliteStore::open_read_only(&path)?),
        Address::Postgres(address) => Arc::new(postgres::read_only(&address).await?),
    })
}
