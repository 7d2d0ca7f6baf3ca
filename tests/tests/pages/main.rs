//! Pages and printed programs that are generated from the code, and programs on pages.
//! `UPDATE_DOCS=1 cargo test -p tests --test pages` writes the pages.

mod builders;
mod catalogue;
mod clusters;
mod goldens;
mod layouts_page;
mod lines;
mod mistakes;
mod ops_table;
mod optimizers_table;
mod own_crate;
mod parity;
mod pasted;
mod peers;
mod printed;
