//! Futures that an event loop drives itself: nothing of them runs in a thread of ours, so that what need not wait is done
//! when the call returns, and what has waited is a byte on a socket away.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use futures_util::future::BoxFuture;

/// See the module.
pub struct Driver {
    tasks: Mutex<HashMap<u64, BoxFuture<'static, ()>>>,
    woken: Arc<ReadyFutures>,
}

/// Which futures can go on.
pub struct ReadyFutures {
    state: Mutex<State>,
    bell: UnixStream,
}

#[derive(Default)]
struct State {
    tasks: Vec<u64>,
    /// There is news that is no future's.
    has_news: bool,
    /// Somebody looks at them before they return to their loop.
    is_driven: bool,
}

impl Driver {
    /// A driver that writes a byte to `bell` when it is to be driven, and is not.
    pub fn new(bell: UnixStream) -> Self {
        Self { tasks: Mutex::default(), woken: Arc::new(ReadyFutures { state: Mutex::default(), bell }) }
    }

    /// What rings the bell.
    pub fn woken(&self) -> &Arc<ReadyFutures> {
        &self.woken
    }

    /// Adds a future, which has a number that no other one has.
    pub fn add(&self, number: u64, task: BoxFuture<'static, ()>) {
        lock(&self.tasks).insert(number, task);
        let mut state = lock(&self.woken.state);
        state.tasks.push(number);
        // Whoever adds drives.
        state.is_driven = true;
    }

    /// Whoever calls will drive: until then nothing has to wake it.
    pub fn expect(&self) {
        lock(&self.woken.state).is_driven = true;
    }

    /// Lets every future go on that can, until none can.
    pub fn drive(&self) {
        // Held throughout: a future that is woken by another thread while it runs is found again.
        let mut tasks = lock(&self.tasks);
        while let Some(numbers) = self.woken.take() {
            for number in numbers {
                // Taken out, so that one that panics is not polled again.
                let Some(mut task) = tasks.remove(&number) else { continue };
                let waker = Waker::from(Arc::new(Knock { number, woken: Arc::clone(&self.woken) }));
                if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    tasks.insert(number, task);
                }
            }
        }
    }
}

impl ReadyFutures {
    /// Something is to be fetched.
    pub fn tell(&self) {
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.has_news, true) {
            self.ring(&state, state.tasks.is_empty());
        }
    }

    fn wake(&self, number: u64) {
        let mut state = lock(&self.state);
        state.tasks.push(number);
        self.ring(&state, state.tasks.len() == 1 && !state.has_news);
    }

    fn ring(&self, state: &State, is_first: bool) {
        if is_first && !state.is_driven {
            // Full, or nobody listens any more: either way there is nothing to wake.
            let _ = (&self.bell).write(&[1]);
        }
    }

    /// Which can go on; with `None` nobody drives any more.
    fn take(&self) -> Option<Vec<u64>> {
        let mut state = lock(&self.state);
        state.is_driven = !state.tasks.is_empty();
        if !state.is_driven {
            state.has_news = false;
            return None;
        }
        Some(std::mem::take(&mut state.tasks))
    }
}

/// The waker of one future.
struct Knock {
    number: u64,
    woken: Arc<ReadyFutures>,
}

impl Wake for Knock {
    fn wake(self: Arc<Self>) {
        self.woken.wake(self.number);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.wake(self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What panics in a future leaves nothing half changed here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read;

    use tokio::sync::oneshot;

    use super::*;

    type Done = Arc<Mutex<Vec<&'static str>>>;

    struct Loop {
        driver: Driver,
        bell: UnixStream,
        done: Done,
    }

    impl Loop {
        fn new() -> Self {
            let (ours, bell) = UnixStream::pair().unwrap();
            bell.set_nonblocking(true).unwrap();
            Self { driver: Driver::new(ours), bell, done: Done::default() }
        }

        /// Adds a future that waits for its sender, and says its name then.
        fn waits(&self, number: u64, name: &'static str) -> oneshot::Sender<()> {
            let (sender, receiver) = oneshot::channel();
            let done = Arc::clone(&self.done);
            self.driver.add(
                number,
                Box::pin(async move {
                    receiver.await.unwrap();
                    lock(&done).push(name);
                }),
            );
            sender
        }

        fn rings(&mut self) -> usize {
            self.bell.read(&mut [0; 16]).unwrap_or(0)
        }

        fn done(&self) -> Vec<&'static str> {
            lock(&self.done).clone()
        }
    }

    #[test]
    fn what_need_not_wait_is_done_at_once_and_rings_no_bell() {
        let mut here = Loop::new();
        here.waits(1, "one").send(()).unwrap();
        here.driver.drive();
        assert_eq!(here.done(), ["one"]);
        assert_eq!(here.rings(), 0);
    }

    #[test]
    fn what_is_woken_elsewhere_rings_once_until_it_is_driven() {
        let mut here = Loop::new();
        let (one, two) = (here.waits(1, "one"), here.waits(2, "two"));
        here.driver.drive();
        std::thread::spawn(|| (one.send(()).unwrap(), two.send(()).unwrap())).join().unwrap();
        assert_eq!(here.rings(), 1);
        assert!(here.done().is_empty(), "nothing runs in another thread");
        here.driver.drive();
        assert_eq!(here.done(), ["one", "two"]);
        assert_eq!(here.rings(), 0);
    }

    #[test]
    fn whoever_is_about_to_drive_is_not_woken() {
        let mut here = Loop::new();
        let one = here.waits(1, "one");
        here.driver.drive();
        here.driver.expect();
        one.send(()).unwrap();
        assert_eq!(here.rings(), 0);
        here.driver.drive();
        assert_eq!(here.done(), ["one"]);
    }

    #[test]
    fn a_future_may_wake_another_one() {
        let here = Loop::new();
        let one = here.waits(1, "one");
        let two = here.waits(2, "two");
        here.driver.add(3, Box::pin(async move { one.send(()).unwrap() }));
        here.driver.add(4, Box::pin(async move { two.send(()).unwrap() }));
        here.driver.drive();
        assert_eq!(here.done(), ["one", "two"]);
    }

    #[test]
    fn news_ring_once_until_somebody_looks() {
        let mut here = Loop::new();
        here.driver.woken().tell();
        here.driver.woken().tell();
        assert_eq!(here.rings(), 1);
        here.driver.drive();
        here.driver.woken().tell();
        assert_eq!(here.rings(), 1);
    }
}
