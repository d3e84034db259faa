//! Where a Postgres is, and how it is reached.

use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::{PATIENCE, described};
use crate::store::open_error::OpenError;

/// How long TCP waits for an acknowledgement, and how soon it asks whether anybody is there.
const TCP_PATIENCE: Duration = Duration::from_secs(5);

/// The address of a Postgres: `postgresql://USER:PASSWORD@HOST/DATABASE`. It is never shown with its password, which
/// `passfile` may name a file for, in the form of PostgreSQL's own.
///
/// `sslmode` is `disable`, `require`, `verify-ca` or `verify-full`; all but the first check the server's certificate and name
/// (by `sslrootcert`, or as the machine does), and that is what holds where nothing is said, but for Unix sockets and
/// loopback. What only looks for encryption is no mode of ours: whoever stands between takes it away. `sslcert` and `sslkey`
/// are what the server asks for where it lets in by certificate.
///
/// `pooler=transaction` says that it is the address of a pooler, which gives each transaction another connection.
#[derive(Clone)]
pub struct PgAddress {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    is_pooled: bool,
    shown: String,
}

impl PartialEq for PgAddress {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config && self.shown == other.shown
    }
}

impl Eq for PgAddress {}

impl fmt::Debug for PgAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgAddress({self})")
    }
}

impl fmt::Display for PgAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl FromStr for PgAddress {
    type Err = OpenError;

    fn from_str(address: &str) -> Result<Self, OpenError> {
        let (text, options) = OwnOptions::taken_from(address)?;
        check_credentials(&text)?;
        // What the driver says may repeat a part of the address.
        let mut config: Config = text
            .parse()
            .map_err(|_| invalid("it is not postgresql://USER@HOST/DATABASE with options that are known"))?;
        config
            .application_name("hitl")
            .connect_timeout(PATIENCE)
            .tcp_user_timeout(TCP_PATIENCE)
            .keepalives_idle(TCP_PATIENCE);
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(invalid("it has no host"));
        }
        if config.get_hosts().len().max(config.get_hostaddrs().len()) > 1 {
            // Of several servers one is the primary; what a standby tells may be of the past.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let is_encrypted = options.is_encrypted.unwrap_or_else(|| !is_near(&config));
        config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
        if let Some(path) = &options.passfile
            && let Some(password) = password_from(path, &config)?
        {
            config.password(password);
        }
        let tls = if is_encrypted { Some(tls(&options)?) } else { None };
        Ok(Self { config, tls, is_pooled: options.is_pooled, shown: shown(address) })
    }
}

impl PgAddress {
    /// Connects. What the server says meanwhile is read by a task of its own.
    pub(super) async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tokio::spawn(watched(connection));
                Ok(client)
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(watched(connection));
                Ok(client)
            }
        }
    }

    /// Connects for somebody who listens: `heard` gets the payload of each notification, and ends with the connection.
    pub(super) async fn connect_to_hear(
        &self,
        heard: UnboundedSender<String>,
    ) -> Result<Client, tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tokio::spawn(heard_on(connection, heard));
                Ok(client)
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(heard_on(connection, heard));
                Ok(client)
            }
        }
    }

    /// Ends what a connection that nobody waits for any more is at, where that can still be reached.
    pub(super) fn cancel(&self, token: CancelToken) {
        let tls = self.tls.clone();
        tokio::spawn(async move {
            let cancelled = async {
                match tls {
                    Some(tls) => token.cancel_query(tls).await,
                    None => token.cancel_query(NoTls).await,
                }
            };
            match timeout(PATIENCE, cancelled).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(error = described(&error), "a batch could not be cancelled"),
                Err(_) => tracing::debug!("a batch could not be cancelled in time"),
            }
        });
    }

    /// Whether each transaction has another connection to the database: what one leaves in it, prepared statements and who
    /// listens, is not there for the next, or is somebody else's.
    pub(super) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Whether what goes there is encrypted.
    #[cfg(test)]
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }
}

async fn heard_on<S, T>(mut connection: tokio_postgres::Connection<S, T>, heard: UnboundedSender<String>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(told))) => {
                if heard.send(told.payload().to_owned()).is_err() {
                    return;
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(error = described(&error), "a connection to the database has ended");
                return;
            }
            None => return,
        }
    }
}

async fn watched(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    if let Err(error) = connection.await {
        tracing::debug!(error = described(&error), "a connection to the database has ended");
    }
}

/// The driver takes all before the first `@` for the user and the password, whatever else stands there. Refuses what would make it
/// take something else than is meant, and so hide or show it at the wrong place.
fn check_credentials(text: &str) -> Result<(), OpenError> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let Some((credentials, place)) = rest.split_once('@') else { return Ok(()) };
    if credentials.contains('?') {
        return Err(invalid("in a user or password ? is written %3F, and in an option @ is written %40"));
    }
    match place.split(['/', '?']).next() {
        Some(hosts) if hosts.contains('@') => Err(invalid("in a user or password @ is written %40")),
        _ => Ok(()),
    }
}

