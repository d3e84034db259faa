//! Until when this server may act, on a page of memory that its workers read before they begin a step. A server that is
//! stopped, or hangs, cannot end its workers, and another one goes on with their turns meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use tokio::sync::watch;

use super::start_error::ServerStartError;
use crate::domain::cluster::Moment;
use crate::store::open::Address;

/// The variable of their environment that tells workers its descriptor.
pub const VARIABLE: &str = "HITL_LEASE_PAGE";

/// One for the workers of a server on `store`, where others may take its turns over. None where the system has no such pages.
///
/// # Errors
/// [`ServerStartError::LeasePage`] where there could be one.
pub fn for_workers(store: &Address) -> Result<Option<Arc<LeasePage>>, ServerStartError> {
    if !matches!(store, Address::Postgres(_)) {
        return Ok(None);
    }
    match LeasePage::new() {
        Ok(page) => Ok(Some(Arc::new(page))),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(ServerStartError::LeasePage(error)),
    }
}

/// Nanoseconds since the machine was booted, a `u64` in the machine's own order of bytes; 0 while it may not act at all.
pub struct LeasePage {
    page: File,
    /// What workers inherit, and cannot write to.
    inherited: OwnedFd,
}

impl LeasePage {
    /// One that says that it may not act yet.
    ///
    /// # Errors
    /// Those of the system; `Unsupported` where it has no files in memory.
    fn new() -> io::Result<Self> {
        let page = memory_file()?;
        page.set_len(size_of::<u64>() as u64)?;
        let path = format!("/proc/self/fd/{}", page.as_raw_fd());
        Ok(Self { inherited: rustix::fs::open(path, OFlags::RDONLY, Mode::empty())?, page })
    }

    /// What processes find it by that this one starts.
    pub fn descriptor(&self) -> RawFd {
        self.inherited.as_raw_fd()
    }

    fn say(&self, end: Option<Moment>) {
        let nanos = end.map_or(0, |end| u64::try_from(end.as_nanos()).unwrap_or(u64::MAX));
        if let Err(error) = self.page.write_all_at(&nanos.to_ne_bytes(), 0) {
            tracing::error!(%error, "workers could not be told until when this server may act, and begin no step");
        }
    }
}

#[cfg(target_os = "linux")]
fn memory_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    // Hardened systems make none that could be executed; older ones do not know the difference.
    let page = memfd_create("hitl-lease", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| memfd_create("hitl-lease", MemfdFlags::CLOEXEC))?;
    Ok(File::from(page))
}

#[cfg(not(target_os = "linux"))]
fn memory_file() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes down each end of a lease, for as long as there are new ones.
pub async fn follow(page: Arc<LeasePage>, mut ends: watch::Receiver<Option<Moment>>) {
    loop {
        let end = *ends.borrow_and_update();
        page.say(end);
        if ends.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    fn read(page: &LeasePage) -> u64 {
        let inherited = File::from(page.inherited.try_clone().unwrap());
        let mut bytes = [0; 8];
        inherited.read_exact_at(&mut bytes, 0).unwrap();
        u64::from_ne_bytes(bytes)
    }

    #[tokio::test]
    async fn workers_read_until_when_their_server_may_act_and_cannot_change_it() {
        let page = Arc::new(LeasePage::new().unwrap());
        assert_eq!(read(&page), 0, "it may not act yet");
        let (sender, ends) = watch::channel(Some(Duration::from_nanos(7)));
        let following = tokio::spawn(follow(Arc::clone(&page), ends));
        while read(&page) != 7 {
            tokio::task::yield_now().await;
        }
        sender.send_replace(None);
        drop(sender);
        following.await.unwrap();
        assert_eq!(read(&page), 0, "it was buried");
        let inherited = File::from(page.inherited.try_clone().unwrap());
        assert!(inherited.write_all_at(&[1; 8], 0).is_err());
    }
}
