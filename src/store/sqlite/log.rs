//! The write-ahead log that a server finds after a failed sync or a crash.
//!
//! When a sync fails, the system forgets what it could not write, but shows it to every reader as if it were there. Such
//! a log ends in commits that exist in memory only. SQLite takes them for good, copies them into the file and builds upon
//! them, and a power cut then leaves halves. Writing down once more what the log says makes it true.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How much is written at once.
const CHUNK: usize = 1 << 20;

/// Writes the log of the store at `path` once more, as it reads, and syncs it. Only for whoever is alone with the file:
/// what another process appends meanwhile could be overwritten.
pub(super) fn write_again(path: &Path) -> Result<(), Error> {
    let path = super::path::with_suffix(path, "-wal");
    let log = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(log) => log,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut chunk = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        let length = read_at(&log, &mut chunk, offset)?;
        let Some(data) = chunk.get(..length).filter(|data| !data.is_empty()) else { break };
        log.write_all_at(data, offset)?;
        #[cfg(test)]
        super::tests::disk::wrote(&path, offset, data);
        offset += length as u64;
    }
    if offset > 0 {
        #[cfg(test)]
        if super::tests::disk::synced(&path) {
            return Ok(());
        }
        log.sync_all()?;
    }
    Ok(())
}

fn read_at(log: &File, chunk: &mut [u8], offset: u64) -> Result<usize, Error> {
    loop {
        match log.read_at(chunk, offset) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
