//! The catalogue of causes as HTTP shows them: one entry for each `code`, with its status and what to do about it.
//!
//! Problem responses, the OpenAPI document and docs/errors.md are all made from this one list.

use axum::http::StatusCode;

use crate::domain::Error;

/// One cause of a refusal or failure.
#[derive(Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// The stable code, snake case.
    pub code: &'static str,
    /// The HTTP status.
    pub status: StatusCode,
    /// A short summary, the same at every occurrence.
    pub title: &'static str,
    /// The `detail` text; `<...>` stands for what differs.
    pub detail: &'static str,
    /// What whoever gets it can do.
    pub advice: &'static str,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u32>,
}

macro_rules! causes {
    ($($name:ident $status:ident $(retry $retry:literal)? $code:literal, $title:literal, $detail:literal, $advice:literal;)*) => {
        $(
            #[doc = concat!("`", $code, "`: ", $detail)]
            pub static $name: CatalogueEntry = CatalogueEntry {
                code: $code,
                status: StatusCode::$status,
                title: $title,
                detail: $detail,
                advice: $advice,
                retry_after: causes!(@retry $($retry)?),
            };
        )*
        /// Every cause, by status as docs/errors.md lists them.
        pub static ALL: &[&CatalogueEntry] = &[$(&$name),*];
    };
    (@retry $seconds:literal) => { Some($seconds) };
    (@retry) => { None };
}

