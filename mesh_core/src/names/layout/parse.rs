//! The grammar of layout strings.

use std::str::FromStr;

use indexmap::IndexSet;

use super::super::check::check_name;
use super::super::dimension::DimName;
use super::super::text::{Piece, number};
use super::{Layout, LayoutError, Owner, Rule, RuleDim, RuleSet};

impl FromStr for Layout {
    type Err = LayoutError;

    /// Reads `batch:rows;hidden:cols`: rules between any of `; , .` and whitespace, each
    /// `[params/|slots/]dim:axis[+axis...][@owner]`. The dim is a name or, after `params/`
    /// or `slots/`, `*`; the owner, after `*` and one axis, is a coordinate or `each`.
    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let (mut rules, mut known) = (Vec::new(), IndexSet::new());
        for piece in Piece::new(text).pairs() {
            let rule = parse_rule(piece)?;
            if !known.insert((rule.set, rule.dim.clone())) {
                let dim = format!("{}{}", rule.set, rule.dim);
                return Err(LayoutError::RepeatedRule { dim, at: piece.excerpt() });
            }
            rules.push(rule);
        }
        Ok(Self { rules })
    }
}

fn parse_rule(piece: Piece<'_>) -> Result<Rule, LayoutError> {
    let no_axis = || LayoutError::NoAxis { rule: piece.text().to_owned(), at: piece.excerpt() };
    let (left, right) = piece.split_once(':').ok_or_else(no_axis)?;
    if right.text().is_empty() {
        return Err(no_axis());
    }
    let (set, dim) = parse_dim(left)?;
    let (list, owner) = match right.split_once('@') {
        Some((list, owner)) => (list, Some(owner)),
        None => (right, None),
    };
    let axes = parse_axes(list)?;
    let owner = owner.map(|owner| parse_owner(owner, &dim, list)).transpose()?;
    Ok(Rule { set, dim, axes, owner })
}

fn parse_dim(piece: Piece<'_>) -> Result<(RuleSet, RuleDim), LayoutError> {
    let (set, dim) = match piece.split_once('/') {
        None => (RuleSet::Compute, piece),
        Some((set, dim)) => match set.text() {
            "params" => (RuleSet::Params, dim),
            "slots" => (RuleSet::Slots, dim),
            other => {
                let (found, at) = (other.to_owned(), set.excerpt());
                return Err(LayoutError::UnknownSet { found, at });
            }
        },
    };
    match (set, dim.text()) {
        (RuleSet::Compute, "*") => Err(LayoutError::PlainStar { at: dim.excerpt() }),
        (_, "*") => Ok((set, RuleDim::Largest)),
        (_, name) => {
            checked(dim)?;
            Ok((set, RuleDim::Named(DimName::new(name))))
        }
    }
}

fn parse_axes(list: Piece<'_>) -> Result<Vec<String>, LayoutError> {
    let (mut axes, mut known) = (Vec::new(), IndexSet::new());
    for piece in list.split('+') {
        checked(piece)?;
        let axis = piece.text().to_owned();
        if !known.insert(piece.text()) {
            return Err(LayoutError::RepeatedAxis { axis, at: piece.excerpt() });
        }
        axes.push(axis);
    }
    Ok(axes)
}

fn parse_owner(piece: Piece<'_>, dim: &RuleDim, axes: Piece<'_>) -> Result<Owner, LayoutError> {
    let owner = piece.text().to_owned();
    if *dim != RuleDim::Largest {
        return Err(LayoutError::OwnerOfDim { owner, at: piece.excerpt() });
    }
    if axes.split('+').count() != 1 {
        return Err(LayoutError::OwnerOverAxes { owner, at: axes.excerpt() });
    }
    match number(&owner) {
        Some(coordinate) => Ok(Owner::At(coordinate)),
        None if owner == "each" => Ok(Owner::Each),
        None => Err(LayoutError::BadOwner { owner, at: piece.excerpt() }),
    }
}

