//! What a mixture of experts computes, token by token.

use super::meanings::{logsumexp, share};
use mesh_ops::testing::{At, Dense};

/// A token: its place, what it holds, and how much it counts.
struct Token {
    x: Vec<f64>,
    importance: f64,
}

/// Tokens that share the places of experts, and the router's weights for them.
struct Group {
    tokens: Vec<Token>,
    /// By index of the model and of the expert.
    router: Box<dyn Fn(usize, usize) -> f64>,
}

/// One way of a token.
struct Way {
    expert: usize,
    place: usize,
    gate: f64,
    second: bool,
}

/// How groups of tokens go to experts.
pub struct Routes {
    /// By group and token.
    ways: Vec<Vec<Vec<Way>>>,
    /// Both losses.
    losses: f64,
}

/// Top one, or top two if the second's part of both gates is above the threshold.
pub struct Rules {
    pub experts: usize,
    pub capacity: usize,
    pub second_above: Option<f64>,
}

impl Rules {
    fn route(&self, groups: &[Group]) -> Routes {
        let (mut balance, mut squares, mut sent) = (0.0, 0.0, 0.0);
        let mut ways = Vec::new();
        for group in groups {
            let count = group.tokens.len() as f64;
            let (mut first_share, mut gate_mean) =
                (vec![0.0; self.experts], vec![0.0; self.experts]);
            let mut taken = vec![0; self.experts];
            let mut of_group: Vec<Vec<Way>> = group.tokens.iter().map(|_| Vec::new()).collect();
            let mut later = Vec::new();
            for (t, token) in group.tokens.iter().enumerate() {
                let logit = |e: usize| -> f64 {
                    token.x.iter().enumerate().map(|(m, x)| x * (group.router)(m, e)).sum()
                };
                let logits: Vec<_> = (0..self.experts).map(logit).collect();
                let gates: Vec<_> = logits.iter().map(|l| share(&logits, *l, None)).collect();
                let mut order: Vec<usize> = (0..self.experts).collect();
                order.sort_by(|&a, &b| gates[b].total_cmp(&gates[a]));
                let (first, next) = (order[0], order[1]);
                if token.importance > 0.0 {
                    squares += logsumexp(&logits).powi(2);
                    sent += 1.0;
                }
                if token.importance >= 1.0 {
                    first_share[first] += 1.0 / count;
                    (0..self.experts).for_each(|e| gate_mean[e] += gates[e] / count);
                }
                let both = gates[first] + gates[next];
                let part = |gate: f64| if self.second_above.is_some() { gate / both } else { gate };
                if token.importance > 0.0 {
                    self.send(&mut taken, &mut of_group[t], first, part(gates[first]), false);
                }
                let wanted = self.second_above.is_some_and(|least| gates[next] / both > least);
                if wanted && token.importance >= 1.0 {
                    later.push((t, next, gates[next] / both));
                }
            }
            for (t, expert, gate) in later {
                self.send(&mut taken, &mut of_group[t], expert, gate, true);
            }
            let products = first_share.iter().zip(&gate_mean).map(|(a, b)| a * b);
            balance += products.sum::<f64>() * self.experts as f64 / groups.len() as f64;
            ways.push(of_group);
        }
        Routes { ways, losses: balance + squares / sent }
    }

    fn send(
        &self,
        taken: &mut [usize],
        ways: &mut Vec<Way>,
        expert: usize,
        gate: f64,
        second: bool,
    ) {
        let place = taken[expert];
        if place < self.capacity {
            ways.push(Way { expert, place, gate, second });
            taken[expert] += 1;
        }
    }
}

/// Adds to `y` so much of another.
fn add(y: &mut [f64], part: f64, of: &[f64]) {
    y.iter_mut().zip(of).for_each(|(y, of)| *y += part * of);
}

/// `tanh(x wi) wo` of an expert, over model:2 and hidden:2.
fn expert(at: &At, x: &[f64], wi: &Dense, wo: &Dense) -> Vec<f64> {
    let hidden = |h: usize| {
        let at = at.with("hidden", h);
        (0..2).map(|m| x[m] * wi.at(&at.with("model", m))).sum::<f64>().tanh()
    };
    let hidden = [hidden(0), hidden(1)];
    let out = |m: usize| {
        let at = at.with("model", m);
        (0..2).map(|h| hidden[h] * wo.at(&at.with("hidden", h))).sum()
    };
    vec![out(0), out(1)]
}

