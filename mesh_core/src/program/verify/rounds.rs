//! The rules of loops.

use super::{Legal, Scope, ensure, verify};
use crate::names::DType;
use crate::program::{Rounds, Slot, Value, is_stack};

impl Scope<'_> {
    pub(super) fn rounds(&self, rounds: &Rounds) -> Legal {
        let Rounds { body, count, condition, carried, sliced, captured, outs, .. } = rounds;
        ensure!(*count > 0, "there are no rounds");
        verify(body, self.mesh, &[])
            .map_err(|problems| format!("in its body: {}", problems.join("; ")))?;
        let slots = body.feeds.iter().chain(&body.fetches);
        for slot in slots {
            let whole = slot.split.iter().all(|axes| axes.is_empty());
            ensure!(whole, "slot {} of its body is split", slot.name);
        }
        let fed = carried.len() + sliced.len() + captured.len() + 1;
        ensure!(body.feeds.len() == fed, "its body has {} feeds, not {fed}", body.feeds.len());
        let fetched = outs.len() + usize::from(condition.is_some());
        let found = body.fetches.len();
        ensure!(found == fetched, "its body has {found} fetches, not {fetched}");
        ensure!(outs.len() >= carried.len(), "not all that is carried has an out");
        self.feeds(rounds)?;
        self.fetches(rounds)
    }

    fn feeds(&self, rounds: &Rounds) -> Legal {
        let Rounds { body, count, condition, carried, sliced, captured, .. } = rounds;
        let mut feeds = body.feeds.iter().map(|slot| body.value(slot.value));
        for (&given, feed) in carried.iter().zip(&mut feeds) {
            same(self.value(given), feed, None)?;
        }
        for (&given, feed) in sliced.iter().zip(&mut feeds) {
            same(self.value(given), feed, Some(*count))?;
        }
        for (&given, feed) in captured.iter().zip(&mut feeds) {
            same(self.value(given), feed, None)?;
        }
        let scalar = |value: &Value, dtype| value.dtype == dtype && value.extents.is_empty();
        ensure!(feeds.all(|feed| scalar(feed, DType::I32)), "a position is an i32");
        if let Some(condition) = condition {
            ensure!(scalar(self.value(*condition), DType::Bool), "its condition is not a bool");
            ensure!(sliced.is_empty(), "under a condition nothing is sliced");
        }
        Ok(())
    }

    fn fetches(&self, rounds: &Rounds) -> Legal {
        let Rounds { body, count, condition, carried, outs, .. } = rounds;
        for (i, (&out, Slot { value, .. })) in outs.iter().zip(&body.fetches).enumerate() {
            let stacked = (i >= carried.len()).then_some(*count);
            ensure!(
                condition.is_none() || stacked.is_none(),
                "under a condition nothing is stacked"
            );
            same(self.value(out), body.value(*value), stacked)?;
        }
        let last = body.fetches.last().filter(|_| condition.is_some());
        let flag = |slot: &Slot| {
            let value = body.value(slot.value);
            value.dtype == DType::Bool && value.extents.is_empty()
        };
        ensure!(last.is_none_or(flag), "whether to go on is not a bool");
        Ok(())
    }
}

/// Whether values are of one type, or one is so many of the other. They lie in the same order, since
/// they are copied as bytes.
fn same(outer: &Value, inner: &Value, rounds: Option<usize>) -> Legal {
    let fits = match rounds {
        Some(count) => is_stack(outer, inner, count),
        None => outer == inner,
    };
    ensure!(fits, "{outer} does not fit {inner} of its body");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::sketch::{looped, square};
    use crate::program::{Scalar, Step, Value, ValueId};

    /// What is wrong with a loop that has been tampered with.
    fn problems(spoil: impl FnOnce(&mut Rounds)) -> String {
        let mesh = square();
        let mut program = looped(&mesh);
        let Step::Loop(rounds) = &mut program.steps[1].step else { panic!("no loop") };
        spoil(rounds);
        verify(&program, &mesh, &[]).map_or_else(|problems| problems.join("\n"), |()| String::new())
    }

    #[test]
    fn a_loop_and_its_body_fit() {
        assert_eq!(problems(|_| {}), "");
        type Spoil = fn(&mut Rounds);
        let table: [(Spoil, &str); 8] = [
            (|r| r.count = 0, "there are no rounds"),
            (|r| r.count = 2, "does not fit"),
            (|r| r.captured.clear(), "its body has 4 feeds, not 3"),
            (|r| r.outs.truncate(1), "its body has 2 fetches, not 1"),
            (|r| r.body.values[0] = Value::new(DType::F32, [5]), "in its body"),
            (|r| r.condition = Some(ValueId(0)), "its body has 2 fetches, not 3"),
            (|r| r.sliced[0] = r.captured[0], "does not fit"),
            (
                |r| {
                    let scalar = Scalar::new(DType::F32, 1.0);
                    r.body.values[3] = Value::new(scalar.dtype(), []);
                },
                "a position is an i32",
            ),
        ];
        for (spoil, expected) in table {
            let found = problems(spoil);
            assert!(found.contains(expected), "{found} instead of {expected}");
        }
    }
}
