//! Webhooks that clients name.

use serde_json::Value;

use super::{At, Reading, present};
use crate::domain::event::EventName;
use crate::domain::webhook::Webhook;

/// The longest token of a webhook, in bytes. It is stored with the session, and with every notice of it.
pub const LONGEST_TOKEN: usize = 4096;
/// How many events a webhook can name.
pub const MOST_EVENTS: usize = EventName::FOR_WEBHOOKS.len();

impl Reading {
    /// A webhook.
    pub fn webhook(&mut self, at: At<'_>, value: Value) -> Webhook {
        let mut members = self.object(at, value);
        let url = self.required_text(at, &mut members, "url");
        let token = self.optional_text(at, &mut members, "token");
        if token.as_deref().is_some_and(|token| !token.bytes().all(|byte| (0x21..=0x7e).contains(&byte))) {
            self.wrong(At::Member(&at, "token"), "invalid", "must be visible ASCII, as it goes into a header");
        }
        if token.as_deref().is_some_and(|token| token.len() > LONGEST_TOKEN) {
            self.wrong(At::Member(&at, "token"), "out_of_range", format!("must be at most {LONGEST_TOKEN} characters"));
        }
        let include_messages = match members.swap_remove("include_messages") {
            None => false,
            Some(Value::Bool(include)) => include,
            Some(other) => {
                self.wrong_type(At::Member(&at, "include_messages"), "a boolean", &other);
                false
            }
        };
        let events = present(&mut members, "events").map(|events| self.events(At::Member(&at, "events"), events));
        Webhook { url, token, include_messages, events }
    }

    /// What a webhook is told of, each once.
    fn events(&mut self, at: At<'_>, events: Value) -> Vec<EventName> {
        if !self.at_most(at, &events, MOST_EVENTS) {
            return Vec::new();
        }
        let known = EventName::known();
        let (mut said, mut named) = (Vec::new(), Vec::new());
        self.array(at, events, |reading, at, event| {
            let Some(name) = reading.one_of(at, &event, EventName::parse, &known) else { return };
            if said.contains(&event) {
                reading.wrong(at, "duplicate", "given twice");
            }
            said.push(event);
            // A bare status is the session's, and may be said in both ways.
            if !named.contains(&name) {
                named.push(name);
            }
        });
        named
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::Error;
    use crate::server::error::ServerError;

    fn places(webhook: Value) -> Vec<(Value, String)> {
        let mut reading = Reading::default();
        let read = reading.webhook(At::Member(&At::Body, "webhook"), webhook);
        match reading.finish(read) {
            Ok(_) => Vec::new(),
            Err(ServerError::Domain(Error::InvalidRequest(errors))) => {
                errors.into_iter().map(|error| (json!(error.loc), error.kind)).collect()
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_webhook_is_read_strictly() {
        let wrong = places(json!({"token": "a\nb", "include_messages": "true", "events": ["idle", "gone"]}));
        assert_eq!(
            wrong,
            [
                (json!(["body", "webhook", "url"]), "missing".to_owned()),
                (json!(["body", "webhook", "token"]), "invalid".to_owned()),
                (json!(["body", "webhook", "include_messages"]), "wrong_type".to_owned()),
                (json!(["body", "webhook", "events", 1]), "unknown_value".to_owned()),
            ]
        );
    }

    #[test]
    fn a_webhook_is_as_long_as_it_may_be_and_no_longer() {
        let of =
            |token: usize, events: Value| places(json!({"url": "u", "token": "t".repeat(token), "events": events}));
        let at = |place: Value, kind: &str| vec![(place, kind.to_owned())];
        let all: Vec<&str> = EventName::FOR_WEBHOOKS.into_iter().map(EventName::as_str).collect();
        assert_eq!(of(LONGEST_TOKEN, json!(all)), []);
        assert_eq!(of(LONGEST_TOKEN + 1, json!([])), at(json!(["body", "webhook", "token"]), "out_of_range"));
        let more = [all, vec!["idle"]].concat();
        assert_eq!(of(1, json!(more)), at(json!(["body", "webhook", "events"]), "too_long"));
        let twice = json!(["idle", "interrupt.created", "idle"]);
        assert_eq!(of(1, twice), at(json!(["body", "webhook", "events", 2]), "duplicate"));
    }

    #[test]
    fn what_is_said_in_two_ways_is_told_once() {
        let mut reading = Reading::default();
        let read = reading.webhook(At::Body, json!({"url": "u", "events": ["idle", "session.idle", "session.error"]}));
        let named = reading.finish(read).unwrap().events.unwrap();
        assert_eq!(named.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["session.idle", "session.error"]);
    }
}
