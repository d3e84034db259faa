//! Parameters of statements, each with the type that the database has for it.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// A parameter of a statement.
pub(super) type Param = Box<dyn SqlParam>;

/// A value that says what it is to the database: what is not prepared cannot ask first.
pub(super) trait SqlParam: Send + Sync {
    /// As the driver takes it.
    fn value(&self) -> &(dyn ToSql + Sync);
    /// What it is to the database.
    fn sql_type(&self) -> Type;
}

macro_rules! params_of {
    ($($rust:ty => $scalar:ident, $array:ident;)*) => {
        $(
            params_of!(@ $rust => $scalar);
            params_of!(@ Option<$rust> => $scalar);
            params_of!(@ Vec<$rust> => $array);
            params_of!(@ Vec<Option<$rust>> => $array);
        )*
    };
    (@ $rust:ty => $sql:ident) => {
        impl SqlParam for $rust {
            fn value(&self) -> &(dyn ToSql + Sync) {
                self
            }

            fn sql_type(&self) -> Type {
                Type::$sql
            }
        }
    };
}

params_of! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    String => TEXT, TEXT_ARRAY;
    &'static str => TEXT, TEXT_ARRAY;
    Uuid => UUID, UUID_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
}
