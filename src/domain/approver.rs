//! Lists of approvers: names of keys, and `group:<name>`.

use super::access::{Actor, is_name};

/// What a group's name follows in a list of approvers.
const GROUP: &str = "group:";
/// The most approvers of one interrupt.
const MAX_APPROVERS: usize = 32;

/// Whether `approvers` mean `actor`; where there are none, everybody is meant.
pub fn is_approver(actor: &Actor, approvers: &[String]) -> bool {
    approvers.is_empty() || approvers.iter().any(|approver| is(actor, approver))
}

/// Nobody without a name is an approver: a server without keys cannot tell.
fn is(actor: &Actor, approver: &str) -> bool {
    match (actor.name(), approver.strip_prefix(GROUP)) {
        (None, _) => false,
        (Some(_), Some(group)) => actor.groups.iter().any(|of_actor| of_actor == group),
        (Some(name), None) => name == approver,
    }
}

/// Whether a list of approvers can be meant: an entry that no key or group can have the name of would shut everybody out.
///
/// # Errors
/// What is wrong.
pub fn check_approvers(approvers: &[String]) -> Result<(), String> {
    if approvers.len() > MAX_APPROVERS {
        return Err(format!("approvers must hold at most {MAX_APPROVERS}, got {}", approvers.len()));
    }
    match approvers.iter().find(|approver| !is_name(approver.strip_prefix(GROUP).unwrap_or(approver))) {
        Some(approver) => Err(format!(
            "approvers must hold names of keys, or group:<name>, of a-z, 0-9, dot, hyphen and underscore; got {approver:?}"
        )),
        None => Ok(()),
    }
}
