//! Which route asks for what: one table for all of them. A route that is not in it can be called by an `admin` only.

use axum::http::Method;

use super::ui;
use crate::domain::access::Actor;
use crate::domain::message::ChatMessage;
use crate::domain::scope::Scope;
use crate::domain::{Error, JsonObject};

/// What a request has to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: everybody may.
    Nothing,
    /// Any key.
    Key,
    /// A key with this scope.
    Scope(Scope),
}

const READ: Need = Need::Scope(Scope::Read);
const SEND: Need = Need::Scope(Scope::Send);
const ANSWER: Need = Need::Scope(Scope::Answer);
const ADMIN: Need = Need::Scope(Scope::Admin);

/// Every route but the page's own files, which are open. `POST /sessions` asks for `admin` besides where its body
/// brings rules or a run.
pub const ROUTES: &[(&str, &str, Need)] = &[
    ("GET", "/audit", ADMIN),
    ("GET", "/docs", Need::Key),
    ("GET", "/docs/docs.css", Need::Key),
    ("GET", "/docs/docs.js", Need::Key),
    ("GET", "/events", READ),
    ("GET", "/health", Need::Key),
    ("GET", "/healthz", Need::Nothing),
    ("GET", "/interrupts", READ),
    ("GET", "/interrupts/{interrupt_id}", READ),
    ("POST", "/interrupts/{interrupt_id}/claim", ANSWER),
    ("DELETE", "/interrupts/{interrupt_id}/claim", ANSWER),
    ("POST", "/interrupts/{interrupt_id}/resume", ANSWER),
    ("POST", "/interrupts/{interrupt_id}/snooze", ANSWER),
    ("DELETE", "/interrupts/{interrupt_id}/snooze", ANSWER),
    ("GET", "/keys", ADMIN),
    ("POST", "/keys", ADMIN),
    ("DELETE", "/keys/{key_id}", ADMIN),
    ("GET", "/me", Need::Key),
    ("GET", "/metrics", READ),
    ("GET", "/openapi.json", Need::Key),
    ("GET", "/readyz", Need::Nothing),
    ("GET", "/sessions", READ),
    ("POST", "/sessions", SEND),
    ("GET", "/sessions/{session_id}", READ),
    ("PUT", "/sessions/{session_id}", SEND),
    ("DELETE", "/sessions/{session_id}", SEND),
    ("POST", "/sessions/{session_id}/cancel", SEND),
    ("GET", "/sessions/{session_id}/events", READ),
    ("GET", "/sessions/{session_id}/grants", READ),
    ("DELETE", "/sessions/{session_id}/grants/{grant_id}", ANSWER),
    ("GET", "/sessions/{session_id}/journal", READ),
    ("GET", "/sessions/{session_id}/messages", READ),
    ("POST", "/sessions/{session_id}/messages", SEND),
    ("POST", "/sessions/{session_id}/resume", ANSWER),
    ("POST", "/sessions/{session_id}/retry", SEND),
    ("GET", "/sessions/{session_id}/run-state", ADMIN),
    ("POST", "/sign-in", Need::Nothing),
    ("POST", "/sign-out", Need::Key),
    ("GET", "/webhooks", ADMIN),
    ("POST", "/webhooks/{notice_id}/retry", ADMIN),
];

/// What `method` on `route` asks for; `route` is `None` where there is no such route.
pub fn need(method: &Method, route: Option<&str>) -> Need {
    // That a path leads nowhere is told to whoever is let in at all.
    let Some(route) = route else { return Need::Key };
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    // A page has no key before somebody signs in on it.
    if method == "GET" && ui::is_file(route) {
        return Need::Nothing;
    }
    let listed = ROUTES.iter().find(|(its_method, path, _)| *its_method == method && *path == route);
    listed.map_or(ADMIN, |(_, _, need)| *need)
}

/// Who names a webhook in a message or a session has it told what may otherwise only be read.
///
/// # Errors
/// [`Error::MissingScope`].
pub fn may_tell(actor: &Actor, names_webhook: bool) -> Result<(), Error> {
    if names_webhook && !actor.may(Scope::Read) { Err(Error::MissingScope(Scope::Read)) } else { Ok(()) }
}

/// Members of a message's `user_params` in which an agent is brought a run from elsewhere
/// (`python/hitl/ext/openai_agents/serving.py`).
const BRINGS_A_RUN: [&str; 1] = ["openai_agents_state"];

/// Who brings a run from elsewhere says which calls are made, though no model has asked for them.
///
/// # Errors
/// [`Error::MissingScope`].
pub fn may_bring(actor: &Actor, message: &ChatMessage) -> Result<(), Error> {
    let brought = |params: &JsonObject| {
        BRINGS_A_RUN.iter().any(|member| params.get(*member).is_some_and(|value| !value.is_null()))
    };
    let is_run = message.user_params.as_ref().is_some_and(brought);
    if is_run && !actor.may(Scope::Admin) { Err(Error::MissingScope(Scope::Admin)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_nobody_has_ruled_on_is_for_admins() {
        assert_eq!(need(&Method::GET, Some("/new")), ADMIN);
        assert_eq!(need(&Method::PATCH, Some("/sessions")), ADMIN);
    }

    #[test]
    fn asking_for_the_head_is_reading() {
        assert_eq!(need(&Method::HEAD, Some("/sessions")), READ);
        assert_eq!(need(&Method::GET, None), Need::Key);
    }
}