fn invalid(why: &str) -> OpenError {
    OpenError::InvalidAddress(why.to_owned())
}

/// What the driver does not know of.
#[derive(Default)]
struct OwnOptions {
    is_encrypted: Option<bool>,
    root: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    passfile: Option<PathBuf>,
    is_pooled: bool,
}

impl OwnOptions {
    /// The address without them.
    fn taken_from(text: &str) -> Result<(String, Self), OpenError> {
        if !(text.starts_with("postgresql://") || text.starts_with("postgres://")) {
            return Err(invalid("it does not begin with postgresql://"));
        }
        let Some((address, query)) = text.split_once('?') else { return Ok((text.to_owned(), Self::default())) };
        let mut options = Self::default();
        let mut others = Vec::new();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("sslmode", "disable")) => options.is_encrypted = Some(false),
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => options.is_encrypted = Some(true),
                Some(("sslmode", _)) => {
                    return Err(invalid("sslmode is one of disable, require, verify-ca and verify-full"));
                }
                Some(("pooler", "transaction")) => options.is_pooled = true,
                Some(("pooler", _)) => return Err(invalid("pooler is transaction, where it is said at all")),
                Some((name @ ("sslrootcert" | "sslcert" | "sslkey" | "passfile"), path)) => {
                    // As in all of an address, and unlike in a form, a plus is one.
                    let pair = pair.replace('+', "%2B");
                    let path =
                        url::form_urlencoded::parse(pair.as_bytes()).next().map_or(path.into(), |(_, path)| path);
                    let place = match name {
                        "sslrootcert" => &mut options.root,
                        "sslcert" => &mut options.certificate,
                        "sslkey" => &mut options.key,
                        _ => &mut options.passfile,
                    };
                    *place = Some(PathBuf::from(path.as_ref()));
                }
                _ => others.push(pair),
            }
        }
        Ok((format!("{address}?{}", others.join("&")), options))
    }
}

/// The password for an address, of a file as PostgreSQL's own programs read it: `host:port:database:user:password` in each
/// line, `*` for any, a backslash before a colon or backslash that is meant. `None` where no line fits.
fn password_from(path: &Path, config: &Config) -> Result<Option<String>, OpenError> {
    let text = std::fs::read_to_string(path).map_err(|error| invalid(&format!("passfile cannot be read: {error}")))?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(_)) | None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or("postgres");
    let wanted = [&host, &port, config.get_dbname().unwrap_or(user), user];
    let fits = |fields: &[String]| fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(fields);
    Ok(lines.filter(|fields| fields.len() == 5 && fits(fields)).find_map(|mut fields| fields.pop()))
}

/// What is between the first four colons of a line, and what comes after.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let is_last = fields.len() == 5;
        match (letter, fields.last_mut()) {
            (':', _) if !is_last => fields.push(String::new()),
            ('\\', Some(field)) => field.extend(letters.next()),
            (letter, Some(field)) => field.push(letter),
            (_, None) => {}
        }
    }
    fields
}

/// Whether nothing of it leaves this machine.
fn is_near(config: &Config) -> bool {
    let is_near_host = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    };
    config.get_hosts().iter().all(is_near_host) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

fn tls(options: &OwnOptions) -> Result<MakeRustlsConnect, OpenError> {
    let failed = |what: &str, why: &dyn fmt::Display| invalid(&format!("{what}: {why}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed("TLS cannot be set up", &error))?;
    let builder = match &options.root {
        None => builder.with_platform_verifier().map_err(|error| failed("TLS cannot be set up", &error))?,
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("sslrootcert", path)? {
                roots.add(certificate).map_err(|error| failed("sslrootcert cannot be read", &error))?;
            }
            builder.with_root_certificates(roots)
        }
    };
    let config = match (&options.certificate, &options.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed("sslkey cannot be read", &error))?;
            builder
                .with_client_auth_cert(certificates("sslcert", certificate)?, key)
                .map_err(|error| failed("sslcert and sslkey are of no use", &error))?
        }
        _ => return Err(invalid("sslcert and sslkey are given together")),
    };
    Ok(MakeRustlsConnect::new(config))
}

/// What is in a file of certificates, one at least.
fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let unreadable = |why: &dyn fmt::Display| invalid(&format!("{option} cannot be read: {why}"));
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| unreadable(&error))?;
    if found.is_empty() { Err(unreadable(&"there is no certificate in it")) } else { Ok(found) }
}

/// The address without its password.
fn shown(text: &str) -> String {
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgresql", address));
    let whose = match rest.split_once('@') {
        Some((user, place)) => format!("{}@{place}", user.split(':').next().unwrap_or_default()),
        None => rest.to_owned(),
    };
    let whose = if whose.contains('/') { whose } else { format!("{whose}/") };
    let is_password =
        |pair: &&str| url::form_urlencoded::parse(pair.as_bytes()).next().is_some_and(|(name, _)| name == "password");
    let options: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty() && !is_password(pair)).collect();
    let query = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    format!("{scheme}://{whose}{query}")
}
