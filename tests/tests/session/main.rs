//! Sessions: feeds, variables, fetches, and finding errors.

mod compare;
mod feeds;
mod handles;
mod models;
mod modules;
mod numerics;
mod panics;
mod recorded;
mod serving;
mod state;
mod trace;
