//! A row as a line of a file: spelled in one way, so that nothing stands there that its hash does not bind.
//!
//! A line is the whole row as compact JSON with its members sorted. Files of earlier releases have the members of a row in
//! another order, those of `details` in any, and some of them their numbers as Python writes them.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use super::AuditRow;
use crate::domain::digest::canonical;
use crate::domain::json;

/// The members of a row, in the order of earlier files.
const MEMBERS: [&str; 10] =
    ["seq", "at", "action", "session_id", "interrupt_id", "actor", "address", "details", "prev", "hash"];
/// As deep as `serde_json` reads; rows nest deeper than what anybody sends.
const MAX_DEPTH: usize = 126;

/// A row as it is spelled: each member with its name and the comma or brace before it.
type Spelled = Vec<(&'static str, Vec<u8>)>;

/// The line of a row, without its end.
pub fn write(row: &AuditRow) -> Vec<u8> {
    text(&spelled(row))
}

/// The row of a line that is spelled as [`write`] spells it, or as an earlier release did.
///
/// # Errors
/// What is wrong with it, to be said after the number of the row.
pub fn read(line: &[u8]) -> Result<AuditRow, String> {
    let row = read_loosely(line)?;
    let now = spelled(&row);
    if line == text(&now) {
        return Ok(row);
    }
    let [of_store, of_server] = earlier(&row);
    if line == text(&of_store) || line == text(&of_server) {
        return Ok(row);
    }
    let wanted = if line.starts_with(br#"{"seq""#) { of_store } else { now };
    Err(format!("is not spelled as `hitl audit export` spells rows: {}", difference(line, &wanted)))
}

/// The row that a text says, in whichever order and spelling, as long as everybody reads it alike.
///
/// # Errors
/// Those of [`read`].
pub fn read_loosely(text: &[u8]) -> Result<AuditRow, String> {
    let no_row = |why: &str| format!("is no row of an audit: {why}");
    let value = json::read_within(text, MAX_DEPTH).map_err(|refused| match refused {
        json::JsonRefusal::Doubled(_) => format!("says two things: {refused}"),
        refused => no_row(&refused.to_string()),
    })?;
    let members = value.as_object().ok_or_else(|| no_row("it is no object"))?;
    if let Some(missing) = MEMBERS.iter().find(|name| !members.contains_key(**name)) {
        return Err(no_row(&format!("it has no `{missing}`")));
    }
    if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(format!("has a member that no row has: `{unknown}`"));
    }
    serde_json::from_value(value).map_err(|error| no_row(&error.to_string()))
}

/// As it is spelled now.
fn spelled(row: &AuditRow) -> Spelled {
    let mut names = MEMBERS;
    names.sort_unstable();
    spell(row, names, canonical)
}

/// As earlier releases spelled it, out of a store and out of a server.
fn earlier(row: &AuditRow) -> [Spelled; 2] {
    [spell(row, MEMBERS, |value| value.to_string().into_bytes()), spell(row, MEMBERS, with_numbers_of_python)]
}

fn spell(row: &AuditRow, names: [&'static str; 10], spell: impl Fn(&Value) -> Vec<u8>) -> Spelled {
    let AuditRow { seq, at, action, session_id, interrupt_id, actor, address, details, prev, hash } = row;
    let whole = serde_json::json!({
        "seq": seq, "at": at, "action": action, "session_id": session_id, "interrupt_id": interrupt_id,
        "actor": actor, "address": address, "details": details, "prev": prev, "hash": hash,
    });
    let mut before = '{';
    let member = |name| {
        let mut spelled = format!("{}\"{name}\":", std::mem::replace(&mut before, ',')).into_bytes();
        spelled.append(&mut spell(&whole[name]));
        (name, spelled)
    };
    names.map(member).into()
}

fn text(spelled: &Spelled) -> Vec<u8> {
    spelled.iter().flat_map(|(_, member)| member).copied().chain([b'}']).collect()
}

/// Where a line is another than the wanted one, and in which member that is.
fn difference(line: &[u8], wanted: &Spelled) -> String {
    let place = line.iter().zip(text(wanted)).take_while(|(is, should)| **is == *should).count();
    let mut end = 0;
    let within = wanted.iter().find(|(_, member)| {
        end += member.len();
        place < end
    });
    match within {
        Some((name, _)) => format!("look at `{name}`, byte {}", place + 1),
        None => format!("look at its end, byte {}", place + 1),
    }
}

fn with_numbers_of_python(value: &Value) -> Vec<u8> {
    let mut written = Vec::new();
    // It was read as JSON, and a vector takes everything.
    match value.serialize(&mut Serializer::with_formatter(&mut written, Python)) {
        Ok(()) => written,
        Err(_) => Vec::new(),
    }
}

/// Writes numbers as Python's `repr` does.
struct Python;

impl Formatter for Python {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, number: f64) -> io::Result<()> {
        let scientific = format!("{number:e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        match exponent.parse::<i32>() {
            Ok(exponent) if !(-4..16).contains(&exponent) => {
                let sign = if exponent < 0 { '-' } else { '+' };
                write!(writer, "{digits}e{sign}{:02}", exponent.unsigned_abs())
            }
            _ if number.fract() == 0.0 => write!(writer, "{number}.0"),
            _ => write!(writer, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests;