causes! {
    INVALID_HOST BAD_REQUEST "invalid_host", "Host header missing or malformed",
        "Exactly one valid Host header is required",
        "Send one `Host` header, as every HTTP/1.1 client does; with HTTP/1.0 too.";
    INVALID_TRANSFER_ENCODING BAD_REQUEST "invalid_transfer_encoding", "Transfer-Encoding is not chunked",
        "Transfer-Encoding must be chunked and nothing else",
        "Send the body as it is, with its `Content-Length` or in chunks; it is not decompressed.";
    INVALID_SESSION_ID BAD_REQUEST "invalid_session_id", "Session ID is no UUID",
        "Session ID must be a valid UUID",
        "Choose a UUID, such as `550e8400-e29b-41d4-a716-446655440000`.";
    UNAUTHORIZED UNAUTHORIZED "unauthorized", "API key missing or wrong",
        "A valid API key is required: send it as Authorization: Bearer <key>",
        "Send `Authorization: Bearer <key>` with the key of `--api-key`, or one that `hitl keys create` gave and that is not revoked.";
    AMBIGUOUS_SIGN_IN UNAUTHORIZED "ambiguous_sign_in", "Two sign-ins at once",
        "The browser sends two sign-ins; which of them is meant cannot be told",
        "Delete the cookies of this host and sign in again: another page of the host has set one. Programs send `Authorization: Bearer <key>`.";
    MISSING_SCOPE FORBIDDEN "missing_scope", "Key lacks a scope",
        "This needs a key with the scope <scope>",
        "Use a key with that scope; whoever runs the server makes one: `hitl keys create NAME --scope SCOPE`.";
    SELF_APPROVAL FORBIDDEN "self_approval", "Own message",
        "Whoever sent the message cannot approve its tools",
        "Somebody with another key has to answer: the server was started with `--prevent-self-approval`.";
    NOT_AN_APPROVER FORBIDDEN "not_an_approver", "Not an approver",
        "Only these may answer, with a key of theirs: <approvers>",
        "Leave it to one of the interrupt's `approvers`. A server without keys knows nobody's name: `hitl keys create` makes some.";
    CROSS_SITE_REQUEST FORBIDDEN "cross_site_request", "Request of another site",
        "A signed-in browser may only act from this server's own pages",
        "Programs send `Authorization: Bearer <key>`, and no cookie.";
    FOREIGN_HOST FORBIDDEN "foreign_host", "Host is not allowed",
        "Host <host> is not allowed; the server can be started with --allowed-host to allow it",
        "Call the server by the address it listens on, or start it with `--allowed-host NAME`.";
    FOREIGN_ORIGIN FORBIDDEN "foreign_origin", "Origin is not allowed",
        "Origin <origin> is not allowed: a page of another address cannot use this server",
        "A page of another address cannot use this server: let its backend do it, or serve both behind one name. Behind a proxy \
         that changes `Host`, start with `--allowed-host`, the name of the page.";
    NOT_FOUND NOT_FOUND "not_found", "No such route",
        "Nothing is here; /openapi.json lists what is",
        "Check the path; `/docs` shows every route.";
    TAKES_NO_REQUESTS NOT_FOUND "takes_no_requests", "Server takes no requests",
        "This server only runs turns; send requests to one that takes them",
        "`hitl work` answers `/healthz`, `/readyz` and `/metrics` alone. `hitl servers` says which servers of the store take requests \
         (`HTTP`).";
    SESSION_NOT_FOUND NOT_FOUND "session_not_found", "Session not found",
        "Session not found",
        "Check the id. The session may have been deleted, or swept by `--ttl`.";
    SESSION_DELETED NOT_FOUND "session_deleted", "Session deleted while the poll waited",
        "Session deleted",
        "Somebody deleted the session while this request waited for it; stop polling.";
    UNKNOWN_INTERRUPT NOT_FOUND "unknown_interrupt", "Unknown interrupt",
        "Unknown interrupt_id: <id>",
        "Take the id from the latest reply or event; an interrupt goes away with its session.";
    UNKNOWN_GRANT NOT_FOUND "unknown_grant", "Unknown grant",
        "Unknown grant_id: <id>",
        "List the session's grants (`GET /sessions/{id}/grants`); it may have been revoked, or replaced by a later one.";
    UNKNOWN_KEY NOT_FOUND "unknown_key", "Unknown key",
        "Unknown key_id: <id>",
        "List the keys (`GET /keys`, `hitl keys list`); it may have been revoked before.";
    UNKNOWN_NOTICE NOT_FOUND "unknown_notice", "Unknown notice",
        "Unknown notice_id: <id>",
        "List what webhooks are told (`GET /webhooks`); a notice is forgotten seven days after it was delivered or given up.";
    METHOD_NOT_ALLOWED METHOD_NOT_ALLOWED "method_not_allowed", "Method not allowed",
        "Method <method> is not allowed here",
        "Use one of the methods in the `Allow` header.";
    CUSTOM_IDS_DISABLED METHOD_NOT_ALLOWED "custom_ids_disabled", "Custom session IDs are off",
        "Custom session IDs are not enabled",
        "Create the session with `POST /sessions`, or start the server with `--allow-custom-ids`.";
    REQUEST_TIMEOUT REQUEST_TIMEOUT "request_timeout", "The request's body came too slowly",
        "The request body did not arrive within <seconds> seconds",
        "Send the body without pauses; the request had no effect.";
    SESSION_EXISTS CONFLICT "session_exists", "Session already exists",
        "Session already exists",
        "Use the session as it is, or choose another id.";
    SESSION_BUSY CONFLICT "session_busy", "Session takes no message now",
        "Session is <status>",
        "While running: wait (`GET /sessions/{id}?wait=true`). While interrupted: answer its interrupts, or cancel the turn.";
    NOT_INTERRUPTED CONFLICT "not_interrupted", "Session asks nothing",
        "Session is <status>, not interrupted",
        "Read the session again; resume it only while its status is `interrupted`.";
    NOTHING_TO_CANCEL CONFLICT "nothing_to_cancel", "No turn to cancel",
        "Session has no turn to cancel",
        "Nothing to do: the turn has ended already.";
    NOTHING_TO_RETRY CONFLICT "nothing_to_retry", "No turn to retry",
        "Session has no turn to retry",
        "Only a turn that failed with its journal kept can be taken up again: read the session's `error_code`, or send the message again.";
    KEY_EXISTS CONFLICT "key_exists", "Key name taken",
        "There is a key named <name> already",
        "Choose another name, or revoke that key first.";
    NOTICE_NOT_FAILED CONFLICT "notice_not_failed", "Notice was not given up",
        "Notice is <status>, not failed",
        "Only a notice that was given up can be retried; a pending one is tried again by itself.";
    ALREADY_RESOLVED CONFLICT "already_resolved", "Interrupt already resolved",
        "Interrupt already resolved",
        "Somebody else was first, with another answer; `resolved_by` and `resolved_at` say who and when.";
    INTERRUPT_CLAIMED CONFLICT "interrupt_claimed", "Somebody else works on the interrupt",
        "Interrupt is claimed by <name> until <time>",
        "Wait until `claimed_until`, or ask `claimed_by` to release it; a key with the scope `admin` may release it too.";
    INTERRUPT_CANCELLED CONFLICT "interrupt_cancelled", "Interrupt was cancelled",
        "Interrupt was cancelled",
        "The agent does not wait for this answer any more; read the session again.";
    OTHER_AGENT CONFLICT "other_agent", "Session of another agent",
        "Session belongs to agent <agent>, which this server does not run",
        "Send it to the server that serves this agent.";
    RUN_STATE_OTHER_AGENT CONFLICT "run_state_other_agent", "Run state of another agent",
        "The run state is of agent <agent>, and this server serves <agent>",
        "Import it where that agent is served. What was approved counts for that agent alone.";
    RUN_STATE_USED CONFLICT "run_state_used", "Run state used before",
        "The turn of this run state went on in this store already, and its session is gone",
        "Nothing was run. Import the state of where the run stands now; a signed state counts once in a store.";
    RUN_STATE_KNOWN CONFLICT "run_state_known", "Ids of a run state are taken",
        "The turn of this run state, or an interrupt of it, is another session's here",
        "Nothing was run. Send the state as it was given, with the session id that it had.";
    NOTHING_PENDING CONFLICT "nothing_pending", "The run asks nothing",
        "Nothing is pending: the run asks nothing",
        "Raised by `RunState` in Python: decide only while `state.interrupts` lists something.";
    RUN_INTERRUPTED CONFLICT "run_interrupted", "Run waits for answers",
        "The run waits for answers; go on with its state before the next message",
        "Raised by `hitl.run` in Python: answer what it asks and run its state, or cancel its turn.";
    ALREADY_RESUMED CONFLICT "already_resumed", "Run state resumed before",
        "This run state was resumed before: its turn has gone on since",
        "Nothing was run. Read the run as it is now: `RunState.from_store`, or the session.";
    IMPORT_DISABLED FORBIDDEN "import_disabled", "Run states are not imported",
        "Run states are not imported here",
        "Start the server with `--allow-import`, and with `--state-key` where imported decisions are to count.";
    NOTHING_TO_EXPORT CONFLICT "nothing_to_export", "No turn to export",
        "Session has no turn to export",
        "Only a turn that is open, or failed with its journal kept, has a run state; read the session's messages instead.";
    RUN_STOPPED CONFLICT "run_stopped", "Run stopped",
        "The run was stopped before its turn was over",
        "Raised by `hitl.run` in Python when its event loop was closed; the turn can be taken up with `RunState.from_store`.";
    STALE_EPOCH CONFLICT "stale_epoch", "Turn taken over",
        "The turn was taken over by another worker",
        "Seen by workers only: the worker drops the turn.";
    TURN_NOT_OPEN CONFLICT "turn_not_open", "Turn is not open",
        "The turn is not open",
        "The turn ended meanwhile; read the session again.";
    INTERRUPT_EXPIRED GONE "interrupt_expired", "Interrupt expired",
        "Interrupt expired at <time>",
        "The time to answer (`expires_at`) is over, the agent has gone on without; read the session again.";
    BODY_TOO_LARGE PAYLOAD_TOO_LARGE "body_too_large", "Request body too large",
        "The request body is larger than the limit of <limit> bytes",
        "Send less, or start the server with a larger `--max-body`.";
    VALUE_TOO_LARGE PAYLOAD_TOO_LARGE "value_too_large", "Answer too large",
        "Value is <size> bytes of JSON, the limit is <limit>",
        "Store the data elsewhere and answer with a reference, or start the server with a larger `--max-value`.";
    PAYLOAD_TOO_LARGE PAYLOAD_TOO_LARGE "payload_too_large", "Interrupt payload too large",
        "Interrupt payload is <size> bytes of JSON, the limit is <limit>",
        "Raised in the agent by `interrupt()`: put the data elsewhere and a reference into the payload, or raise `--max-payload`.";
    URI_TOO_LONG URI_TOO_LONG "uri_too_long", "URI too long",
        "The request URI is longer than the limit of <limit> bytes",
        "Send a shorter path and query.";
    UNSUPPORTED_MEDIA_TYPE UNSUPPORTED_MEDIA_TYPE "unsupported_media_type", "Body is not declared as JSON",
        "The body must be sent with content-type application/json in UTF-8, not <content-type>",
        "Send `content-type: application/json` and the body uncompressed.";
    INVALID_REQUEST UNPROCESSABLE_ENTITY "invalid_request", "Request does not have the documented form",
        "Invalid request: <place>: <what is wrong>",
        "`errors` lists every place (`loc`) that is wrong; nothing was changed.";
    DUPLICATE_MEMBER UNPROCESSABLE_ENTITY "duplicate_member", "A member is there twice",
        "Invalid JSON: <place>: is there more than once",
        "Send each member of an object once; nothing was changed.";
    NUMBER_OUT_OF_RANGE UNPROCESSABLE_ENTITY "number_out_of_range", "A number would be rounded",
        "Invalid JSON: <place>: <number> would be read as another number; send it as a string",
        "Send integers within 64 bits, and decimals with no more digits than a double holds; nothing was changed.";
    INVALID_ANSWER UNPROCESSABLE_ENTITY "invalid_answer", "Answer does not fit its interrupt",
        "Invalid answer: <place>: <what is wrong>",
        "Answer as the interrupt's `response_schema` says; it is still pending, nothing was stored.";
    DUPLICATE_ANSWER UNPROCESSABLE_ENTITY "duplicate_answer", "One interrupt answered twice",
        "Interrupt <id> is answered twice in one request",
        "Send one answer per interrupt; nothing was stored.";
    IDEMPOTENCY_KEY_REUSED UNPROCESSABLE_ENTITY "idempotency_key_reused", "Idempotency-Key used before",
        "Idempotency-Key was used before with another request",
        "Draw a new key for every new request; repeat a key only with the very same body.";
    WEBHOOK_REFUSED UNPROCESSABLE_ENTITY "webhook_refused", "Webhook URL refused",
        "Webhook URL is refused: <why>",
        "Use a public http or https URL, or start the server with `--webhook-allow-private`.";
    INVALID_PAYLOAD UNPROCESSABLE_ENTITY "invalid_payload", "Interrupt payload invalid",
        "<what is wrong>",
        "Raised in the agent by `interrupt()`: mend the call.";
    INVALID_SCHEMA UNPROCESSABLE_ENTITY "invalid_schema", "Response schema invalid",
        "Invalid response_schema: <why>",
        "Raised in the agent by `interrupt()`: give a valid JSON Schema without external references.";
    RUN_STATE_NEWER UNPROCESSABLE_ENTITY "run_state_newer", "Run state of a later release",
        "The run state has version <version>, written by hitl <release>; this version of hitl reads up to <version>",
        "Upgrade hitl where the state is read; nothing was changed.";
    RUN_STATE_INVALID UNPROCESSABLE_ENTITY "run_state_invalid", "Not a run state",
        "Not a run state: <what is wrong>",
        "Send what `RunState.to_string()` or `GET /sessions/{id}/run-state` gave, unchanged.";
    RATE_LIMITED TOO_MANY_REQUESTS retry 1 "rate_limited", "Too many requests",
        "Too many requests; try again in <seconds> s",
        "Try again after `Retry-After` seconds. Wrong keys are counted by address, requests by key (`--rate-limit`).";
    ADDRESS_LIMITED TOO_MANY_REQUESTS retry 5 "address_limited", "Too many connections of one address",
        "This address has <limit> connections, as many as it may have",
        "Close connections that are not used. Behind a proxy everybody has its address: raise `--max-connections-per-address`.";
    TOO_MANY_AT_ONCE TOO_MANY_REQUESTS retry 1 "too_many_at_once", "Too many requests at once",
        "<limit> requests of this client are at work, as many as there may be",
        "Wait for answers before more is asked, or raise `--max-requests-per-key`.";
    TOO_MANY_WAITING TOO_MANY_REQUESTS retry 5 "too_many_waiting", "Too many long polls and event streams",
        "<limit> long polls and event streams of this client are open, as many as there may be",
        "Listen to all sessions with one `GET /events`, or raise `--max-requests-per-key`; three quarters of those may wait.";
    INTERNAL INTERNAL_SERVER_ERROR "internal", "Internal error",
        "Internal error; the server's log has the details",
        "A fault of hitl itself: please report it with the server's log.";
    UNREADABLE INTERNAL_SERVER_ERROR "unreadable", "Stored row unreadable",
        "What is stored of this cannot be read; the server's log has the details",
        "The row is damaged, or a later release wrote it: serve the store with that release, or restore a backup. What \
         else is stored is not affected; the session can be deleted.";
    TOO_MANY_SESSIONS SERVICE_UNAVAILABLE retry 30 "too_many_sessions", "Session limit reached",
        "Maximum number of sessions reached",
        "Delete sessions that are done with, or raise `--max-sessions`.";
    TOO_MANY_CONNECTIONS SERVICE_UNAVAILABLE retry 5 "too_many_connections", "Every connection is taken",
        "All <limit> connections are taken",
        "Try again later; raise `--max-connections`, and the limit of open files (`ulimit -Hn`) where it needs that.";
    TOO_MUCH_AT_ONCE SERVICE_UNAVAILABLE retry 1 "too_much_at_once", "Too many bytes at once",
        "The bodies of requests that are at work, or of answers that are not taken, have <limit> bytes, as many as they may",
        "Send long bodies one after the other, and take answers before more is asked. All bodies may have 64 times \
         `--max-body`, 64 MiB at least and room for two answers of `--max-value`, all answers four times that, and one \
         client half of each.";
    QUEUE_FULL SERVICE_UNAVAILABLE retry 1 "queue_full", "Queue of turns is full",
        "Too many turns are waiting for a worker; try again later",
        "Try again after `Retry-After` seconds; raise `--workers` or `--queue` where it happens often.";
    NO_WORKER SERVICE_UNAVAILABLE retry 5 "no_worker", "No server runs turns",
        "No server that is alive runs the turns of this agent",
        "Start one with workers on the same store, or try again once it is back; `hitl servers` lists those that are alive. \
         Answers are taken meanwhile.";
    WORKERS_FAIL SERVICE_UNAVAILABLE retry 5 "workers_fail", "Workers cannot be started",
        "No worker can be started here; the server's log says why",
        "Only `/readyz` says so. Each of several starts in a row has failed: the agent's module or what it imports has changed, \
         or memory or processes have run out. It is tried again; until one starts, turns of this server end with `worker_exited`, \
         and answers are taken. Where a live agent's thread is gone, only a new start of the program helps.";
    SHUTTING_DOWN SERVICE_UNAVAILABLE retry 5 "shutting_down", "Server is shutting down",
        "Server is shutting down",
        "Try again once the server is back.";
    STANDING_BY SERVICE_UNAVAILABLE retry 5 "standing_by", "Server is standing by",
        "A run has the store; this server stands by until it is over",
        "Ask again: this server answers once that run is over. `/readyz` tells when.";
    STORE_UNAVAILABLE SERVICE_UNAVAILABLE retry 5 "store_unavailable", "Store unavailable",
        "Store unavailable; the server's log has the details",
        "Whether the request took effect is unknown: repeat it with the same `Idempotency-Key`, or read the session first.";
}

