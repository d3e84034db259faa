//! Tests of the server as a client sees it: in process through the router, and over real connections.

mod access;
mod answers;
mod audit;
mod catalogue;
mod connections;
mod document;
mod events;
mod guards;
mod holds;
mod journal;
mod lists;
mod metrics;
mod retries;
mod sessions;
mod support;
mod ui;
