//! What costs something to find out, and many may ask for: counts that take longer the more there is to count.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::domain::Error;
use crate::engine::detached;

/// What is counted rests after this many times as long as the last count took.
const REST: u32 = 20;

/// A count that is made again only after a rest, so that whoever asks often costs little.
#[derive(Debug)]
pub struct RestingCount<T>(Arc<Mutex<Option<CountUntil<T>>>>);

/// Until when a count is good enough, and what it came to.
type CountUntil<T> = (Instant, T);

impl<T> Default for RestingCount<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone + Send + 'static> RestingCount<T> {
    /// What was counted last, or, after the rest, what `count` comes to now.
    ///
    /// # Errors
    /// Those of `count`.
    pub async fn get<F>(&self, count: impl FnOnce() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.get_resting(|took| took * REST, count).await
    }

    /// The same, where the caller says how long a count rests that took so long.
    ///
    /// # Errors
    /// Those of `count`.
    pub async fn get_resting<F>(
        &self,
        rest: impl FnOnce(Duration) -> Duration + Send + 'static,
        count: impl FnOnce() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut counted = Arc::clone(&self.0).lock_owned().await;
        let fresh = counted.as_ref().filter(|(until, _)| Instant::now() < *until);
        if let Some((_, value)) = fresh {
            return Ok(value.clone());
        }
        let (started, counting) = (Instant::now(), count());
        // Kept, and let go of, even if whoever wanted it hangs up meanwhile.
        detached(async move {
            let value = counting.await?;
            let took = started.elapsed();
            *counted = Some((started + took + rest(took), value.clone()));
            Ok(value)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_was_counted_is_told_again_until_it_has_rested_and_what_failed_is_not() {
        let count = RestingCount::default();
        let failed = count.get(|| async { Err(Error::Internal("away".to_owned())) }).await;
        assert!(failed.is_err());
        assert_eq!(count.get(|| async { Ok(1) }).await, Ok(1));
        let rests = async |until| *count.0.lock().await = Some((until, 1));
        rests(Instant::now() + Duration::from_secs(3600)).await;
        assert_eq!(count.get(|| async { Ok(2) }).await, Ok(1));
        rests(Instant::now()).await;
        assert_eq!(count.get(|| async { Ok(2) }).await, Ok(2));
    }
}
