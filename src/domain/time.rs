//! Points in time: milliseconds since 1970 in UTC, on the wire RFC 3339 with milliseconds and `Z`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 9999-12-31T23:59:59.999Z, the last instant RFC 3339 can write.
const LATEST: i64 = 253_402_300_799_999;

impl Timestamp {
    /// `millis` since the Unix epoch, held inside what RFC 3339 can write (years 1970 to 9999).
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(0, LATEST))
    }

    /// Milliseconds since the Unix epoch.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// This instant and `seconds` more; a negative or absurd number stays inside the writable range.
    pub fn plus_seconds(self, seconds: f64) -> Self {
        let millis = (seconds * 1000.0).round();
        Self::from_millis(self.0.saturating_add(millis as i64))
    }

    /// How long from `earlier` to here; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Reads RFC 3339 with any offset.
    pub fn parse(text: &str) -> Option<Self> {
        let instant: jiff::Timestamp = text.parse().ok()?;
        Some(Self::from_millis(instant.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => f.write_str("9999-12-31T23:59:59.999Z"),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

/// For `#[serde(with = "as_millis")]`: the number of milliseconds, as journals and the worker protocol write times.
pub mod as_millis {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Timestamp;

    /// Writes the number.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(time.millis())
    }

    /// Reads the number.
    ///
    /// # Errors
    /// When it is none.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_in_utc_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(1_700_000_000_120).to_string(), "2023-11-14T22:13:20.120Z");
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn reads_any_offset() {
        let text = "2023-11-14T23:13:20.120+01:00";
        assert_eq!(Timestamp::parse(text), Some(Timestamp::from_millis(1_700_000_000_120)));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn adding_an_absurd_time_stays_writable() {
        let late = Timestamp::from_millis(0).plus_seconds(f64::INFINITY);
        assert_eq!(late.to_string(), "9999-12-31T23:59:59.999Z");
    }
}
