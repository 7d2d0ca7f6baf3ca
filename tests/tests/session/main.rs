//! Sessions: what is fed, kept and fetched, and how to look into a run.

mod compare;
mod feeds;
mod handles;
mod models;
mod numerics;
mod recorded;
mod state;
mod trace;