fn checked(name: Piece<'_>) -> Result<(), LayoutError> {
    check_name(name.text()).map_err(|problem| LayoutError::BadName { problem, at: name.excerpt() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(text: &str) -> Layout {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Layout>().unwrap_err().to_string()
    }

    #[test]
    fn any_mixture_of_separators() {
        let expected = layout("d_ff:model;heads:model");
        assert_eq!(expected.rules().len(), 2);
        for text in
            ["d_ff:model,heads:model", "d_ff:model.heads:model", " d_ff:model\n heads:model;"]
        {
            assert_eq!(layout(text), expected);
        }
        assert_eq!(layout(""), Layout::default());
        assert_eq!(expected.to_string(), "d_ff:model;heads:model");
    }

    #[test]
    fn a_rule_in_full() {
        let rules = layout("batch:host+local; params/*:data@each; slots/*:data@3 slots/h:m").rules;
        let star = |set, owner| Rule {
            set,
            dim: RuleDim::Largest,
            axes: vec!["data".into()],
            owner: Some(owner),
        };
        assert_eq!(rules[0].axes, ["host", "local"]);
        assert_eq!(rules[1], star(RuleSet::Params, Owner::Each));
        assert_eq!(rules[2], star(RuleSet::Slots, Owner::At(3)));
        assert_eq!((rules[3].set, &rules[3].dim), (RuleSet::Slots, &RuleDim::Named("h".into())));
    }

    #[test]
    fn what_is_wrong_with_a_string() {
        let table = [
            (
                "d_ff;heads",
                "the rule `d_ff` names no mesh axis: write `dim:axis`, without spaces around `:`\n  \
                 d_ff;heads\n  ^^^^",
            ),
            (
                "a:x; batch: rows",
                "the rule `batch:` names no mesh axis: write `dim:axis`, without spaces around \
                 `:`\n  a:x; batch: rows\n       ^^^^^^",
            ),
            (
                "a:b:c",
                "the name `b:c` holds ':': names hold none of `: ; , . + * / @` or whitespace\n  \
                 a:b:c\n    ^^^",
            ),
            ("a:x+", "a name is missing: names need at least one character\n  a:x+\n      ^"),
            (
                "param/h:x",
                "there is no rule set `param/`: write `params/`, `slots/`, or nothing for a plain \
                 rule\n  param/h:x\n  ^^^^^",
            ),
            (
                "*:x",
                "`*` stands for a variable's largest dim: write `params/*` or `slots/*`\n  *:x\n  ^",
            ),
            (
                "params/h:x@0",
                "an owner holds whole variables: `@0` goes with `params/*` or \
                 `slots/*`\n  params/h:x@0\n             ^",
            ),
            (
                "params/*:x+y@0",
                "an owner is a coordinate along one axis: `@0` goes with exactly one axis\n  \
                 params/*:x+y@0\n           ^^^",
            ),
            (
                "params/*:x@all",
                "`all` is not an owner: write a coordinate, as in `@0`, or `@each`\n  \
                 params/*:x@all\n             ^^^",
            ),
            (
                "h:x+y+x",
                "`x` is listed twice: a dim is split over an axis once\n  h:x+y+x\n        ^",
            ),
            (
                "slots/h:x, h:x slots/h:y",
                "there are two rules for `slots/h`: keep one; for several axes write \
                 `slots/h:a+b`\n  slots/h:x, h:x slots/h:y\n                 ^^^^^^^^^",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(refusal(text), expected);
        }
        for text in [":x", "params/:x", "params/slots/h:x", "h*:x", "h:*", "params/*:x@", "a@0:x"] {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let set = prop::sample::select(vec![RuleSet::Compute, RuleSet::Params, RuleSet::Slots]);
        let dim = prop::option::of("[a-z_\\-]{1,4}");
        let axes = prop::collection::btree_set("[a-z]{1,3}", 1..4);
        let owner = prop::option::of(prop::option::of(0..9_usize));
        (set, dim, axes, owner).prop_map(|(set, dim, axes, owner)| {
            let dim = match dim {
                None if set != RuleSet::Compute => RuleDim::Largest,
                other => RuleDim::Named(other.as_deref().unwrap_or("d").into()),
            };
            let ownable = axes.len() == 1 && dim == RuleDim::Largest;
            let owner = owner.filter(|_| ownable).map(|at| at.map_or(Owner::Each, Owner::At));
            Rule { set, dim, axes: axes.into_iter().collect(), owner }
        })
    }

    proptest! {
        #[test]
        fn printing_round_trips(mut rules in prop::collection::vec(any_rule(), 0..6)) {
            rules.sort_by_key(|rule| format!("{}{}", rule.set, rule.dim));
            rules.dedup_by_key(|rule| format!("{}{}", rule.set, rule.dim));
            let layout = Layout { rules };
            prop_assert_eq!(layout.to_string().parse(), Ok(layout));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[ab:+*/@ ;1]{0,16}|\\PC{0,12}") {
            if let Err(error) = text.parse::<Layout>() {
                prop_assert!(error.to_string().lines().count() >= 3);
            }
        }
    }
}
