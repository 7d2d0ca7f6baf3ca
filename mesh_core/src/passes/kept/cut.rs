//! The cheapest cut of a network, by the most that flows through it: Edmonds and Karp, "Theoretical Improvements in
//! Algorithmic Efficiency for Network Flow Problems" (1972), section 1.2.

use std::collections::VecDeque;

/// The cost of an edge that no cut crosses.
pub(super) const NEVER: u64 = 1 << 60;

/// Nodes with edges between them, of which each costs something to be cut.
pub(super) struct Network {
    /// Per node, its edges.
    edges: Vec<Vec<usize>>,
    /// Each edge stands beside its opposite: where it leads, and what may flow through it still.
    to: Vec<(usize, u64)>,
}

impl Network {
    pub(super) fn new(nodes: usize) -> Self {
        Self { edges: vec![Vec::new(); nodes], to: Vec::new() }
    }

    pub(super) fn edge(&mut self, from: usize, to: usize, cost: u64) {
        for (from, to, cost) in [(from, to, cost), (to, from, 0)] {
            self.edges[from].push(self.to.len());
            self.to.push((to, cost));
        }
    }

    /// Per node, whether it is on the side of `source` if the cheapest edges are cut that part it from `sink`.
    pub(super) fn cut(mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let reached = self.reached(source);
            if reached[sink].is_none() {
                return reached.iter().map(Option::is_some).collect();
            }
            let mut path = Vec::new();
            let mut node = sink;
            while let Some(edge) = reached[node].filter(|_| node != source) {
                path.push(edge);
                node = self.to[edge ^ 1].0;
            }
            let flow = path.iter().map(|&edge| self.to[edge].1).min().unwrap_or(0);
            for edge in path {
                self.to[edge].1 -= flow;
                self.to[edge ^ 1].1 += flow;
            }
        }
    }

    /// Per node that is reached from `source`, by which edge, in the fewest steps.
    fn reached(&self, source: usize) -> Vec<Option<usize>> {
        let mut by = vec![None; self.edges.len()];
        by[source] = Some(usize::MAX);
        let mut ahead = VecDeque::from([source]);
        while let Some(node) = ahead.pop_front() {
            for &edge in &self.edges[node] {
                let (to, left) = self.to[edge];
                if left > 0 && by[to].is_none() {
                    by[to] = Some(edge);
                    ahead.push_back(to);
                }
            }
        }
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NODES: usize = 7;

    /// What it costs to cut all edges from one side to the other.
    fn cost(edges: &[(usize, usize, u64)], side: &[bool]) -> u64 {
        edges.iter().filter(|(from, to, _)| side[*from] && !side[*to]).map(|edge| edge.2).sum()
    }

    proptest! {
        #[test]
        fn no_other_cut_is_cheaper(
            edges in prop::collection::vec((0..NODES, 0..NODES, 0..20_u64), 1..20),
        ) {
            let mut network = Network::new(NODES);
            edges.iter().for_each(|&(from, to, cost)| network.edge(from, to, cost));
            let found = network.cut(0, NODES - 1);
            prop_assert!(found[0] && !found[NODES - 1]);
            let sides = (0..1_usize << (NODES - 2)).map(|bits| -> Vec<bool> {
                let inner = (0..NODES - 2).map(|node| bits >> node & 1 == 1);
                std::iter::once(true).chain(inner).chain([false]).collect()
            });
            let least = sides.map(|side| cost(&edges, &side)).min();
            prop_assert_eq!(Some(cost(&edges, &found)), least);
        }
    }
}
