//! JSON that says one thing only, to everybody who reads it.
//!
//! Of a member that is there twice one reader takes the first, another the last; a number that is no 64-bit integer and
//! no double is rounded by some. What a person has seen would then not be what runs, so neither is read at all.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::error::{Error, FieldError, LocSegment};
use super::payload::MAX_READ_DEPTH;

/// Why a text is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonRefusal {
    /// It is no JSON.
    Syntax(String),
    /// It nests deeper than that many levels.
    TooDeep(Vec<LocSegment>, usize),
    /// A member is there twice.
    Doubled(Vec<LocSegment>),
    /// A number would be read as another one.
    OutOfRange(Vec<LocSegment>, String),
}

impl JsonRefusal {
    /// The error of a request whose body, or other part, `around` is.
    pub fn within(self, around: &[LocSegment]) -> Error {
        let (kind, loc) = match &self {
            Self::Syntax(_) => ("invalid_json", &[][..]),
            Self::TooDeep(loc, _) => ("too_deep", &loc[..]),
            Self::Doubled(loc) => ("duplicate_member", &loc[..]),
            Self::OutOfRange(loc, _) => ("number_out_of_range", &loc[..]),
        };
        let errors = vec![FieldError::new(loc.iter().cloned(), kind, self.why()).under(around)];
        match self {
            Self::Syntax(_) | Self::TooDeep(..) => Error::InvalidRequest(errors),
            Self::Doubled(_) => Error::DuplicateMember(errors),
            Self::OutOfRange(..) => Error::NumberOutOfRange(errors),
        }
    }

    fn why(&self) -> String {
        match self {
            Self::Syntax(why) => why.clone(),
            Self::TooDeep(_, most) => format!("nests deeper than {most} levels"),
            Self::Doubled(_) => "is there more than once".to_owned(),
            Self::OutOfRange(_, number) => format!(
                "{} would be read as another number; send it as a string",
                number.chars().take(40).collect::<String>()
            ),
        }
    }
}

impl fmt::Display for JsonRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(why) => f.write_str(why),
            Self::TooDeep(..) => f.write_str(&self.why()),
            Self::Doubled(loc) | Self::OutOfRange(loc, _) => {
                FieldError::new(loc.iter().cloned(), "", self.why()).fmt(f)
            }
        }
    }
}

/// Reads a text.
///
/// # Errors
/// See [`JsonRefusal`].
pub fn read(text: &[u8]) -> Result<Value, JsonRefusal> {
    read_within(text, MAX_READ_DEPTH)
}

/// Reads a text that may nest deeper than what anybody sends: up to `most` levels.
///
/// # Errors
/// See [`JsonRefusal`].
pub fn read_within(text: &[u8], most: usize) -> Result<Value, JsonRefusal> {
    walk(text, true, most, serde_json::Deserializer::from_slice(text))
}

/// Whether [`read`] would read a text, at less cost.
///
/// # Errors
/// See [`JsonRefusal`].
pub fn check(text: &str) -> Result<(), JsonRefusal> {
    walk(text.as_bytes(), false, MAX_READ_DEPTH, serde_json::Deserializer::from_str(text)).map(drop)
}

fn walk<'de>(
    text: &[u8],
    keeps: bool,
    most: usize,
    mut reader: serde_json::Deserializer<impl serde_json::de::Read<'de>>,
) -> Result<Value, JsonRefusal> {
    let found = RefCell::new(None);
    let has_floats = Cell::new(false);
    let read = Seed { keeps, depth: 0, most, found: &found, has_floats: &has_floats };
    let read = read.deserialize(&mut reader).and_then(|value| {
        reader.end()?;
        Ok(value)
    });
    let value = match (read, found.into_inner()) {
        (_, Some(refused)) => return Err(refused),
        (Err(error), None) => return Err(unread(text, &error)),
        (Ok(value), None) => value,
    };
    // What was read as a 64-bit integer was written as that very one.
    let changed = if has_floats.get() { numbers(text).position(changes) } else { None };
    match changed {
        None => Ok(value),
        Some(index) => {
            let whole = if keeps { value } else { walk_whole(text)? };
            let loc = place_of_number(&whole, &mut index.clone()).unwrap_or_default();
            Err(JsonRefusal::OutOfRange(loc, numbers(text).nth(index).unwrap_or_default().to_owned()))
        }
    }
}