/// The entry of a domain error.
pub fn cause_of(error: &Error) -> &'static CatalogueEntry {
    match error {
        Error::SessionNotFound => &SESSION_NOT_FOUND,
        Error::SessionDeleted => &SESSION_DELETED,
        Error::SessionExists => &SESSION_EXISTS,
        Error::InvalidSessionId => &INVALID_SESSION_ID,
        Error::CustomIdsDisabled => &CUSTOM_IDS_DISABLED,
        Error::TooManySessions => &TOO_MANY_SESSIONS,
        Error::SessionBusy(_) => &SESSION_BUSY,
        Error::NotInterrupted(_) => &NOT_INTERRUPTED,
        Error::NothingToCancel => &NOTHING_TO_CANCEL,
        Error::NothingToRetry => &NOTHING_TO_RETRY,
        Error::OtherAgent(_) => &OTHER_AGENT,
        Error::QueueFull => &QUEUE_FULL,
        Error::NoWorker => &NO_WORKER,
        Error::WorkersFail => &WORKERS_FAIL,
        Error::ShuttingDown => &SHUTTING_DOWN,
        Error::UnknownInterrupt(_) => &UNKNOWN_INTERRUPT,
        Error::UnknownGrant(_) => &UNKNOWN_GRANT,
        Error::UnknownKey(_) => &UNKNOWN_KEY,
        Error::KeyExists(_) => &KEY_EXISTS,
        Error::MissingScope(_) => &MISSING_SCOPE,
        Error::SelfApproval => &SELF_APPROVAL,
        Error::NotAnApprover { .. } => &NOT_AN_APPROVER,
        Error::AlreadyResolved { .. } => &ALREADY_RESOLVED,
        Error::InterruptClaimed { .. } => &INTERRUPT_CLAIMED,
        Error::InterruptCancelled => &INTERRUPT_CANCELLED,
        Error::InterruptExpired(_) => &INTERRUPT_EXPIRED,
        Error::DuplicateAnswer(_) => &DUPLICATE_ANSWER,
        Error::InvalidAnswer(_) => &INVALID_ANSWER,
        Error::InvalidRequest(_) => &INVALID_REQUEST,
        Error::DuplicateMember(_) => &DUPLICATE_MEMBER,
        Error::NumberOutOfRange(_) => &NUMBER_OUT_OF_RANGE,
        Error::IdempotencyKeyReused => &IDEMPOTENCY_KEY_REUSED,
        Error::ValueTooLarge { .. } => &VALUE_TOO_LARGE,
        Error::PayloadTooLarge { .. } => &PAYLOAD_TOO_LARGE,
        Error::InvalidPayload(_) => &INVALID_PAYLOAD,
        Error::InvalidSchema(_) => &INVALID_SCHEMA,
        Error::WebhookRefused(_) => &WEBHOOK_REFUSED,
        Error::UnknownNotice(_) => &UNKNOWN_NOTICE,
        Error::NoticeNotFailed(_) => &NOTICE_NOT_FAILED,
        Error::NothingPending => &NOTHING_PENDING,
        Error::RunInterrupted => &RUN_INTERRUPTED,
        Error::AlreadyResumed => &ALREADY_RESUMED,
        Error::RunStopped => &RUN_STOPPED,
        Error::ImportDisabled => &IMPORT_DISABLED,
        Error::NothingToExport => &NOTHING_TO_EXPORT,
        Error::RunStateNewer { .. } => &RUN_STATE_NEWER,
        Error::RunStateOtherAgent { .. } => &RUN_STATE_OTHER_AGENT,
        Error::RunStateUsed => &RUN_STATE_USED,
        Error::RunStateKnown => &RUN_STATE_KNOWN,
        Error::RunStateInvalid(_) => &RUN_STATE_INVALID,
        Error::StaleEpoch => &STALE_EPOCH,
        Error::TurnNotOpen(_) => &TURN_NOT_OPEN,
        Error::StoreUnavailable(_) => &STORE_UNAVAILABLE,
        Error::Unreadable(_) => &UNREADABLE,
        Error::Internal(_) => &INTERNAL,
    }
}
