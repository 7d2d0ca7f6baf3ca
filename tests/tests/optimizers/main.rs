//! Optimizers: trajectories that other programs computed, on one processor and on layouts that
//! split, shard state (ZeRO) and shard parameters (FSDP); slots; errors.

mod anchors;
mod any_layout;
mod by_name;
mod changing;
mod clipping;
mod config;
mod curvature;
mod delayed;
mod harness;
mod listed;
mod muon;
mod named;
mod peers;
mod problem;
mod ranges;
mod schedules;
mod schemes;
mod shared;
mod slots;
mod trajectories;
mod wrappers;
mod wrappers_config;