fn tokens(x: &Dense) -> Vec<Vec<Token>> {
    let token = |batch: usize, length: usize| {
        let at = At::default().with("batch", batch).with("length", length);
        let x = (0..2).map(|m| x.at(&at.with("model", m))).collect();
        Token { x, importance: 1.0 }
    };
    (0..2).map(|batch| (0..4).map(|length| token(batch, length)).collect()).collect()
}

/// Results by group and token, with the losses added to every element.
fn with_losses(x: &Dense, y: &[Vec<Vec<f64>>], losses: f64) -> Dense {
    Dense::each(&x.ty, |at| y[at.along("batch")][at.along("length")][at.along("model")] + losses)
}

/// Of x, the router, wi and wo; a group for each of batch:2, with length:4 tokens.
pub fn mixture(rules: &Rules, x: &[&Dense]) -> Dense {
    let router = x[1].clone();
    let group = |tokens| {
        let router = router.clone();
        let weight =
            move |m, e| router.at(&At::default().with("model", m).with("experts_whole", e));
        Group { tokens, router: Box::new(weight) }
    };
    let groups: Vec<_> = tokens(x[0]).into_iter().map(group).collect();
    let routes = rules.route(&groups);
    let of_token = |token: &Token, ways: &Vec<Way>| {
        let mut y = vec![0.0; 2];
        for way in ways {
            let at = At::default().with("experts", way.expert);
            add(&mut y, way.gate, &expert(&at, &token.x, x[2], x[3]));
        }
        y
    };
    let of_group = |(group, ways): (&Group, &Vec<Vec<Way>>)| -> Vec<Vec<f64>> {
        group.tokens.iter().zip(ways).map(|(token, ways)| of_token(token, ways)).collect()
    };
    let y: Vec<_> = groups.iter().zip(&routes.ways).map(of_group).collect();
    with_losses(x[0], &y, routes.losses)
}

/// Of x, the outer router, the inner one, wi and wo: what an outer expert is sent, it routes among inner
/// experts of its own.
pub fn hierarchy(outer: &Rules, inner: &Rules, x: &[&Dense]) -> Dense {
    let router = x[1].clone();
    let group = |tokens| {
        let router = router.clone();
        let weight = move |m, e| router.at(&At::default().with("model", m).with("outer_whole", e));
        Group { tokens, router: Box::new(weight) }
    };
    let groups: Vec<_> = tokens(x[0]).into_iter().map(group).collect();
    let there = outer.route(&groups);
    // By outer expert and group: the places, empty ones of zeros that do not count.
    let mut sent = Vec::new();
    for o in 0..outer.experts {
        for (group, ways) in groups.iter().zip(&there.ways) {
            let empty = || Token { x: vec![0.0; 2], importance: 0.0 };
            let mut places: Vec<_> = (0..outer.capacity).map(|_| empty()).collect();
            for (token, ways) in group.tokens.iter().zip(ways) {
                for way in ways.iter().filter(|way| way.expert == o) {
                    let importance = if way.second { 0.5 } else { 1.0 };
                    places[way.place] = Token { x: token.x.clone(), importance };
                }
            }
            let router = x[2].clone();
            let weight = move |m, e| {
                let at = At::default().with("outer", o).with("model", m);
                router.at(&at.with("inner_whole", e))
            };
            sent.push(Group { tokens: places, router: Box::new(weight) });
        }
    }
    let here = inner.route(&sent);
    let result = |o: usize, g: usize, place: usize| {
        let number = o * groups.len() + g;
        let mut y = vec![0.0; 2];
        for way in &here.ways[number][place] {
            let at = At::default().with("outer", o).with("inner", way.expert);
            add(&mut y, way.gate, &expert(&at, &sent[number].tokens[place].x, x[3], x[4]));
        }
        y
    };
    let of_token = |g: usize, ways: &Vec<Way>| {
        let mut y = vec![0.0; 2];
        ways.iter().for_each(|way| add(&mut y, way.gate, &result(way.expert, g, way.place)));
        y
    };
    let of_group = |(g, ways): (usize, &Vec<Vec<Way>>)| -> Vec<Vec<f64>> {
        ways.iter().map(|ways| of_token(g, ways)).collect()
    };
    let y: Vec<_> = there.ways.iter().enumerate().map(of_group).collect();
    with_losses(x[0], &y, there.losses + here.losses)
}
