//! Work that may take its time is done apart from where everybody waits for it: a transaction. Builds for tests hold the
//! code to it; in a release all of this is empty.

use std::marker::PhantomData;

#[cfg(feature = "failpoints")]
std::thread_local! {
    static AWAITED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// While it is there, its thread does nothing that may take its time.
#[derive(Debug)]
pub struct Awaited {
    /// Of one thread.
    _thread: PhantomData<*const ()>,
    #[cfg(feature = "failpoints")]
    outer: bool,
}

impl Awaited {
    /// From here on everybody waits for what this thread does.
    pub fn begin() -> Self {
        Self {
            _thread: PhantomData,
            #[cfg(feature = "failpoints")]
            outer: AWAITED.replace(true),
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        #[cfg(feature = "failpoints")]
        AWAITED.set(self.outer);
    }
}

/// What follows takes as long as whoever sent it wants: a schema, an answer, an expression.
#[inline(always)]
pub fn takes_its_time() {
    #[cfg(feature = "failpoints")]
    assert!(!AWAITED.get(), "what may take its time is done in a transaction");
}

#[cfg(all(test, feature = "failpoints"))]
mod tests {
    use super::*;

    #[test]
    fn what_may_take_its_time_is_not_done_where_everybody_waits() {
        let works = || std::panic::catch_unwind(takes_its_time).is_ok();
        assert!(works());
        let awaited = Awaited::begin();
        drop(Awaited::begin());
        assert!(!works());
        drop(awaited);
        assert!(works());
    }
}
