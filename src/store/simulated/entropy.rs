//! Chance, as a seed has it. The order of a hash map and which ready branch `select!` takes first come from the system's
//! random bytes: a thread that runs a world gets those of its seed instead, so that a world that is run again is the same, in a
//! process that is as it was then (`apart.rs`).

#![allow(unsafe_code, reason = "the system's random bytes come through C")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_long, c_uint, c_void};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::domain::seeds::{self, Random};

thread_local! {
    static BYTES: RefCell<Option<Random>> = const { RefCell::new(None) };
}

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// How many tasks of this thread's world have panicked.
pub fn panics() -> usize {
    PANICS.get()
}

/// Counts panics from here on: nobody waits for most tasks.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.try_with(|panics| panics.set(panics.get() + 1)).unwrap_or_default();
            before(panic);
        }));
    });
}

/// Runs the world of a seed on a thread of its own.
pub fn run<T, F>(seed: u64, world: impl FnOnce() -> F + Send) -> T
where
    T: Send,
    F: Future<Output = T>,
{
    count_panics();
    thread::scope(|scope| {
        let run = thread::Builder::new().name(format!("seed {seed}")).spawn_scoped(scope, move || {
            BYTES.set(Some(Random(seed)));
            seeds::enter(seed, moment);
            let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(world())
        });
        match run.unwrap().join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Since the world began.
fn moment() -> Duration {
    thread_local! {
        static BEGAN: tokio::time::Instant = tokio::time::Instant::now();
    }
    // The first who asks begins it; a second is on every clock by then.
    BEGAN.with(tokio::time::Instant::elapsed) + Duration::from_secs(1)
}

/// Fills `buffer` where this thread has a seed.
fn fill(buffer: *mut c_void, length: usize) -> bool {
    let filled = BYTES.try_with(|bytes| {
        let mut bytes = bytes.try_borrow_mut().ok()?;
        let random = bytes.as_mut()?;
        for place in 0..length {
            // Whoever calls says that there is room.
            unsafe { buffer.cast::<u8>().add(place).write(random.draw() as u8) };
        }
        Some(())
    });
    filled.is_ok_and(|filled| filled.is_some())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const GETRANDOM: c_long = 318;
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
const GETRANDOM: c_long = 278;

/// In the place of the C library's, which the standard library lets whoever wants to take.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(no_mangle)]
extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    if fill(buffer, length) {
        return length.cast_signed();
    }
    unsafe { syscall(GETRANDOM, buffer, length, flags) as isize }
}
