//! A policy file: rules in TOML, as `[[rule]]` tables. A file without any says that there are to be none, since a file
//! that lost its text must not be taken for that.

use serde::Deserialize;
use toml::Spanned;

use super::rule::Rule;
use super::rules::Rules;
use crate::domain::error::LocSegment;

/// What a file without rules says of them.
const NONE: &str = "none";

/// Why a file holds no rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct FileError {
    /// Where, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The word of a file without rules.
    rules: Option<Spanned<toml::Value>>,
    #[serde(default)]
    rule: Vec<Spanned<Rule>>,
}

/// Reads the text of a policy file.
///
/// # Errors
/// The first thing that is wrong with it, and the line.
pub fn read(text: &str) -> Result<Rules, FileError> {
    let file: File = toml::from_str(text).map_err(|error| FileError {
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    check_word(&file, text)?;
    let (starts, rules): (Vec<usize>, Vec<Rule>) =
        file.rule.into_iter().map(|rule| (rule.span().start, rule.into_inner())).unzip();
    let of_state = rules.iter().zip(&starts).find(|(rule, _)| rule.unsigned);
    if let Some((Rule { name, .. }, start)) = of_state {
        let message = format!("rule {name:?}: unsigned: is of rules that came with a run state");
        return Err(FileError { line: line_of_member(text, *start, "unsigned"), message });
    }
    let names: Vec<String> = rules.iter().map(|rule| rule.name.clone()).collect();
    Rules::compile(rules).map_err(|errors| {
        let Some(error) = errors.into_iter().next() else {
            return FileError { line: 1, message: "cannot be read".to_owned() };
        };
        let Some(LocSegment::Index(index)) = error.loc.first() else {
            return FileError { line: 1, message: error.msg };
        };
        let start = starts.get(*index).copied().unwrap_or_default();
        let (member, line) = match error.loc.get(1) {
            Some(LocSegment::Member(member)) => (format!(": {member}"), line_of_member(text, start, member)),
            _ => (String::new(), line_of(text, start)),
        };
        let rule = names.get(*index).map(|name| format!("rule {name:?}")).unwrap_or_default();
        FileError { line, message: format!("{rule}{member}: {}", error.msg) }
    })
}

/// # Errors
/// There are no rules, and no word says so; or there are both.
fn check_word(file: &File, text: &str) -> Result<(), FileError> {
    let wrong = |offset: usize, message: String| Err(FileError { line: line_of(text, offset), message });
    match (&file.rules, file.rule.is_empty()) {
        (None, false) => Ok(()),
        (None, true) => wrong(0, format!("there are no rules; where there are to be none, write rules = {NONE:?}")),
        (Some(word), _) if word.get_ref().as_str() != Some(NONE) => {
            wrong(word.span().start, format!("rules can only be {NONE:?}; each rule is a [[rule]] of its own"))
        }
        (Some(_), true) => Ok(()),
        (Some(word), false) => wrong(word.span().start, format!("rules = {NONE:?}, and there are rules")),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The line of the table at `start` that sets `member`; that of the table where it is not to be found.
fn line_of_member(text: &str, start: usize, member: &str) -> usize {
    let table = text.get(start..).unwrap_or_default();
    let first = line_of(text, start);
    let sets =
        |line: &str| line.trim_start().strip_prefix(member).is_some_and(|rest| rest.trim_start().starts_with('='));
    let lines = table.lines().enumerate();
    let mut own = lines.take_while(|(number, line)| *number == 0 || !line.trim_start().starts_with("[["));
    own.find(|(_, line)| sets(line)).map_or(first, |(number, _)| first + number)
}
