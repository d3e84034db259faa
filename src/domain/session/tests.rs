use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn turn(number: u8) -> TurnId {
    TurnId(Uuid::from_u128(u128::from(number)))
}

fn interrupt(number: u8) -> InterruptId {
    InterruptId(Uuid::from_u128(100 + u128::from(number)))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn session() -> Session {
    Session::new(SessionId(Uuid::from_u128(1)), "agents:main", 0, at(0))
}

/// The session and the effects after these events, all of which must be taken.
fn after(events: impl IntoIterator<Item = Event>) -> (Session, Vec<Effect>) {
    events.into_iter().fold((session(), Vec::new()), |(session, _), event| session.transition(event, at(1)).unwrap())
}

fn message(number: u8) -> Event {
    Event::MessageReceived { turn: turn(number) }
}

fn opened(of: u8, number: u8) -> Event {
    Event::InterruptOpened { turn: turn(of), interrupt: interrupt(number) }
}

fn closed(of: u8, number: u8) -> Event {
    Event::InterruptClosed { turn: turn(of), interrupt: interrupt(number) }
}

fn ended(of: u8) -> Event {
    Event::TurnEnded { turn: turn(of), response: ChatMessage::default(), total_messages: 2 }
}

fn failed(of: u8) -> Event {
    Event::TurnFailed { turn: turn(of), failure: Failure::cancelled() }
}

fn suspended(of: u8) -> Event {
    Event::TurnSuspended { turn: turn(of), failure: Failure::worker_exited() }
}

fn reopened(of: u8) -> Event {
    Event::TurnReopened { turn: turn(of) }
}

fn given_up(of: u8) -> Event {
    Event::TurnGivenUp { turn: turn(of), failure: Failure::not_retried(&Failure::worker_exited(), 60.0) }
}

#[test]
fn a_message_starts_a_turn() {
    let (session, effects) = after([message(1)]);
    assert_eq!(session.phase, Phase::Running { turn: turn(1) });
    assert_eq!(effects, vec![Effect::Announce(Status::Running)]);
}

#[test]
fn a_message_is_refused_while_a_turn_is_open() {
    let (running, _) = after([message(1)]);
    assert_eq!(running.transition(message(2), at(2)), Err(Error::SessionBusy(Status::Running)));
    let (interrupted, _) = after([message(1), opened(1, 1)]);
    assert_eq!(interrupted.transition(message(2), at(2)), Err(Error::SessionBusy(Status::Interrupted)));
}

#[test]
fn an_error_session_takes_a_new_message_and_forgets_the_error() {
    let (session, effects) = after([message(1), failed(1), message(2)]);
    assert_eq!(session.phase, Phase::Running { turn: turn(2) });
    assert_eq!(effects, vec![Effect::Announce(Status::Running)]);
}

#[test]
fn interrupts_are_kept_in_order_of_arrival_and_announced_once() {
    let (_, first) = after([message(1), opened(1, 2)]);
    assert_eq!(first, vec![Effect::Announce(Status::Interrupted)]);
    let (session, second) = after([message(1), opened(1, 2), opened(1, 1)]);
    assert_eq!(session.pending(), [interrupt(2), interrupt(1)]);
    assert_eq!(second, vec![]);
}

#[test]
fn the_session_runs_again_after_the_last_answer_only() {
    let (session, effects) = after([message(1), opened(1, 1), opened(1, 2), closed(1, 1)]);
    assert_eq!((session.status(), effects), (Status::Interrupted, vec![]));
    let (session, effects) = session.transition(closed(1, 2), at(2)).unwrap();
    assert_eq!((session.status(), effects), (Status::Running, vec![Effect::Announce(Status::Running)]));
}

#[test]
fn an_end_withdraws_what_is_still_asked() {
    let cancelled = Effect::CancelInterrupts(vec![interrupt(1), interrupt(2)]);
    let (session, effects) = after([message(1), opened(1, 1), opened(1, 2), ended(1)]);
    assert_eq!(session.phase, Phase::Idle { response: Some(ChatMessage::default()) });
    assert_eq!(session.total_messages, 2);
    assert_eq!(effects, vec![cancelled.clone(), Effect::Announce(Status::Idle)]);
    let (session, effects) = after([message(1), opened(1, 1), opened(1, 2), failed(1)]);
    assert_eq!(session.phase, Phase::Error { failure: Failure::cancelled(), retry: None });
    assert_eq!(session.total_messages, 0);
    assert_eq!(effects, vec![Effect::TellNext(turn(1)), cancelled, Effect::Announce(Status::Error)]);
}

#[test]
fn an_answer_counts_once() {
    let (session, _) = after([message(1), opened(1, 1), opened(1, 2), closed(1, 1)]);
    let again = session.transition(closed(1, 1), at(2));
    assert_eq!(again, Err(Error::UnknownInterrupt(interrupt(1).to_string())));
}

#[test]
fn a_suspended_turn_keeps_what_it_asks_and_goes_on_with_it() {
    let (session, effects) = after([message(1), opened(1, 1), opened(1, 2), suspended(1)]);
    let retry = Retry { turn: turn(1), pending: vec![interrupt(1), interrupt(2)] };
    assert_eq!(session.phase, Phase::Error { failure: Failure::worker_exited(), retry: Some(retry) });
    assert_eq!((session.turn(), session.pending()), (None, [].as_slice()));
    assert_eq!(effects, vec![Effect::Announce(Status::Error)]);

    let (session, effects) = session.transition(reopened(1), at(2)).unwrap();
    assert_eq!(session.phase, Phase::Interrupted { turn: turn(1), pending: vec![interrupt(1), interrupt(2)] });
    assert_eq!(effects, vec![Effect::Announce(Status::Interrupted)]);
}

#[test]
fn a_suspended_turn_that_asks_nothing_runs_again() {
    let (session, effects) = after([message(1), suspended(1), reopened(1)]);
    assert_eq!(session.phase, Phase::Running { turn: turn(1) });
    assert_eq!(effects, vec![Effect::Announce(Status::Running)]);
}

#[test]
fn a_message_abandons_the_suspended_turn() {
    let (session, effects) = after([message(1), opened(1, 1), suspended(1), message(2)]);
    assert_eq!(session.phase, Phase::Running { turn: turn(2) });
    let (abandoned, cancelled) = (Effect::AbandonTurn(turn(1)), Effect::CancelInterrupts(vec![interrupt(1)]));
    assert_eq!(effects, vec![Effect::TellNext(turn(1)), abandoned, cancelled, Effect::Announce(Status::Running)]);
}

#[test]
fn a_suspended_turn_that_is_given_up_ends_and_the_session_says_why() {
    let (session, effects) = after([message(1), opened(1, 1), suspended(1), given_up(1)]);
    let text = "Turn cancelled: nobody retried it for 60 s after: Worker process exited unexpectedly";
    assert_eq!(session.phase, Phase::Error { failure: Failure::new("turn_cancelled", text), retry: None });
    let (abandoned, cancelled) = (Effect::AbandonTurn(turn(1)), Effect::CancelInterrupts(vec![interrupt(1)]));
    assert_eq!(effects, vec![Effect::TellNext(turn(1)), abandoned, cancelled, Effect::Announce(Status::Error)]);
}

#[test]
fn what_was_abandoned_is_kept_until_a_turn_ends() {
    let abandoned = Some(Box::new(Abandoned { left_out: 1, ..Abandoned::default() }));
    let next = |session: &Session, event| session.transition(event, at(2)).unwrap().0;
    let told = next(&Session { abandoned: abandoned.clone(), ..session() }, message(1));
    for event in [failed(1), suspended(1)] {
        assert_eq!(next(&told, event).abandoned, abandoned);
    }
    assert_eq!(next(&told, ended(1)).abandoned, None);
}

#[test]
fn only_a_suspended_turn_can_be_retried() {
    let idle = after([message(1), ended(1)]).0;
    let failed = after([message(1), failed(1)]).0;
    let running = after([message(1)]).0;
    let another = after([message(1), suspended(1), message(2), suspended(2)]).0;
    let given_up_before = after([message(1), suspended(1), given_up(1)]).0;
    for session in [idle, failed, running, another, given_up_before] {
        assert_eq!(session.transition(reopened(1), at(2)), Err(Error::NothingToRetry), "{session:?}");
        assert_eq!(session.transition(given_up(1), at(2)), Err(Error::NothingToRetry), "{session:?}");
    }
}

#[test]
fn an_error_of_an_earlier_release_reads_back() {
    let stored = serde_json::json!({"phase": "error", "failure": {"message": "x", "code": "agent_error"}});
    let phase: Phase = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(phase, Phase::Error { failure: Failure::new("agent_error", "x"), retry: None });
    assert_eq!(serde_json::to_value(&phase).unwrap(), stored);
}

#[test]
fn statuses_read_back() {
    for status in [Status::Idle, Status::Running, Status::Interrupted, Status::Error] {
        assert_eq!(Status::parse(status.as_str()), Some(status));
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
    assert_eq!(Status::parse("IDLE"), None);
}

fn any_event() -> impl Strategy<Value = Event> {
    let (turns, interrupts) = (|| 0_u8..3, || 0_u8..4);
    prop_oneof![
        2 => turns().prop_map(message),
        4 => (turns(), interrupts()).prop_map(|(turn, interrupt)| opened(turn, interrupt)),
        3 => (turns(), interrupts()).prop_map(|(turn, interrupt)| closed(turn, interrupt)),
        1 => turns().prop_map(ended),
        1 => turns().prop_map(failed),
        2 => turns().prop_map(suspended),
        2 => turns().prop_map(reopened),
        1 => turns().prop_map(given_up),
    ]
}

fn turn_of(event: &Event) -> TurnId {
    match event {
        Event::MessageReceived { turn }
        | Event::InterruptOpened { turn, .. }
        | Event::InterruptClosed { turn, .. }
        | Event::TurnEnded { turn, .. }
        | Event::TurnFailed { turn, .. }
        | Event::TurnSuspended { turn, .. }
        | Event::TurnReopened { turn }
        | Event::TurnGivenUp { turn, .. } => *turn,
    }
}

/// What the turn at hand asks, answerable or not.
fn asked(session: &Session) -> &[InterruptId] {
    session.retry().map_or(session.pending(), |retry| &retry.pending)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_events_keeps_the_invariants(events in prop::collection::vec(any_event(), 0..60)) {
        let mut session = session();
        for (now, event) in (1..).zip(events) {
            let before = session.clone();
            let outcome = session.transition(event.clone(), at(now));
            // An error changes nothing: there is nothing else to keep than what was there.
            prop_assert_eq!(&session, &before);
            let Ok((next, effects)) = outcome else {
                continue;
            };
            session = next;

            let pending = session.pending();
            prop_assert_eq!(pending.is_empty(), session.status() != Status::Interrupted);
            let distinct: std::collections::HashSet<_> = pending.iter().collect();
            prop_assert_eq!(distinct.len(), pending.len());
            let is_open = matches!(session.status(), Status::Running | Status::Interrupted);
            prop_assert_eq!(session.turn().is_some(), is_open);

            // Only a message or a retry opens a turn, and only events of the turn at hand move a session.
            match (before.turn().or(before.retry().map(|retry| retry.turn)), &event) {
                (_, Event::MessageReceived { turn }) => prop_assert_eq!(session.turn(), Some(*turn)),
                (Some(at_hand), event) => prop_assert_eq!(at_hand, turn_of(event)),
                (None, event) => prop_assert!(false, "{event:?} moved a session without a turn"),
            }
            prop_assert!(session.turn().is_none() || session.turn() == Some(turn_of(&event)));
            let opens = matches!(event, Event::MessageReceived { .. } | Event::TurnReopened { .. });
            prop_assert_eq!(opens, before.turn().is_none() && session.turn().is_some());

            // A suspended turn is taken up again, or it is abandoned.
            if let Some(retry) = before.retry().filter(|_| session.retry().is_none()) {
                let abandoned = effects.contains(&Effect::AbandonTurn(retry.turn));
                let taken_up = matches!(event, Event::TurnReopened { .. });
                prop_assert!(abandoned != taken_up);
            }

            // Of a turn that is over without an answer the next one is told, and of no other.
            let unanswered = match event {
                Event::MessageReceived { .. } => before.retry().map(|retry| retry.turn),
                Event::TurnFailed { turn, .. } | Event::TurnGivenUp { turn, .. } => Some(turn),
                _ => None,
            };
            let told = effects.iter().find_map(|effect| match effect {
                Effect::TellNext(turn) => Some(*turn),
                _ => None,
            });
            prop_assert_eq!(told, unanswered);

            // Nobody is forgotten: an interrupt leaves the list by being closed, or is cancelled with its turn.
            let cancelled: Vec<InterruptId> = effects.iter().flat_map(|effect| match effect {
                Effect::CancelInterrupts(ids) => ids.clone(),
                _ => Vec::new(),
            }).collect();
            for gone in asked(&before).iter().filter(|id| !asked(&session).contains(id)) {
                let is_closed = matches!(event, Event::InterruptClosed { interrupt, .. } if interrupt == *gone);
                prop_assert!(is_closed != cancelled.contains(gone));
            }
            let announced: Vec<&Effect> = effects.iter().filter(|it| matches!(it, Effect::Announce(_))).collect();
            let is_told = session.status() != before.status() || matches!(event, Event::TurnGivenUp { .. });
            prop_assert_eq!(announced.len(), usize::from(is_told));
            prop_assert_eq!(session.updated_at, at(now));
            prop_assert_eq!((session.id, session.created_at), (before.id, before.created_at));
        }
    }
}
