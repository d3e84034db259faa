//! A layer between SQLite and the system's files (a VFS) that notes every change of the files of one directory, and
//! fails where it is told to. Everything is passed on to the real files.
//!
//! It becomes SQLite's default once and for all tests of the process; files of other directories pass through unseen.

#![allow(unsafe_code, reason = "SQLite's interface to files is C")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::ffi::{
    SQLITE_OK, SQLITE_OPEN_CREATE, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs,
    sqlite3_vfs_find, sqlite3_vfs_register,
};

/// One change of a file, or a word of the test in between.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Create,
    Write {
        offset: u64,
        data: Vec<u8>,
    },
    Truncate {
        length: u64,
    },
    /// What was written before is on the disk.
    Sync,
    /// The system could not write what was written before, and has forgotten that it ever should.
    FailedSync,
    Delete {
        is_synced: bool,
    },
    /// The store has acknowledged this.
    Acknowledged(u64),
}

/// Which calls a fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Write,
    Sync,
    Truncate,
}

/// Calls that fail: `times` of them after `skip` that go well.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) call: Call,
    pub(crate) skip: u32,
    pub(crate) times: u32,
    /// SQLite's extended error code.
    pub(crate) code: c_int,
}

#[derive(Default)]
struct State {
    changes: Vec<(String, Change)>,
    faults: Vec<Fault>,
}

/// The files of one directory.
#[derive(Clone)]
pub(crate) struct Disk {
    directory: PathBuf,
    is_recording: bool,
    state: Arc<Mutex<State>>,
}

impl Disk {
    /// Begins to watch the files of `directory`.
    pub(crate) fn watch(directory: &Path) -> Self {
        Self::begin(directory, true)
    }

    /// Only keeps the files of `directory` from being synced, which takes long and changes nothing for a test.
    pub(crate) fn spare(directory: &Path) -> Self {
        Self::begin(directory, false)
    }

    fn begin(directory: &Path, is_recording: bool) -> Self {
        install();
        let disk = Self { directory: directory.to_owned(), is_recording, state: Arc::default() };
        lock(disks()).push(disk.clone());
        disk
    }

    /// Stops watching: every change so far, in order, with the name of its file.
    pub(crate) fn finish(self) -> Vec<(String, Change)> {
        lock(disks()).retain(|disk| disk.directory != self.directory);
        std::mem::take(&mut lock(&self.state).changes)
    }

    /// Notes what the store has acknowledged by now.
    pub(crate) fn acknowledged(&self, number: u64) {
        self.note("", Change::Acknowledged(number));
    }

    pub(crate) fn fail(&self, fault: Fault) {
        lock(&self.state).faults.push(fault);
    }

    /// From now on everything goes well.
    pub(crate) fn heal(&self) {
        lock(&self.state).faults.clear();
    }

    fn note(&self, file: &str, change: Change) {
        if self.is_recording {
            lock(&self.state).changes.push((file.to_owned(), change));
        }
    }

    /// The error of this call, if it is to fail.
    fn fault(&self, call: Call) -> Option<c_int> {
        let mut state = lock(&self.state);
        let fault = state.faults.iter_mut().find(|fault| fault.call == call && fault.times > 0)?;
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        fault.times -= 1;
        Some(fault.code)
    }
}

/// What the store writes past SQLite.
pub(in crate::store::sqlite) fn wrote(path: &Path, offset: u64, data: &[u8]) {
    note_at(path, Change::Write { offset, data: data.to_vec() });
}

/// What the store syncs past SQLite. Whether the real disk is to be spared.
pub(in crate::store::sqlite) fn synced(path: &Path) -> bool {
    note_at(path, Change::Sync)
}

fn note_at(path: &Path, change: Change) -> bool {
    let watched = find_path(path);
    if let Some(watched) = &watched {
        watched.disk.note(&watched.name, change);
    }
    watched.is_some()
}

fn disks() -> &'static Mutex<Vec<Disk>> {
    static DISKS: Mutex<Vec<Disk>> = Mutex::new(Vec::new());
    &DISKS
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of an open file; behind it in memory lies the real file.
#[repr(C)]
struct ShimFile {
    base: sqlite3_file,
    /// `None` for a file that nobody watches.
    watched: *mut Watched,
}

struct Watched {
    disk: Disk,
    name: String,
}

struct Real(*mut sqlite3_vfs);

// SAFETY: SQLite's own VFS objects may be used from every thread.
unsafe impl Send for Real {}
// SAFETY: as above.
unsafe impl Sync for Real {}

fn real_vfs() -> *mut sqlite3_vfs {
    static REAL: OnceLock<Real> = OnceLock::new();
    // SAFETY: a null name asks for the default; this runs before the shim takes its place.
    REAL.get_or_init(|| Real(unsafe { sqlite3_vfs_find(std::ptr::null()) })).0
}

fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // SAFETY: the real VFS lives as long as the process. Its other functions find in the copy all that they read of
        // their VFS, and the copy is never freed.
        unsafe {
            let real = *real_vfs();
            let shim = Box::leak(Box::new(sqlite3_vfs {
                szOsFile: real.szOsFile + size_of::<ShimFile>() as c_int,
                pNext: std::ptr::null_mut(),
                zName: c"hitl-test-disk".as_ptr(),
                xOpen: Some(open),
                xDelete: Some(delete),
                ..real
            }));
            assert_eq!(sqlite3_vfs_register(shim, 1), SQLITE_OK);
        }
    });
}

