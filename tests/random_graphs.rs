//! random_graphs
