use super::cx::joined;
use super::{FormRules, Legal, StepCx, ensure};
use crate::names::AxisList;
use crate::program::Cost;
use crate::program::meaning::{Collective, Numbers};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// The target of each pair gets the input of its source; who is no target gets zeros.
/// StableHLO: collective_permute.
///
/// The out has the input's type.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Permute {
    /// The group.
    pub axes: AxisList,
    /// Who sends to whom.
    pub pairs: Pairs,
}

/// Sources and targets among the members of a group, by their group indices. Nobody is the source of
/// two pairs, or the target of two.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Pairs {
    /// Member `i` is the source of member `i + by`; beyond the ends is nobody unless `wrap`.
    Shift {
        /// How far values travel along the group index.
        by: i64,
        /// Whether the ends meet.
        wrap: bool,
    },
    /// Each source with its target.
    Listed(Vec<(usize, usize)>),
}

impl Pairs {
    /// The source of `member` in a group of `members`.
    pub fn source(&self, member: usize, members: usize) -> Option<usize> {
        let (at, size) = (member as i64, members as i64);
        let source = match self {
            Self::Shift { by, wrap: true } => Some((at - by.rem_euclid(size)).rem_euclid(size)),
            Self::Shift { by, wrap: false } => at.checked_sub(*by),
            Self::Listed(pairs) => {
                return pairs.iter().find(|pair| pair.1 == member).map(|pair| pair.0);
            }
        };
        source.filter(|source| (0..size).contains(source)).map(|source| source as usize)
    }

    /// The target of `member` in a group of `members`.
    pub fn target(&self, member: usize, members: usize) -> Option<usize> {
        let (at, size) = (member as i64, members as i64);
        let target = match self {
            Self::Shift { by, wrap: true } => Some((at + by.rem_euclid(size)) % size),
            Self::Shift { by, wrap: false } => at.checked_add(*by),
            Self::Listed(pairs) => {
                return pairs.iter().find(|pair| pair.0 == member).map(|pair| pair.1);
            }
        };
        target.filter(|target| (0..size).contains(target)).map(|target| target as usize)
    }

    fn check(&self, members: usize) -> Legal {
        let Self::Listed(pairs) = self else { return Ok(()) };
        let (mut sources, mut targets) = (vec![false; members], vec![false; members]);
        for &(source, target) in pairs {
            let both = [(source, &mut sources, "source"), (target, &mut targets, "target")];
            for (member, seen, what) in both {
                ensure!(member < members, "a group of {members} has no member {member}");
                ensure!(!seen[member], "member {member} is the {what} of two pairs");
                seen[member] = true;
            }
        }
        Ok(())
    }

    /// Whether anybody gets what another member has.
    fn send(&self, members: usize) -> bool {
        match self {
            Self::Shift { by, wrap: true } => by.rem_euclid(members as i64) != 0,
            Self::Shift { by, wrap: false } => *by != 0 && by.unsigned_abs() < members as u64,
            Self::Listed(pairs) => pairs.iter().any(|(source, target)| source != target),
        }
    }
}

impl FormRules for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }

    fn axes(&self) -> Option<&AxisList> {
        Some(&self.axes)
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        self.pairs.check(step.group(&self.axes)?)?;
        step.keeps(0, |_| {})
    }

    /// What a member sends that has a target.
    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let sends = self.pairs.send(step.members() as usize);
        let sent = if sends { step.bytes_read() } else { 0 };
        Cost { flops: 0, bytes: step.bytes(), sent }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let pairs = match &self.pairs {
            Pairs::Shift { by, wrap: true } => format!("{by:+} wrapping"),
            Pairs::Shift { by, wrap: false } => format!("{by:+} zeros in"),
            Pairs::Listed(pairs) => joined(pairs.iter().map(|(from, to)| format!("{from}>{to}"))),
        };
        format!("{pairs} over {} of {}", step.over(), step.names())
    }
}

impl Collective for Permute {
    fn meet(&self, step: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>> {
        let zeros = Numbers::zeros(step.shape(0));
        let members = inputs.len();
        let given = |member| self.pairs.source(member, members).map_or(&zeros, |i| inputs[i][0]);
        (0..members).map(|member| vec![given(member).clone()]).collect()
    }
}

impl Spell for Permute {
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let members = to.mesh.group_size(&self.axes);
        let source = |member| self.pairs.source(member, members);
        Ok(vec![to.permuted(&self.axes, source, &inputs[0])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_targets() {
        let shift = |by, wrap| Pairs::Shift { by, wrap };
        let listed = || Pairs::Listed(vec![(0, 3), (2, 0), (1, 1)]);
        let table = [
            (shift(1, true), 0, Some(3)),
            (shift(1, false), 0, None),
            (shift(-1, false), 3, None),
            (shift(-1, true), 3, Some(0)),
            (shift(-9, true), 2, Some(3)),
            (shift(0, false), 1, Some(1)),
            (shift(i64::MIN, true), 1, Some(1)),
            (shift(i64::MIN, false), 1, None),
            (listed(), 0, Some(2)),
            (listed(), 1, Some(1)),
            (listed(), 2, None),
            (listed(), 3, Some(0)),
        ];
        for (pairs, member, source) in table {
            assert_eq!(pairs.source(member, 4), source, "{pairs:?} {member}");
            let targets = (0..4).filter(|&to| pairs.source(to, 4) == Some(member));
            let target = pairs.target(member, 4);
            assert_eq!(targets.collect::<Vec<_>>(), target.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn nobody_is_a_source_or_a_target_twice() {
        let check = |pairs: &[(usize, usize)]| Pairs::Listed(pairs.to_vec()).check(3);
        assert_eq!(check(&[(0, 1), (1, 0), (2, 2)]), Ok(()));
        assert_eq!(check(&[(0, 3)]).unwrap_err(), "a group of 3 has no member 3");
        assert_eq!(check(&[(0, 1), (0, 2)]).unwrap_err(), "member 0 is the source of two pairs");
        assert_eq!(check(&[(0, 1), (2, 1)]).unwrap_err(), "member 1 is the target of two pairs");
    }
}
