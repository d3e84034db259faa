//! Patterns of schemas, which take memory by what they say and not by how long they are: `\p{L}{150}` takes megabytes.

use std::collections::HashSet;

use regex_automata::nfa::thompson;

/// Bytes of memory that the compiled patterns of a schema may take, each of them and all together. A name of up to a hundred
/// letters of any alphabet takes half of it.
pub const MOST: usize = 4 * 1024 * 1024;

/// Those of what one is seen to go through while it runs. Most never fill it.
pub const CACHE: usize = 256 * 1024;

/// How many bytes they take, about; `None` where that is too many. What cannot be read here takes as much as there is: whoever
/// checks values reads it in a way of its own, or refuses it.
pub fn size(patterns: &HashSet<&str>) -> Option<usize> {
    let config = thompson::Config::new().nfa_size_limit(Some(MOST));
    let mut all = 0;
    for pattern in patterns {
        let compiled = thompson::Compiler::new().configure(config.clone()).build(&of_ascii(pattern));
        all += match compiled {
            Ok(compiled) => compiled.memory_usage(),
            Err(error) if error.size_limit().is_some() => return None,
            Err(_) => MOST,
        };
        if all > MOST {
            return None;
        }
    }
    Some(all)
}

/// A pattern in which digits and letters of words are those of ASCII, as JSON Schema has them.
fn of_ascii(pattern: &str) -> String {
    let mut read = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            read.push(next);
            continue;
        }
        match rest.next() {
            Some('d') => read.push_str("[0-9]"),
            Some('D') => read.push_str("[^0-9]"),
            Some('w') => read.push_str("[0-9A-Za-z_]"),
            Some('W') => read.push_str("[^0-9A-Za-z_]"),
            other => read.extend([Some('\\'), other].into_iter().flatten()),
        }
    }
    read
}
