//! Addresses, and databases that are no store.

use super::support::Database;
use crate::store::open_error::{OpenError, ServerTrouble};
use crate::store::postgres::opening::{MIGRATIONS, NEWEST};
use crate::store::postgres::{PgAddress, PostgresBackend, migrating};

#[test]
fn a_password_is_shown_nowhere() {
    let text = "postgresql://ada:hunter2secret@db.example/hitl?sslmode=disable";
    let address: PgAddress = text.parse().unwrap();
    assert_eq!(address.to_string(), "postgresql://ada@db.example/hitl?sslmode=disable");
    assert!(!format!("{address:?} {address:#?}").contains("hunter2secret"));
    for wrong in ["postgresql://ada:hunter2secret@db/hitl?hunter2secret=1", "postgresql://ada:hunter2secret@db:x/y"] {
        let error = wrong.parse::<PgAddress>().unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hunter2secret"), "{wrong}");
        assert_eq!(error.code(), "store_address_invalid");
    }
}

#[test]
fn what_is_shown_of_an_address_leads_to_the_same_database() {
    for (text, shown) in [
        ("postgresql://ada:hunter2@db:5433/hitl", "postgresql://ada@db:5433/hitl"),
        ("postgresql://ada:a%40b:c@one,two/hitl?sslmode=disable", "postgresql://ada@one,two/hitl?sslmode=disable"),
        ("postgresql://ada@/hitl?host=/run/pg&password=hunter2", "postgresql://ada@/hitl?host=/run/pg"),
        ("postgres://db/hitl?password=hunter2", "postgres://db/hitl"),
        ("postgres://ada@db/hitl?pass%77ord=hunter2", "postgres://ada@db/hitl"),
        // The driver takes it for a password as it stands.
        ("postgresql://ada:hun/ter:2@db:5433/hitl", "postgresql://ada@db:5433/hitl"),
        ("postgresql://ada:hunter2@db", "postgresql://ada@db/"),
    ] {
        assert_eq!(text.parse::<PgAddress>().unwrap().to_string(), shown);
        assert!(shown.parse::<PgAddress>().is_ok(), "{shown}");
    }
}

#[test]
fn a_password_that_would_be_read_in_another_way_is_refused_and_not_shown() {
    for wrong in ["ada:hunter?2@db/hitl", "ada:hunter@2@db/hitl", "ada@hunter2@db", "db/hitl?application_name=hunter@2"]
    {
        let error = format!("postgresql://{wrong}").parse::<PgAddress>().unwrap_err();
        assert_eq!(error.code(), "store_address_invalid", "{wrong}");
        assert!(error.to_string().contains("is written %40") && !error.to_string().contains("hunter"), "{error}");
    }
    // What the driver never sees may hold one.
    let passfile = "postgresql://ada@db/hitl?passfile=/nowhere/a@b";
    assert!(passfile.parse::<PgAddress>().unwrap_err().to_string().contains("passfile cannot be read"));
}

#[tokio::test]
async fn the_password_may_be_in_a_file() {
    let database = Database::new().await;
    drop(database.client().await.batch_execute("CREATE ROLE guarded LOGIN PASSWORD 'right'").await);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pass:w+rds");
    std::fs::write(&file, "# of others\nelsewhere:*:*:*:wrong\n*:*:*:ada:wrong\nlocalhost:5432:*:guarded:r\\ight\n")
        .unwrap();
    let guarded = format!("{}&passfile={}", database.text().replace("postgres@", "guarded@"), file.display());
    // It is let in: what it may do there is another matter.
    assert_eq!(refusal(&guarded).await, ServerTrouble::NoPermission);
    let none = guarded.replace("guarded@", "ada@").replace("pass:w+rds", "nowhere");
    assert_eq!(none.parse::<PgAddress>().unwrap_err().code(), "store_address_invalid");
}

#[test]
fn what_leaves_the_machine_is_encrypted_unless_somebody_says_otherwise() {
    let is_encrypted = |text: &str| text.parse::<PgAddress>().unwrap().is_encrypted();
    assert!(is_encrypted("postgresql://ada@db.example/hitl"));
    assert!(is_encrypted("postgresql://ada@127.0.0.1,db.example/hitl"));
    assert!(is_encrypted("postgresql://ada@localhost/hitl?sslmode=verify-full"));
    assert!(!is_encrypted("postgresql://ada@localhost/hitl"));
    assert!(!is_encrypted("postgresql://ada@[::1]/hitl"));
    assert!(!is_encrypted("postgresql://ada@/hitl?host=/run/postgresql"));
    assert!(!is_encrypted("postgresql://ada@db.example/hitl?sslmode=disable"));
    // It would do without, when somebody between says so.
    assert!("postgresql://ada@db.example/hitl?sslmode=prefer".parse::<PgAddress>().is_err());
    assert!("mysql://ada@db.example/hitl".parse::<PgAddress>().is_err());
    assert!("postgresql://ada@db.example/hitl?sslrootcert=/nowhere.pem".parse::<PgAddress>().is_err());
}

