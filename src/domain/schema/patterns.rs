//! Patterns of schemas, which take memory by what they say and not by how long they are: `\p{L}{150}` takes megabytes.

use std::collections::HashSet;

use regex_automata::nfa::thompson;

/// Bytes of memory that the compiled patterns of a schema may take, each of them and all together. A name of up to a hundred
/// letters of any alphabet takes half of it.
pub const MOST: usize = 4 * 1024 * 1024;

/// Those of what one is seen to go through while it runs. Most never fill it.
pub const CACHE: usize = 256 * 1024;

/// How many bytes they take, about; `None` where that is too many. What cannot be read is refused by whoever checks values.
pub fn size(patterns: &HashSet<&str>) -> Option<usize> {
    let config = thompson::Config::new().nfa_size_limit(Some(MOST));
    let mut all = 0;
    for pattern in patterns {
        // As whoever checks values reads it: digits and letters are those of ASCII.
        let Ok(read) = jsonschema_regex::to_rust_regex(pattern) else { continue };
        all += match thompson::Compiler::new().configure(config.clone()).build(&read) {
            Ok(compiled) => compiled.memory_usage(),
            Err(error) if error.size_limit().is_some() => return None,
            Err(_) => 0,
        };
        if all > MOST {
            return None;
        }
    }
    Some(all)
}