/// The watched disk that a file lies on, with the file's name there.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn find(name: *const c_char) -> Option<Watched> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    find_path(Path::new(unsafe { CStr::from_ptr(name) }.to_str().ok()?))
}

fn find_path(path: &Path) -> Option<Watched> {
    let disk = lock(disks()).iter().find(|disk| Some(disk.directory.as_path()) == path.parent())?.clone();
    Some(Watched { disk, name: path.file_name()?.to_str()?.to_owned() })
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives `szOsFile` bytes at `file`, which is room for both, and valid arguments for the real one.
    unsafe {
        let shim = file.cast::<ShimFile>();
        (*shim).base.pMethods = std::ptr::null();
        let is_new = flags & SQLITE_OPEN_CREATE != 0 && (name.is_null() || !Path::new(&text(name)).exists());
        let code = (*real_vfs()).xOpen.unwrap()(real_vfs(), name, real(file), flags, out_flags);
        if code != SQLITE_OK {
            return code;
        }
        let watched = find(name);
        if let Some(watched) = watched.as_ref().filter(|_| is_new) {
            watched.disk.note(&watched.name, Change::Create);
        }
        (*shim).watched = watched.map_or(std::ptr::null_mut(), |watched| Box::into_raw(Box::new(watched)));
        (*shim).base.pMethods = &raw const METHODS;
        SQLITE_OK
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite's arguments, passed on.
    unsafe {
        let code = (*real_vfs()).xDelete.unwrap()(real_vfs(), name, sync);
        if let Some(watched) = find(name).filter(|_| code == SQLITE_OK) {
            watched.disk.note(&watched.name, Change::Delete { is_synced: sync != 0 });
        }
        code
    }
}

unsafe fn text(name: *const c_char) -> String {
    // SAFETY: the callers give C strings.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// The real file behind ours.
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: SQLite gave room for it there.
    unsafe { file.cast::<u8>().add(size_of::<ShimFile>()).cast() }
}

unsafe fn watched<'a>(file: *mut sqlite3_file) -> Option<&'a Watched> {
    // SAFETY: set when the file was opened, freed when it is closed.
    unsafe { (*file.cast::<ShimFile>()).watched.as_ref() }
}

/// Calls a method of the real file.
macro_rules! pass_on {
    ($file:ident . $method:ident ( $($argument:expr),* )) => {{
        let real = real($file);
        (*(*real).pMethods).$method.unwrap()(real $(, $argument)*)
    }};
}

/// Methods that only pass on.
macro_rules! passing {
    ($($name:ident = $method:ident ( $($argument:ident : $type:ty),* ) $(-> $result:ty)?;)*) => {
        $(unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) $(-> $result)? {
            // SAFETY: SQLite's arguments, for the real file.
            unsafe { pass_on!(file.$method($($argument),*)) }
        })*
    };
}

passing! {
    read = xRead(into: *mut c_void, amount: c_int, offset: sqlite3_int64) -> c_int;
    file_size = xFileSize(size: *mut sqlite3_int64) -> c_int;
    lock_file = xLock(level: c_int) -> c_int;
    unlock_file = xUnlock(level: c_int) -> c_int;
    check_reserved = xCheckReservedLock(out: *mut c_int) -> c_int;
    control = xFileControl(op: c_int, argument: *mut c_void) -> c_int;
    sector_size = xSectorSize() -> c_int;
    characteristics = xDeviceCharacteristics() -> c_int;
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
    shm_lock = xShmLock(offset: c_int, n: c_int, flags: c_int) -> c_int;
    shm_barrier = xShmBarrier();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int;
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: the last call for this file.
    unsafe {
        let shim = file.cast::<ShimFile>();
        if !(*shim).watched.is_null() {
            drop(Box::from_raw((*shim).watched));
        }
        pass_on!(file.xClose())
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite's arguments; `data` holds `amount` bytes.
    unsafe {
        let Some(watched) = watched(file) else { return pass_on!(file.xWrite(data, amount, offset)) };
        if let Some(code) = watched.disk.fault(Call::Write) {
            return code;
        }
        let data_written = std::slice::from_raw_parts(data.cast::<u8>(), amount as usize).to_vec();
        let code = pass_on!(file.xWrite(data, amount, offset));
        if code == SQLITE_OK {
            watched.disk.note(&watched.name, Change::Write { offset: offset as u64, data: data_written });
        }
        code
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: SQLite's arguments.
    unsafe {
        let Some(watched) = watched(file) else { return pass_on!(file.xTruncate(size)) };
        if let Some(code) = watched.disk.fault(Call::Truncate) {
            return code;
        }
        let code = pass_on!(file.xTruncate(size));
        if code == SQLITE_OK {
            watched.disk.note(&watched.name, Change::Truncate { length: size as u64 });
        }
        code
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite's arguments. The real disk is spared: what counts is what the test makes of the notes.
    unsafe {
        let Some(watched) = watched(file) else { return pass_on!(file.xSync(flags)) };
        if let Some(code) = watched.disk.fault(Call::Sync) {
            watched.disk.note(&watched.name, Change::FailedSync);
            return code;
        }
        watched.disk.note(&watched.name, Change::Sync);
        SQLITE_OK
    }
}

/// Version 2: shared memory, but no mapped reads and writes, which would pass us by.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock_file),
    xUnlock: Some(unlock_file),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
