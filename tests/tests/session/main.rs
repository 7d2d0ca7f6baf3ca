//! Sessions: what is fed, kept and fetched, and how to look into a run.

mod compare;
mod feeds;
mod models;
mod modules;
mod numerics;
mod panics;
mod recorded;
mod state;
mod trace;
