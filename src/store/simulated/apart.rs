//! A process for each world. Much is made once in a process and shared by all that runs in it: how many runtimes there were,
//! of which each has its chance, and tables that the first who asks makes. A world that comes after others would begin with what
//! they have left, and be another one than that of the same seed alone.
//!
//! So the test runs once more, in a process in which nothing has happened yet, and there each world in a copy of that.

#![allow(unsafe_code, reason = "a process is copied through C")]

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io::{PipeReader, Read, Write, pipe};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Set in the process that has nothing to do but a test's worlds: what is asked of it.
const APART: &str = "HITL_SIMULATED_APART";

/// Runs what a test consists of where nothing has happened yet, and gives it `asked`. What was printed there; `None` there.
pub fn run(test: &str, asked: &str, body: impl FnOnce(String)) -> Option<String> {
    if let Ok(asked) = std::env::var(APART) {
        body(asked);
        return None;
    }
    let mut process = Command::new(std::env::current_exe().unwrap());
    let output = process.args(["--exact", test, "--nocapture"]).env(APART, asked).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    #[allow(clippy::print_stderr, reason = "whoever looks at the test wants to see it")]
    {
        eprintln!("{err}");
    }
    // Of a name that is none, no test fails.
    assert!(output.status.success() && out.contains(" 1 passed"), "{test}, {}: see above\n{out}", output.status);
    Some(out)
}

/// The world of each seed in a process of its own, some at the same time: what came of them, in the order of the seeds.
pub fn each<T, F>(seeds: impl IntoIterator<Item = u64>, world: F) -> impl Iterator<Item = (u64, T)>
where
    T: Serialize + DeserializeOwned,
    F: Fn(u64) -> T,
{
    assert!(std::env::var_os(APART).is_some(), "something has happened here already");
    // One is done before its neighbours are: those behind it keep the cores busy.
    let at_once = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    let mut seeds = seeds.into_iter();
    let mut under_way = VecDeque::new();
    std::iter::from_fn(move || {
        while under_way.len() < at_once
            && let Some(seed) = seeds.next()
        {
            under_way.push_back(WorldCopy::begin(seed, &world));
        }
        under_way.pop_front().map(WorldCopy::told)
    })
}

/// What runs the world of a seed alone.
pub fn alone(seed: u64, test: &str) -> String {
    format!(
        "alone: HITL_SIMULATED_SEED={seed} cargo nextest run --locked --no-default-features --features failpoints {test}"
    )
}

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// A copy of this process that runs a world, and ends.
struct WorldCopy {
    seed: u64,
    pid: c_int,
    tells: PipeReader,
}

impl WorldCopy {
    fn begin<T: Serialize>(seed: u64, world: &impl Fn(u64) -> T) -> Self {
        let (tells, mut told) = pipe().unwrap();
        // Nothing else is at work here, that could hold what the copy needs.
        match unsafe { fork() } {
            -1 => panic!("no process: {}", std::io::Error::last_os_error()),
            0 => {
                let outcome = catch_unwind(AssertUnwindSafe(|| serde_json::to_vec(&world(seed)).unwrap()));
                let is_told = outcome.is_ok_and(|outcome| told.write_all(&outcome).is_ok());
                // What this process would do at its end is the other one's to do.
                unsafe { _exit(c_int::from(!is_told)) }
            }
            pid => Self { seed, pid, tells },
        }
    }

    fn told<T: DeserializeOwned>(mut self) -> (u64, T) {
        let mut told = Vec::new();
        self.tells.read_to_end(&mut told).unwrap();
        let outcome = serde_json::from_slice(&told);
        (self.seed, outcome.unwrap_or_else(|error| panic!("the world of seed {} has not ended: {error}", self.seed)))
    }
}

impl Drop for WorldCopy {
    fn drop(&mut self) {
        unsafe { waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}
