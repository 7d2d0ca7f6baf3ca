//! The laws that can be read off the sources.

mod files;
mod functions;
mod rooms;
mod sources;
