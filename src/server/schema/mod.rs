//! Schemas of what the layers below hand out and take, for the OpenAPI document: what goes over the wire is the server's to
//! say, and nothing below it knows of the document. A test holds that each says what serde writes.

mod records;
mod words;

#[cfg(test)]
mod tests;

/// Gives a type of a layer below the schema of another one here, which has its name and its members.
macro_rules! shown_as {
    ($($of:path => $shown:ident,)+) => {$(
        impl utoipa::PartialSchema for $of {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                <$shown as utoipa::PartialSchema>::schema()
            }
        }

        impl utoipa::ToSchema for $of {
            fn schemas(
                schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>,
            ) {
                <$shown as utoipa::ToSchema>::schemas(schemas);
            }
        }
    )+};
}
use shown_as;
