//! Values as PostgreSQL gives and takes them, in rows and in lines of `COPY`. SQLite gives them as they are.

use std::borrow::Cow;

use tokio_postgres::types::FromSqlOwned;
use uuid::Uuid;

use crate::store::copying::lines;

/// What a cell can hold as it is, and how it is there.
pub(in crate::store) trait Readable: Sized {
    /// What the driver gives.
    type Stored: FromSqlOwned;

    /// What it stands for; `Err` says why it is not what it should be.
    fn read(stored: Self::Stored) -> Result<Self, String>;

    /// What the cell of a line ([`lines::cells`]) stands for, `None` being nothing; `Err` as of [`Self::read`].
    fn parse(cell: Option<&str>) -> Result<Self, String>;
}

macro_rules! readable {
    ($type:ty, $stored:ty, $parse:expr, $read:expr) => {
        impl Readable for $type {
            type Stored = $stored;

            fn read(stored: $stored) -> Result<Self, String> {
                $read(stored)
            }

            fn parse(cell: Option<&str>) -> Result<Self, String> {
                Self::read($parse(cell.ok_or("nothing stands there")?)?)
            }
        }
    };
}

readable!(i64, i64, number, Ok);
readable!(bool, bool, truth, Ok);
readable!(u32, i64, number, |number: i64| u32::try_from(number).map_err(|error| format!("{error}")));
readable!(String, String, |text: &str| Ok::<_, String>(text.to_owned()), |text| Ok(with_nulls(text)));
readable!(Vec<u8>, Vec<u8>, bytes, Ok);
readable!([u8; 16], Uuid, id, |id: Uuid| Ok(id.into_bytes()));
readable!([u8; 32], Vec<u8>, bytes, |bytes: Vec<u8>| bytes.try_into().map_err(|_| "not 32 bytes".to_owned()));

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "t" => Ok(true),
        "f" => Ok(false),
        _ => Err("neither t nor f".to_owned()),
    }
}

fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.strip_prefix("\\x").ok_or("no bytes")?;
    lines::unhex(digits).ok_or_else(|| "no bytes".to_owned())
}

impl<T: Readable> Readable for Option<T> {
    type Stored = Option<T::Stored>;

    fn read(stored: Self::Stored) -> Result<Self, String> {
        stored.map(T::read).transpose()
    }

    fn parse(cell: Option<&str>) -> Result<Self, String> {
        cell.map(|text| T::parse(Some(text))).transpose()
    }
}

/// Stands before the characters that it stands for. No text that people or programs write has it.
const ESCAPE: char = '\u{1a}';

/// Text as Postgres takes it, which has no null character; what is written as JSON has none anyway.
pub(in crate::store) fn without_nulls(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1a}\u{1a}").replace('\0', "\u{1a}0"))
}

/// What [`without_nulls`] was made of.
pub(in crate::store) fn with_nulls(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut whole = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        whole.push(match character {
            ESCAPE if rest.next() == Some('0') => '\0',
            character => character,
        });
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_as_it_was_whatever_is_in_it() {
        for text in ["", "plain", "\0", "\u{1a}", "a\0b\u{1a}0c\u{1a}\u{1a}\0", "\u{1a}\0"] {
            let stored = without_nulls(text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(with_nulls(stored.into_owned()), text, "{text:?}");
        }
    }
}
