//! Compiled schemas, kept: an agent's tools are few, and people answer about the same ones all day.

use std::sync::Arc;

use serde_json::Value;

use crate::domain::Error;
use crate::domain::decision::{Forms, Terms};
use crate::domain::schema::{CompiledSchema, Validators};
use crate::store::kept::{Kept, KeptForms, Limits};

/// How many validators are kept, and of how many bytes of schemas; a validator weighs some times its schema, and its
/// patterns are counted besides.
const VALIDATORS: Limits = Limits { most: 256, bytes: 1024 * 1024 };

/// See the module.
#[derive(Debug)]
pub(in crate::engine) struct Schemas {
    validators: Kept<Arc<CompiledSchema>>,
    forms: KeptForms,
}

impl Default for Schemas {
    fn default() -> Self {
        Self { validators: Kept::new(VALIDATORS), forms: KeptForms::default() }
    }
}

impl Validators for Schemas {
    fn validator(&self, schema: &Value) -> Result<Arc<CompiledSchema>, Error> {
        self.validators.validator(schema)
    }
}

impl Forms for Schemas {
    fn form(&self, terms: Terms<'_>) -> Arc<Value> {
        self.forms.form(terms)
    }
}
