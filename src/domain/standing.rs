//! Who may answer what, beyond the scope that every answer asks for.

use super::access::Actor;
use super::approver::is_approver;
use super::error::Error;
use super::grant::Grant;
use super::interrupt::Interrupt;
use super::policy::ON_APPROVAL;
use super::scope::Scope;

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
