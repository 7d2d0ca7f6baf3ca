//! Products by tiles: sums of a few rows by one or two vectors, held in registers.
//!
//! `to[row][lane] = sum over t of rows[row][t] * b[t][lane]`, where the `b[t]` are packed next to each
//! other. The elements of a row are read where they lie, or packed where memory runs along columns: no zeros are multiplied.
//! A row of two vectors needs one element for two products, so the loads stay below what a core can do.

mod pack;
mod product;
mod rows;
mod set;
mod tile;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(super) use pack::pack_panel;
pub(super) use product::{Planned, TileProduct};
pub(super) use set::{Tiled, Tiles};
pub(super) use tile::{MOST, Run, Tile};
