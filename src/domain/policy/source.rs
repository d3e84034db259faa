//! Where a tool is from, as rules know it. The record (`tool_source`) says more: an address's hash, which tells servers of one
//! name apart, and the place of an agent that shares its name with another, which keeps their grants apart.

/// What stands before the place of an agent, `agent:outer/tool`; a source that is the tool's own follows after a space.
const PLACE: &str = "agent:";

/// The source without the place of its agent, which comes first and has no space in it; `None` for an agent's own tool.
pub(super) fn without_place(source: &str) -> Option<&str> {
    match source.strip_prefix(PLACE) {
        Some(placed) => placed.split_once(' ').map(|(_, source)| source),
        None => Some(source),
    }
}

/// Whether what a rule has behind the name and the colon is a beginning of the hash, or nothing, and not more of a name.
fn begins_the_hash(rest: &str, hash: &str) -> bool {
    let is_of_a_name = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_');
    let word = rest.find(|char| !is_of_a_name(char)).map_or(rest, |end| &rest[..end]);
    hash.starts_with(word)
}

/// Of an MCP server its name, `mcp:notes`, without the hash of its address, which nobody can guess. A rule that was written with
/// that very hash means it, and one that has the name with a colon, and behind it nothing or how the hash begins, may be about how
/// the source begins.
pub(super) fn named<'a>(source: &'a str, rule: &str) -> &'a str {
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_said = |name: &str, hash: &str| {
        let begin = &source[..=name.len()];
        let mut rests = rule.match_indices(begin).map(|(at, _)| &rule[at + begin.len()..]);
        rule.contains(hash) || rests.any(|rest| begins_the_hash(rest, hash))
    };
    match source.strip_prefix("mcp:").and_then(|_| source.rsplit_once(':')) {
        Some((name, hash)) if name.len() > "mcp".len() && is_hash(hash) && !is_said(name, hash) => name,
        _ => source,
    }
}
