//! Types whose reads are those of one of their fields, or of what one of their methods gives.

/// Makes a [`Reader`](crate::store::Reader), and all that belongs to one, of a type that has one as a field, or
/// makes one in a method: `name ()`.
macro_rules! reads_from {
    ($type:ty, $($field:tt)+) => {
        const _: () = {
            use $crate::domain::access::{Key, SignIn};
            use $crate::domain::audit::{AuditRow, Head};
            use $crate::domain::event::NumberedEvent;
            use $crate::domain::interrupt::Interrupt;
            use $crate::domain::journal::{RecordedEntry, StepIdentity};
            use $crate::domain::message::ChatMessage;
            use $crate::domain::notice::{Notice, NoticeId};
            use $crate::domain::policy::PushedPolicy;
            use $crate::domain::session::Session;
            use $crate::domain::turn::Life;
            use $crate::domain::webhook::Webhook;
            use $crate::domain::{Error, InterruptId, SessionId, StoreId, Timestamp, TurnId};
            use $crate::store::Reader;
            use $crate::store::asked::{AskedReader, InterruptPredicate};
            use $crate::store::carried::{Carried, CarriedReader};
            use $crate::store::outbox::OutboxReader;
            use $crate::store::query::{AuditQuery, InterruptQuery, NoticeQuery, Page, SessionQuery, TitledSession};
            use $crate::store::record::{StoredReply, Turn};

            impl Reader for $type {
                fn store_id(&self) -> Result<StoreId, Error> {
                    self.$($field)+.store_id()
                }

                fn now(&self) -> Timestamp {
                    self.$($field)+.now()
                }

                fn promotions(&self) -> u64 {
                    self.$($field)+.promotions()
                }

                fn session(&self, id: SessionId) -> Result<Option<Session>, Error> {
                    self.$($field)+.session(id)
                }

                fn messages(&self, id: SessionId) -> Result<Vec<ChatMessage>, Error> {
                    self.$($field)+.messages(id)
                }

                fn messages_page(&self, id: SessionId, first: usize, limit: usize) -> Result<Vec<ChatMessage>, Error> {
                    self.$($field)+.messages_page(id, first, limit)
                }

                fn sessions(&self, query: &SessionQuery) -> Result<Page<TitledSession>, Error> {
                    self.$($field)+.sessions(query)
                }

                fn count_sessions(&self) -> Result<usize, Error> {
                    self.$($field)+.count_sessions()
                }

                fn interrupt(&self, id: InterruptId) -> Result<Option<Interrupt>, Error> {
                    self.$($field)+.interrupt(id)
                }

                fn pending(&self, session: SessionId) -> Result<Vec<Interrupt>, Error> {
                    self.$($field)+.pending(session)
                }

                fn interrupts(&self, query: &InterruptQuery) -> Result<Page<Interrupt>, Error> {
                    self.$($field)+.interrupts(query)
                }

                fn turn(&self, id: TurnId) -> Result<Option<Turn>, Error> {
                    self.$($field)+.turn(id)
                }

                fn last_turn(&self, session: SessionId) -> Result<Option<Turn>, Error> {
                    self.$($field)+.last_turn(session)
                }

                fn session_of_turn(&self, id: TurnId) -> Result<Option<SessionId>, Error> {
                    self.$($field)+.session_of_turn(id)
                }

                fn sender_of_turn(&self, id: TurnId) -> Result<Option<String>, Error> {
                    self.$($field)+.sender_of_turn(id)
                }

                fn session_of_interrupt(&self, id: InterruptId) -> Result<Option<SessionId>, Error> {
                    self.$($field)+.session_of_interrupt(id)
                }

                fn life(&self, turn: TurnId) -> Result<Option<Life>, Error> {
                    self.$($field)+.life(turn)
                }

                fn journal(&self, turn: TurnId) -> Result<Vec<RecordedEntry>, Error> {
                    self.$($field)+.journal(turn)
                }

                fn journal_after(&self, turn: TurnId, index: Option<u64>) -> Result<Vec<RecordedEntry>, Error> {
                    self.$($field)+.journal_after(turn, index)
                }

                fn last_entry(&self, turn: TurnId) -> Result<Option<RecordedEntry>, Error> {
                    self.$($field)+.last_entry(turn)
                }

                fn journal_page(&self, turn: TurnId, first: u64, limit: usize) -> Result<Vec<RecordedEntry>, Error> {
                    self.$($field)+.journal_page(turn, first, limit)
                }

                fn reply(&self, scope: &str, key: &str) -> Result<Option<StoredReply>, Error> {
                    self.$($field)+.reply(scope, key)
                }

                fn keys(&self) -> Result<Vec<Key>, Error> {
                    self.$($field)+.keys()
                }

                fn sign_ins(&self) -> Result<Vec<SignIn>, Error> {
                    self.$($field)+.sign_ins()
                }

                fn pushed_policy(&self) -> Result<Option<PushedPolicy>, Error> {
                    self.$($field)+.pushed_policy()
                }

                fn events_after(
                    &self,
                    after: u64,
                    session: Option<SessionId>,
                    limit: usize,
                ) -> Result<Vec<NumberedEvent>, Error> {
                    self.$($field)+.events_after(after, session, limit)
                }

                fn last_event(&self) -> Result<u64, Error> {
                    self.$($field)+.last_event()
                }

                fn last_event_of(&self, session: SessionId) -> Result<u64, Error> {
                    self.$($field)+.last_event_of(session)
                }

                fn audit(&self, query: &AuditQuery) -> Result<Page<AuditRow>, Error> {
                    self.$($field)+.audit(query)
                }

                fn audit_head(&self) -> Result<Head, Error> {
                    self.$($field)+.audit_head()
                }

                fn has_seen(&self, interrupt: InterruptId, actor: &str) -> Result<bool, Error> {
                    self.$($field)+.has_seen(interrupt, actor)
                }
            }

            impl OutboxReader for $type {
                fn webhook_of_turn(&self, id: TurnId) -> Result<Option<Webhook>, Error> {
                    self.$($field)+.webhook_of_turn(id)
                }

                fn notice(&self, id: NoticeId) -> Result<Option<Notice>, Error> {
                    self.$($field)+.notice(id)
                }

                fn notices(&self, query: &NoticeQuery) -> Result<Page<Notice>, Error> {
                    self.$($field)+.notices(query)
                }

                fn has_pending_notice(&self, session: SessionId, url: &str) -> Result<bool, Error> {
                    self.$($field)+.has_pending_notice(session, url)
                }

                fn first_pending_notice(&self, session: SessionId, url: &str) -> Result<Option<Notice>, Error> {
                    self.$($field)+.first_pending_notice(session, url)
                }
            }

            impl AskedReader for $type {
                fn asking_step(&self, turn: TurnId, interrupt: InterruptId) -> Result<Option<StepIdentity>, Error> {
                    self.$($field)+.asking_step(turn, interrupt)
                }

                fn begun_step(&self, turn: TurnId, path: &str) -> Result<Option<StepIdentity>, Error> {
                    self.$($field)+.begun_step(turn, path)
                }

                fn last_with_approvers(
                    &self,
                    turn: TurnId,
                    is_it: InterruptPredicate<'_>,
                ) -> Result<Option<Interrupt>, Error> {
                    self.$($field)+.last_with_approvers(turn, is_it)
                }
            }

            impl CarriedReader for $type {
                fn carried(&self, turn: TurnId) -> Result<Option<Carried>, Error> {
                    self.$($field)+.carried(turn)
                }
            }
        };
    };
}
pub(crate) use reads_from;