/// What [`walk`] has found to be JSON.
fn walk_whole(text: &[u8]) -> Result<Value, JsonRefusal> {
    serde_json::from_slice(text).map_err(|error| JsonRefusal::Syntax(error.to_string()))
}

/// A number beyond every double is all that `serde_json` refuses besides syntax.
fn unread(text: &[u8], error: &serde_json::Error) -> JsonRefusal {
    let why = error.to_string();
    if !why.starts_with("number out of range") {
        return JsonRefusal::Syntax(why);
    }
    let endless = |number: &&str| number.parse::<f64>().is_ok_and(f64::is_infinite);
    JsonRefusal::OutOfRange(Vec::new(), numbers(text).find(endless).unwrap_or("a number").to_owned())
}

struct Seed<'a> {
    /// Whether anybody wants what was read.
    keeps: bool,
    /// How many objects and arrays are around.
    depth: usize,
    /// How many there may be.
    most: usize,
    /// What was refused, and where, from this place on inwards.
    found: &'a RefCell<Option<JsonRefusal>>,
    /// Whether a number was read that is no 64-bit integer.
    has_floats: &'a Cell<bool>,
}

impl Seed<'_> {
    fn inner<E: serde::de::Error>(&self) -> Result<Self, E> {
        let depth = self.depth + 1;
        if depth > self.most {
            return Err(self.refuse(JsonRefusal::TooDeep(Vec::new(), self.most)));
        }
        Ok(Self { depth, ..*self })
    }

    fn refuse<E: serde::de::Error>(&self, refused: JsonRefusal) -> E {
        *self.found.borrow_mut() = Some(refused);
        E::custom("refused")
    }

    /// What was refused stands in `place`.
    fn under(&self, place: LocSegment) {
        if let Some(JsonRefusal::TooDeep(loc, _) | JsonRefusal::Doubled(loc)) = self.found.borrow_mut().as_mut() {
            loc.insert(0, place);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        self.has_floats.set(true);
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number without end"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(if self.keeps { Value::String(text.to_owned()) } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut kept = Vec::new();
        let mut index = 0;
        while let Some(item) =
            items.next_element_seed(Seed { ..inner }).inspect_err(|_| inner.under(LocSegment::Index(index)))?
        {
            index += 1;
            if self.keeps {
                kept.push(item);
            }
        }
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut kept = Map::new();
        let mut names = Names::default();
        while let Some(Name(name)) = members.next_key::<Name<'de>>()? {
            let is_doubled = if self.keeps { kept.contains_key(&*name) } else { !names.add(name.clone()) };
            if is_doubled {
                return Err(self.refuse(JsonRefusal::Doubled(vec![LocSegment::Member(name.into_owned())])));
            }
            let value = members
                .next_value_seed(Seed { ..inner })
                .inspect_err(|_| inner.under(LocSegment::Member(name.clone().into_owned())))?;
            if self.keeps {
                kept.insert(name.into_owned(), value);
            }
        }
        Ok(Value::Object(kept))
    }
}

/// The name of a member, in the text itself where it has no escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(name.to_owned())))
    }
}

/// The names that one object has had so far.
#[derive(Default)]
struct Names<'de> {
    /// As long as looking at each of them costs less than to hash one.
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Names<'de> {
    const FEW: usize = 16;

    /// Whether the name is new.
    fn add(&mut self, name: Cow<'de, str>) -> bool {
        if self.many.is_empty() && self.few.len() < Self::FEW {
            let is_new = !self.few.contains(&name);
            self.few.push(name);
            return is_new;
        }
        self.many.extend(self.few.drain(..));
        self.many.insert(name)
    }
}

