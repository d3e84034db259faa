//! Keys and sign-ins: made, told apart, ended.
//!
//! Every request asks for them, so they are in memory too; what changes them is written first. Where several servers share a
//! store, each reads them anew when it hears that they have changed, and looks every second whether they have.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use subtle::{ConditionallySelectable, ConstantTimeEq};
use tokio::sync::watch;

use crate::domain::access::{self, Actor, Digest, Key, NewKey, PREFIX, SignIn};
use crate::domain::audit::{Action, Deed};
use crate::domain::scope::Scope;
use crate::domain::{Error, FieldError, KeyId, Timestamp};
use crate::engine::access::AccessControl;
use crate::engine::{clock, detached};
use crate::store::about::About;
use crate::store::{Store, StoreExt, Transaction};

/// How long a sign-in lasts, in seconds.
pub const SIGN_IN_SECONDS: u32 = 12 * 3600;

/// The keys and sign-ins of a store as they are now.
#[derive(Debug, Default)]
pub struct Keyring {
    known: RwLock<Arc<Known>>,
    /// One change at a time, so that they come into memory in the order in which they were written.
    changing: tokio::sync::Mutex<()>,
    /// Told of each change once it holds.
    changed: watch::Sender<()>,
}

/// What a [`Keyring`] holds.
#[derive(Debug, Clone, Default)]
pub struct Known {
    keys: Vec<Key>,
    sign_ins: HashMap<Digest, SignIn>,
}

impl Known {
    /// Every key, the revoked ones too, oldest first.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Whether there has ever been a key. From then on nobody is let in without one, even if all of them are revoked.
    pub fn has_any(&self) -> bool {
        !self.keys.is_empty()
    }

    /// What the key with this digest is called, also once it is revoked.
    pub fn name_of(&self, digest: &Digest) -> Option<&str> {
        self.keys.iter().find(|key| bool::from(key.digest.ct_eq(digest))).map(|key| key.name.as_str())
    }

    /// Whose key has this digest. All keys are looked at, whichever fits, so that the time tells nothing.
    pub fn holder(&self, digest: &Digest) -> Option<Actor> {
        let mut found = 0_u32;
        for (number, key) in (1_u32..).zip(&self.keys) {
            let fits = key.digest.ct_eq(digest) & u8::from(key.revoked_at.is_none()).into();
            found.conditional_assign(&number, fits);
        }
        let key = self.keys.get((found as usize).checked_sub(1)?)?;
        Some(Actor::named(&key.name, key.scopes, &key.groups))
    }

    /// The sign-in with this token, if it has not ended. Looked up by the digest of a token: how long that takes tells
    /// nothing about tokens.
    pub fn signed_in(&self, token: &Digest, now: Timestamp) -> Option<&SignIn> {
        self.sign_ins.get(token).filter(|sign_in| sign_in.ends_at > now)
    }
}

impl Keyring {
    /// The keyring of a store.
    ///
    /// # Errors
    /// The store's.
    pub async fn load(store: &dyn Store) -> Result<Self, Error> {
        Ok(Self { known: RwLock::new(Arc::new(read(store).await?)), ..Self::default() })
    }

    /// As it is now.
    pub fn known(&self) -> Arc<Known> {
        // A panic elsewhere cannot leave half a pointer.
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut known));
        drop(known);
        self.changed.send_replace(());
    }
}

/// The keys and sign-ins that are in a store.
async fn read(store: &dyn Store) -> Result<Known, Error> {
    let (keys, sign_ins) = store.query(|reader| Ok((reader.keys()?, reader.sign_ins()?))).await?;
    let sign_ins = sign_ins.into_iter().map(|sign_in| (sign_in.token, sign_in)).collect();
    Ok(Known { keys, sign_ins })
}

/// Makes a key in a store, for `actor`: the key, and its secret, which is nowhere else.
///
/// # Errors
/// [`Error::InvalidRequest`] with each member that is wrong, [`Error::KeyExists`].
pub async fn create_key(store: &dyn Store, new: NewKey, actor: &Actor) -> Result<(Key, String), Error> {
    let secret = access::secret(PREFIX, clock::random()?);
    let now = store.clock().now();
    let key = new.make(clock::key_id(), &secret, actor.name(), now).map_err(Error::InvalidRequest)?;
    let (stored, actor) = (key.clone(), actor.clone());
    store
        .transact(About::Access, move |tx| {
            tx.insert_key(&stored)?;
            record(tx, deed(Action::KeyCreated, &stored, &actor), now)
        })
        .await?;
    Ok((key, secret))
}

/// Revokes the key that is good and has this name, on the machine of the store.
///
/// # Errors
/// [`Error::UnknownKey`].
pub async fn revoke_named(store: &dyn Store, name: &str) -> Result<(), Error> {
    let name = name.to_owned();
    store
        .transact(About::Access, move |tx| {
            let good = tx.keys()?.into_iter().find(|key| key.revoked_at.is_none() && key.name == name);
            let (key, now) = (good.ok_or_else(|| Error::UnknownKey(name.clone()))?, tx.now());
            tx.revoke_key(key.key_id, now)?;
            record(tx, deed(Action::KeyRevoked, &key, &Actor::anyone()), now)
        })
        .await
}

impl AccessControl {
    /// The keys and sign-ins as they are now.
    pub fn known(&self) -> Arc<Known> {
        self.keyring.known()
    }

    /// Wakes up after each change of keys and sign-ins.
    pub fn key_changes(&self) -> watch::Receiver<()> {
        self.keyring.changed.subscribe()
    }

