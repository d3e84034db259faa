//! Tests of the server as a client sees it: in process through the router, and over real connections.

pub mod access;
mod answers;
mod approving;
mod audit;
mod catalogue;
mod connections;
mod costs;
mod crowds;
mod document;
pub mod events;
mod fuzz;
mod golden;
mod guards;
mod journal;
mod lists;
mod matrix;
mod metrics;
mod rates;
mod retries;
mod revoking;
mod sessions;
pub mod sign_ins;
mod strict_json;
pub mod support;
mod triage;
mod ui;
