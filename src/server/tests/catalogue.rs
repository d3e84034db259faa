//! The catalogue agrees with the domain, and docs/errors.md with the catalogue.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::domain::scope::Scope;
use crate::domain::status::{NoticeStatus, Status};
use crate::domain::{Error, Timestamp};
use crate::server::catalogue::{ALL, cause_of};

/// These, each a variant of [`Error`]; one that is not among them does not compile.
macro_rules! one_of_each {
    ($($variant:ident $(($($value:expr),+))? $({$($field:ident: $given:expr),+})?,)+) => {{
        let _: fn(&Error) = |error| match error {
            $(Error::$variant { .. })|+ => (),
        };
        vec![$(Error::$variant $(($($value),+))? $({ $($field: $given),+ })?),+]
    }};
}

fn every_domain_error() -> Vec<Error> {
    let text = || "x".to_owned();
    let time = Timestamp::from_millis(0);
    one_of_each![
        SessionNotFound,
        SessionDeleted,
        SessionExists,
        InvalidSessionId,
        CustomIdsDisabled,
        TooManySessions,
        SessionBusy(Status::Running),
        NotInterrupted(Status::Idle),
        NothingToCancel,
        NothingToRetry,
        OtherAgent(text()),
        QueueFull,
        NoWorker,
        WorkersFail,
        ShuttingDown,
        UnknownInterrupt(text()),
        UnknownGrant(text()),
        UnknownKey(text()),
        KeyExists(text()),
        MissingScope(Scope::Read),
        SelfApproval,
        NotAnApprover { approvers: vec![text()], rule: None },
        AlreadyResolved { resolved_by: None, resolved_at: time },
        InterruptClaimed { claimed_by: text(), claimed_until: time },
        InterruptCancelled,
        InterruptExpired(time),
        DuplicateAnswer(text()),
        InvalidAnswer(Vec::new()),
        InvalidRequest(Vec::new()),
        DuplicateMember(Vec::new()),
        NumberOutOfRange(Vec::new()),
        IdempotencyKeyReused,
        ValueTooLarge { size: 2, limit: 1 },
        PayloadTooLarge { size: 2, limit: 1 },
        InvalidPayload(text()),
        InvalidSchema(text()),
        WebhookRefused(text()),
        UnknownNotice(text()),
        NoticeNotFailed(NoticeStatus::Delivered),
        NothingPending,
        RunInterrupted,
        AlreadyResumed,
        RunStopped,
        ImportDisabled,
        NothingToExport,
        RunStateNewer { found: 2, known: 1, library: None },
        RunStateOtherAgent { of: text(), served: text() },
        RunStateUsed,
        RunStateKnown,
        RunStateInvalid(text()),
        StaleEpoch,
        TurnNotOpen(None),
        StoreUnavailable(text()),
        Unreadable(text()),
        Internal(text()),
    ]
}

#[test]
fn every_domain_error_has_the_entry_of_its_code() {
    for error in every_domain_error() {
        assert_eq!(cause_of(&error).code, error.code());
    }
}

#[test]
fn a_detail_without_blanks_is_the_text_of_the_error() {
    for error in every_domain_error() {
        let cause = cause_of(&error);
        let is_for_the_log = matches!(error, Error::Internal(_) | Error::StoreUnavailable(_) | Error::Unreadable(_));
        if !cause.detail.contains('<') && !is_for_the_log {
            assert_eq!(error.to_string(), cause.detail);
        }
    }
}

#[test]
fn codes_are_unique_and_only_429_and_503_say_when_to_come_back() {
    let codes: HashSet<_> = ALL.iter().map(|cause| cause.code).collect();
    assert_eq!(codes.len(), ALL.len());
    for cause in ALL {
        assert!(cause.code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", cause.code);
        assert_eq!(cause.retry_after.is_some(), [429, 503].contains(&cause.status.as_u16()), "{}", cause.code);
    }
}

fn rendered() -> String {
    let mut text = String::from(
        "# Errors\n\n\
        <!-- Made from src/server/catalogue.rs: HITL_WRITE_DOCS=1 cargo test --no-default-features errors_md -->\n\n\
        Every refusal is `application/problem+json` (RFC 9457): `type` (`urn:hitl:error:<code>`), `title`, `status`, `detail`\n\
        and `code`. The code is stable; Python raises errors with the same `.code`. A 422 also has\n\
        `errors: [{\"loc\", \"msg\", \"type\"}]` with every place that is wrong (the first 50, and then one\n\
        `too_many_errors` that says how many more), `already_resolved` has `resolved_by` and\n\
        `resolved_at`, `interrupt_claimed` has `claimed_by` and `claimed_until`, a 429 and a 503 have `Retry-After`. Requests that are no HTTP at all, or whose head is too large, are answered\n\
        by the HTTP parser with a bare 400 or 431.\n",
    );
    for cause in ALL {
        let reason = cause.status.canonical_reason().unwrap_or_default();
        write!(
            text,
            "\n## {}\n\n**{} {reason}**: {}\n\n> {}\n\n{}\n",
            cause.code,
            cause.status.as_u16(),
            cause.title,
            cause.detail.replace('<', "&lt;"),
            cause.advice
        )
        .unwrap();
    }
    text
}

#[test]
fn errors_md_is_what_the_catalogue_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md");
    if std::env::var_os("HITL_WRITE_DOCS").is_some() {
        std::fs::write(path, rendered()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).is_ok_and(|text| text == rendered()),
        "docs/errors.md is out of date; write it with HITL_WRITE_DOCS=1"
    );
}
