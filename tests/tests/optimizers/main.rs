//! Optimizers: trajectories against numbers computed elsewhere, on one processor and on layouts that
//! split, shard state (ZeRO) and shard parameters (FSDP); what they keep; what they refuse.

mod anchors;
mod by_name;
mod clipping;
mod config;
mod delayed;
mod harness;
mod schedules;
mod slots;
mod trajectories;
