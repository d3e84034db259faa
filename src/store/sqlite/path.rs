//! The path of a store's file, those of the files beside it, and why one of them is refused.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::store::open_error::OpenError;

/// The path of the file itself: what it is locked by, and what its log lies beside, whichever link leads to it.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, OpenError> {
    let path = std::path::absolute(path).map_err(|error| failed(path, &error))?;
    if path.is_symlink() && path.exists() {
        return std::fs::canonicalize(&path).map_err(|error| failed(&path, &error));
    }
    Ok(path)
}

/// SQLite's refusal to open a file.
pub(super) fn refused(path: &Path, error: &rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => OpenError::NotADatabase(path.to_owned()),
        Some(rusqlite::ErrorCode::PermissionDenied | rusqlite::ErrorCode::ReadOnly) => {
            OpenError::NoPermission(path.to_owned())
        }
        _ => OpenError::Failed { path: path.to_owned(), reason: error.to_string() },
    }
}

/// The system's refusal.
pub(super) fn failed(path: &Path, error: &std::io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => OpenError::NoPermission(path.to_owned()),
        _ => OpenError::Failed { path: path.to_owned(), reason: error.to_string() },
    }
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