async fn refusal(text: &str) -> ServerTrouble {
    match PostgresBackend::connect(&text.parse().unwrap()).await {
        Err(OpenError::Server { trouble, .. }) => trouble,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_from_a_server_that_is_not_there() {
    let database = Database::new().await;
    // Another test may make the user at the same moment.
    let made = database.client().await.batch_execute("CREATE ROLE guarded LOGIN PASSWORD 'right'").await;
    drop(made);
    let guarded = database.text().replace("postgres@", "guarded:hunter2secret@");
    let error = PostgresBackend::connect(&guarded.parse().unwrap()).await.err().unwrap();
    assert_eq!(error.code(), "store_wrong_password");
    assert!(!format!("{error:?} {error}").contains("hunter2secret"));
    assert_eq!(refusal(&database.text().replace(database.name(), "nowhere")).await, ServerTrouble::NoDatabase);
    let nobody = refusal("postgresql://ada@/hitl?host=/nowhere").await;
    assert!(matches!(nobody, ServerTrouble::Unreachable(_)), "{nobody:?}");
}

#[tokio::test]
async fn a_role_without_rights_is_told_how_it_gets_them() {
    let database = Database::new().await;
    drop(PostgresBackend::connect(&database.text().parse().unwrap()).await.unwrap());
    database.execute("CREATE ROLE stranger LOGIN").await;
    let stranger = database.text().replace("postgres@", "stranger@");
    for given in ["SELECT 1", "GRANT USAGE ON SCHEMA hitl TO stranger", "GRANT SELECT ON hitl.meta TO stranger"] {
        database.execute(given).await;
        let refused = refusal(&stranger).await;
        let ServerTrouble::Refused(why) = &refused else { panic!("{given}: {refused:?}") };
        assert!(why.contains("permission denied") && why.contains("hitl migrate --grants ROLE"), "{given}: {why}");
    }
}

#[tokio::test]
async fn what_would_not_keep_its_word_is_refused() {
    let database = Database::new().await;
    database.execute(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name())).await;
    assert_eq!(refusal(&database.text()).await, ServerTrouble::NotDurable("synchronous_commit"));
    // Nothing was made there.
    let there = database.client().await.query_one("SELECT to_regclass('hitl.meta')::text", &[]).await.unwrap();
    assert_eq!(there.get::<_, Option<String>>(0), None);
}

#[tokio::test]
async fn an_empty_schema_that_somebody_made_for_it_is_taken_by_whoever_may_make_none() {
    let database = Database::new().await;
    let role = format!("owner_of_{}", database.name());
    database.execute(&format!("CREATE ROLE {role} LOGIN; CREATE SCHEMA hitl AUTHORIZATION {role}")).await;
    let address: PgAddress = database.text().replace("postgres@", &format!("{role}@")).parse().unwrap();
    assert_eq!(migrating::schema(&address).await.unwrap().found, None);
    migrating::migrate(&address, None).await.unwrap();
    assert_eq!(migrating::schema(&address).await.unwrap().found, Some(NEWEST));
    database.execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_schema_that_is_not_ours_or_newer_is_refused() {
    for theirs in ["FUNCTION hitl.colour() RETURNS int RETURN 1", "TYPE hitl.colour AS ENUM ('red')"] {
        let database = Database::new().await;
        database.execute(&format!("CREATE SCHEMA hitl; CREATE {theirs}")).await;
        assert_eq!(refusal(&database.text()).await, ServerTrouble::ForeignSchema, "{theirs}");
    }
    let database = Database::new().await;
    database.execute("CREATE SCHEMA hitl; CREATE TABLE hitl.meta (colour text)").await;
    assert_eq!(refusal(&database.text()).await, ServerTrouble::ForeignSchema);
    let database = Database::new().await;
    database.store().await;
    database.execute("UPDATE hitl.meta SET schema = 99").await;
    assert_eq!(refusal(&database.text()).await, ServerTrouble::Newer { found: 99, known: NEWEST });
    database.execute("UPDATE hitl.meta SET schema = 0").await;
    assert_eq!(refusal(&database.text()).await, ServerTrouble::Older { found: 0, known: NEWEST });
}

#[tokio::test]
async fn servers_that_start_at_once_make_one_schema() {
    let database = Database::new().await;
    let address = database.address();
    let all = futures_util::future::join_all((0..6).map(|_| PostgresBackend::connect(&address))).await;
    let stores: Vec<PostgresBackend> = all.into_iter().map(Result::unwrap).collect();
    assert_eq!(stores.len(), 6);
    assert_eq!(database.count("meta").await, 1);
}

#[tokio::test]
async fn who_upgrades_at_once_with_others_is_told_of_no_trouble() {
    for found in 1..MIGRATIONS.len() {
        let database = Database::new().await;
        database.execute(&format!("BEGIN; {} COMMIT", MIGRATIONS[..found].concat())).await;
        let address = database.address();
        let all = futures_util::future::join_all((0..6).map(|_| migrating::migrate(&address, None))).await;
        for migrated in all {
            assert_eq!(migrated.unwrap().newest, NEWEST, "from {found}");
        }
    }
}

#[tokio::test]
async fn a_schema_that_cannot_be_looked_at_is_not_said_to_be_anothers() {
    let database = Database::new().await;
    database.store().await;
    let other = database.client().await;
    other.batch_execute("BEGIN; LOCK TABLE hitl.meta").await.unwrap();
    let refused = refusal(&database.text()).await;
    assert!(matches!(&refused, ServerTrouble::Unreachable(why) if why.contains("lock timeout")), "{refused:?}");
}

#[test]
fn a_pooler_is_one_that_lends_connections_for_a_transaction() {
    let address: PgAddress = "postgresql://ada@db:6432/hitl?pooler=transaction".parse().unwrap();
    assert!(address.is_pooled());
    assert_eq!(address.to_string(), "postgresql://ada@db:6432/hitl?pooler=transaction");
    assert!(!"postgresql://ada@db:6432/hitl".parse::<PgAddress>().unwrap().is_pooled());
    for wrong in ["session", "statement", ""] {
        let error = format!("postgresql://ada@db:6432/hitl?pooler={wrong}").parse::<PgAddress>().unwrap_err();
        assert!(error.to_string().contains("pooler is transaction"), "{error}");
    }
}