/// The numbers of a JSON text, as they are written, in order.
fn numbers(text: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.iter().position(|byte| matches!(byte, b'"' | b'-' | b'0'..=b'9'))?;
            rest = rest.get(start..)?;
            let length = if rest.first() == Some(&b'"') { string_length(rest) } else { number_length(rest) };
            let (token, after) = rest.split_at_checked(length)?;
            rest = after;
            if token.first() != Some(&b'"') {
                return std::str::from_utf8(token).ok();
            }
        }
    })
}

fn number_length(text: &[u8]) -> usize {
    let of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    text.iter().position(|byte| !of_number(byte)).unwrap_or(text.len())
}

/// The length of the string that a text begins with, both quotes included.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    for (index, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// Digits that every double tells apart.
const EXACT_DIGITS: usize = 15;

/// Whether a number is read as another one.
fn changes(number: &str) -> bool {
    let is_integer = !number.contains(['.', 'e', 'E']);
    if number.len() <= EXACT_DIGITS && !number.contains(['e', 'E']) {
        return false;
    }
    if is_integer {
        return number.parse::<i64>().is_err() && number.parse::<u64>().is_err();
    }
    number.parse::<f64>().map_or(true, |read| {
        let written = Decimal::of(number);
        written != Decimal::of(&read.to_string()) && !written.is_half_below(read)
    })
}

/// A decimal number without what does not count: `0.10` is `1e-1`.
#[derive(PartialEq, Eq)]
struct Decimal<'a> {
    is_negative: bool,
    /// From the first to the last that is not 0.
    digits: Vec<u8>,
    /// Of the last digit.
    exponent: i64,
    /// What is too large to be a number's exponent.
    rest: Option<&'a str>,
}

impl<'a> Decimal<'a> {
    fn of(number: &'a str) -> Self {
        let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0').collect();
        let places = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let parsed = exponent.parse::<i64>().ok().and_then(|exponent| exponent.checked_sub(places));
        let mut exponent_of_last = parsed.unwrap_or(0);
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent_of_last = exponent_of_last.saturating_add(1);
        }
        if digits.is_empty() {
            return Self { is_negative: false, digits, exponent: 0, rest: None };
        }
        Self { is_negative, digits, exponent: exponent_of_last, rest: parsed.is_none().then_some(exponent) }
    }

    /// Whether a double lies in the middle between this and the next number of as many digits. Of two such Rust writes
    /// the upper one, and Python, JavaScript and `serde_json` the even one; both are read as that double.
    fn is_half_below(&self, double: f64) -> bool {
        // Any other has more digits than are written of it, or is written as it is.
        let exact = format!("{double:.10}");
        let exact = Decimal::of(&exact);
        let above = exact.digits.strip_prefix(self.digits.as_slice());
        above == Some(b"5")
            && exact.exponent.checked_add(1) == Some(self.exponent)
            && exact.is_negative == self.is_negative
    }
}

/// Where the number stands of which `left` others come before it: members and items are in the order of the text.
fn place_of_number(value: &Value, left: &mut usize) -> Option<Vec<LocSegment>> {
    let under = |place: LocSegment, inner: &Value, left: &mut usize| {
        place_of_number(inner, left).map(|mut loc| {
            loc.insert(0, place);
            loc
        })
    };
    match value {
        Value::Number(_) => match left.checked_sub(1) {
            None => Some(Vec::new()),
            Some(fewer) => {
                *left = fewer;
                None
            }
        },
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| under(LocSegment::Index(index), item, left))
        }
        Value::Object(members) => {
            members.iter().find_map(|(name, member)| under(LocSegment::Member(name.clone()), member, left))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
