//! When files may have lost their names: the system says so, and asking it whether it has is one call that looks at no path.
//!
//! Who moves, removes or replaces a file has told before it goes on. Not all is told: a link of the path that leads elsewhere,
//! what another machine does to a file system of the network. So now and then is looked all the same.

use std::path::Path;
use std::time::{Duration, Instant};

pub(super) struct FileWatch {
    inotify: system::Inotify,
    /// When the files were last seen to have their names; `None` where they had not.
    seen: Option<Instant>,
    /// How long that counts where nothing is told.
    look_after: Duration,
}

impl FileWatch {
    /// Of nothing yet. `None` where the system has none, or has given away as many as it may: then each time has to be looked.
    pub(super) fn new(look_after: Duration) -> Option<Self> {
        system::Inotify::new().map(|inotify| Self { inotify, seen: None, look_after })
    }

    /// Whether there is no reason to look.
    pub(super) fn is_quiet(&mut self) -> bool {
        let is_changed = self.inotify.were_told();
        !is_changed && self.seen.is_some_and(|seen| seen.elapsed() < self.look_after)
    }

    /// There are other files than those that were seen.
    pub(super) fn forget(&mut self) {
        self.seen = None;
    }

    /// Watches what has these names, which has to be looked at after that, or one could be moved between the two. `false`
    /// where one of them is not there or cannot be watched.
    pub(super) fn begin<'p>(&self, paths: impl IntoIterator<Item = &'p Path>) -> bool {
        paths.into_iter().all(|path| self.inotify.watch(path))
    }

    /// The files were looked at; `is_well` where they had their names.
    pub(super) fn looked(&mut self, is_well: bool) {
        self.seen = is_well.then(Instant::now);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::io::{Errno, read};

    /// A descriptor that can be read once something has happened to what is watched.
    pub(super) struct Inotify(OwnedFd);

    impl Inotify {
        pub(super) fn new() -> Option<Self> {
            inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok().map(Self)
        }

        /// Watches what has this name, and the directories on the way there. The loss of a name of a file that somebody has
        /// open is a change of its attributes: it has one name less. `false` where one of them is not to be watched.
        pub(super) fn watch(&self, path: &Path) -> bool {
            let lost = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
            path.ancestors().all(|path| inotify::add_watch(&self.0, path, lost).is_ok())
        }

        /// Whether something was told since it was last asked, as far as one read goes: what is left is told the next time.
        pub(super) fn were_told(&self) -> bool {
            let mut events = [0; 4096];
            !matches!(read(&self.0, &mut events), Err(Errno::AGAIN))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::Path;

    pub(super) enum Inotify {}

    impl Inotify {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) fn watch(&self, _path: &Path) -> bool {
            match *self {}
        }

        pub(super) fn were_told(&self) -> bool {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn whoever_moves_removes_or_replaces_a_file_has_told_before_it_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let [file, other] = ["file", "other"].map(|name| directory.path().join(name));
        let moved = || fs::rename(&file, &other);
        let removed = || fs::remove_file(&file);
        let replaced = || fs::write(&other, "").and_then(|()| fs::rename(&other, &file));
        let loses: [&dyn Fn() -> std::io::Result<()>; 3] = [&moved, &removed, &replaced];
        for lose in loses {
            fs::write(&file, "").unwrap();
            let mut watch = FileWatch::new(Duration::MAX).unwrap();
            assert!(!watch.is_quiet(), "nothing was seen yet");
            assert!(watch.begin([file.as_path()]));
            watch.looked(true);
            fs::write(&file, "as often as it likes").unwrap();
            assert!(watch.is_quiet());
            lose().unwrap();
            assert!(!watch.is_quiet());
        }
    }

    #[test]
    fn what_has_not_its_name_is_looked_at_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let mut watch = FileWatch::new(Duration::MAX).unwrap();
        assert!(!watch.begin([directory.path().join("none").as_path()]));
        assert!(watch.begin([directory.path()]));
        watch.looked(false);
        assert!(!watch.is_quiet());
        watch.looked(true);
        assert!(watch.is_quiet());
        watch.forget();
        assert!(!watch.is_quiet());
    }
}