    /// Reads keys, sign-ins and the policy that was pushed anew: another process has changed some of them.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn changed_elsewhere(&self) -> Result<(), Error> {
        self.follow_keys().await?;
        self.follow_pushed().await
    }

    async fn follow_keys(&self) -> Result<(), Error> {
        // No change of this server's own comes between reading and knowing.
        let _turn = self.keyring.changing.lock().await;
        let there = read(self.store.as_ref()).await?;
        self.keyring.change(|known| *known = there);
        Ok(())
    }

    /// The sign-in that this token is of, and for how long it still is.
    pub fn signed_in(&self, token: &Digest) -> Option<(SignIn, Duration)> {
        let now = self.now();
        let sign_in = *self.known().signed_in(token, now)?;
        let left = u64::try_from(sign_in.ends_at.millis() - now.millis()).unwrap_or_default();
        Some((sign_in, Duration::from_millis(left)))
    }

    /// Makes a key for `actor`: see [`create_key`].
    ///
    /// # Errors
    /// Those of [`create_key`]; the places of what is wrong begin with `body`.
    pub async fn create_key(self: &Arc<Self>, new: NewKey, actor: Actor) -> Result<(Key, String), Error> {
        let access = Arc::clone(self);
        // To its end: what is stored must be known here, too.
        detached(async move {
            let _turn = access.keyring.changing.lock().await;
            let (key, secret) = create_key(access.store.as_ref(), new, &actor).await.map_err(in_body)?;
            tracing::info!(key = key.name, scopes = ?key.scopes, by = actor.name(), "a key is made");
            access.keyring.change(|known| known.keys.push(key.clone()));
            Ok((key, secret))
        })
        .await
    }

    /// Revokes a key, by its id as the client wrote it, for `actor`; whoever signed in with it is signed out.
    ///
    /// # Errors
    /// [`Error::UnknownKey`].
    pub async fn revoke_key(self: &Arc<Self>, id: &str, actor: Actor) -> Result<(), Error> {
        let id: KeyId = id.parse().map_err(|_| Error::UnknownKey(id.to_owned()))?;
        let access = Arc::clone(self);
        detached(async move {
            let _turn = access.keyring.changing.lock().await;
            let now = access.now();
            let by = actor.clone();
            let revoked = access.store.transact(About::Access, move |tx| {
                let known = tx.keys()?.into_iter().find(|key| key.key_id == id);
                tx.revoke_key(id, now)?;
                known.map_or(Ok(()), |key| record(tx, deed(Action::KeyRevoked, &key, &by), now))
            });
            revoked.await?;
            access.keyring.change(|known| {
                for key in known.keys.iter_mut().filter(|key| key.key_id == id) {
                    tracing::info!(key = key.name, by = actor.name(), "a key is revoked");
                    key.revoked_at = Some(now);
                }
            });
            Ok(())
        })
        .await
    }

    /// Signs somebody in who has shown the key with this digest: the token of the cookie.
    ///
    /// # Errors
    /// The store's.
    pub async fn sign_in(self: &Arc<Self>, key: Digest, actor: Actor) -> Result<String, Error> {
        let token = access::secret("", clock::random()?);
        let now = self.now();
        let ends_at = now.plus_seconds(f64::from(SIGN_IN_SECONDS));
        let sign_in = SignIn { token: access::digest(token.as_bytes()), key, ends_at };
        let access = Arc::clone(self);
        detached(async move {
            let _turn = access.keyring.changing.lock().await;
            let by = actor.clone();
            let stored = access.store.transact(About::Access, move |tx| {
                tx.insert_sign_in(&sign_in)?;
                record(tx, Deed::new(Action::SignedIn).by(by.name(), by.address), now)
            });
            stored.await?;
            tracing::info!(by = actor.name(), "signed in");
            access.keyring.change(|known| {
                known.sign_ins.retain(|_, other| other.ends_at > now);
                known.sign_ins.insert(sign_in.token, sign_in);
            });
            Ok(token)
        })
        .await
    }

    /// Ends a sign-in, if there is one. Everybody may send cookies that are none: for those nothing is written, and no change of
    /// keys waits.
    ///
    /// # Errors
    /// The store's.
    pub async fn sign_out(self: &Arc<Self>, token: Digest) -> Result<(), Error> {
        let access = Arc::clone(self);
        let is_there = move |sign_ins: Vec<SignIn>| sign_ins.iter().any(|sign_in| sign_in.token == token);
        // Another server may just have kept one that is not known here.
        if !access.known().sign_ins.contains_key(&token)
            && !access.store.query(move |reader| reader.sign_ins().map(is_there)).await?
        {
            return Ok(());
        }
        detached(async move {
            let _turn = access.keyring.changing.lock().await;
            access.store.transact(About::Access, move |tx| tx.delete_sign_in(&token)).await?;
            // Whoever reads and waits looks at a change, and nothing has changed for them where nobody knew it here.
            if access.known().sign_ins.contains_key(&token) {
                access.keyring.change(|known| {
                    known.sign_ins.remove(&token);
                });
            }
            Ok(())
        })
        .await
    }
}

/// What `actor` did with a key.
fn deed(action: Action, key: &Key, actor: &Actor) -> Deed {
    let deed = Deed::new(action).by(actor.name(), actor.address).with("name", key.name.as_str());
    let scopes: Vec<&str> = key.scopes.iter().map(Scope::as_str).collect();
    deed.with("key_id", key.key_id.to_string()).with("scopes", scopes).with("groups", key.groups.clone())
}

/// Into the audit, in the transaction of what it tells.
fn record(tx: &mut dyn Transaction, deed: Deed, now: Timestamp) -> Result<(), Error> {
    tx.append_audit(deed, now)
}

fn in_body(error: Error) -> Error {
    match error {
        Error::InvalidRequest(errors) => {
            let under = |error: FieldError| error.under(&["body".into()]);
            Error::InvalidRequest(errors.into_iter().map(under).collect())
        }
        other => other,
    }
}
