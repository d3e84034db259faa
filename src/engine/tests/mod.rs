//! The rules of pausing, parking, recovery and retries, with workers that the tests play.
