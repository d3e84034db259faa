//! Who may answer what, beyond the scope that every answer asks for.

use super::key::is_name;
use super::{Actor, Scope};
use crate::domain::Error;
use crate::domain::grant::Grant;
use crate::domain::interrupt::Interrupt;
use crate::domain::policy::ON_APPROVAL;

/// What is asked about a step whose outcome nobody knows; an answer may let it run.
pub const UNKNOWN_OUTCOME: &str = "unknown_outcome";
/// What a group's name follows in a list of approvers.
const GROUP: &str = "group:";
/// The most approvers of one interrupt.
const MAX_APPROVERS: usize = 32;

/// Whether `actor` may answer `asked`, which may let a tool run.
///
/// # Errors
/// [`Error::NotAnApprover`]; with `prevent_self_approval` [`Error::SelfApproval`], and [`Error::MissingScope`] where
/// nobody knows who sent the message.
pub fn check_standing(asked: &Interrupt, actor: &Actor, prevent_self_approval: bool) -> Result<(), Error> {
    if !is_approver(actor, &asked.approvers) {
        return Err(Error::NotAnApprover { approvers: asked.approvers.clone(), rule: None });
    }
    if !prevent_self_approval || !asked.may_let_run() {
        return Ok(());
    }
    match asked.sent_by.as_deref() {
        Some(sender) if actor.name() == Some(sender) => Err(Error::SelfApproval),
        Some(_) => Ok(()),
        None if actor.may(Scope::Admin) => Ok(()),
        None => Err(Error::MissingScope(Scope::Admin)),
    }
}

/// Whether a grant may decide over the calls of a message. With `prevent_self_approval` nobody's decision for the rest of a
/// session decides over their own messages, nor where nobody knows whose it is or who sent the message.
pub fn grant_counts(grant: &Grant, sent_by: Option<&str>, prevent_self_approval: bool) -> bool {
    match (grant.created_by.as_deref(), sent_by) {
        _ if !prevent_self_approval => true,
        (Some(ON_APPROVAL), _) => true,
        (Some(maker), Some(sender)) => maker != sender,
        (None, _) | (_, None) => false,
    }
}

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
