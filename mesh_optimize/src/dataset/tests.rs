use super::*;
use ndarray::{Array1, arr1, arr2};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn numbers(count: i32) -> Dataset {
    let x: Array1<i32> = (0..count).collect();
    let y = x.mapv(|v| v as f32 / 2.0);
    Dataset::from_arrays([("x", x.into()), ("y", y.into())]).unwrap()
}

fn xs(dataset: &Dataset) -> Vec<i32> {
    let x = |record: Result<Record>| record.unwrap().get("x").unwrap().as_i32().unwrap().clone();
    dataset.iter().flat_map(|record| x(record).into_iter().collect::<Vec<_>>()).collect()
}

#[test]
fn examples_keep_their_arrays_together() {
    let records: Vec<_> = numbers(3).iter().map(Result::unwrap).collect();
    assert_eq!(records.len(), 3);
    assert_eq!(records[2].get("y").unwrap().item(), Some(1.0));
    assert_eq!(records[2].get("x").unwrap().shape(), [0; 0]);
    let feeds = records[1].feeds(["y", "x"]).unwrap();
    assert_eq!(feeds[1].to_owned(), Some(Array::from(1)));
    let positional = Dataset::from_positional([arr2(&[[1, 2], [3, 4]]).into()]).unwrap();
    let second = positional.iter().nth(1).unwrap().unwrap();
    assert_eq!(*second.get("0").unwrap(), arr1(&[3, 4]).into());
}

#[test]
fn batches_drop_or_keep_the_rest() {
    let sizes = |remainder| -> Vec<_> {
        let batches = numbers(7).batch(3, remainder).unwrap();
        batches.iter().map(|b| b.unwrap().get("x").unwrap().shape().to_vec()).collect()
    };
    assert_eq!(sizes(Remainder::Drop), [[3], [3]]);
    assert_eq!(sizes(Remainder::Keep), [[3], [3], [1]]);
    assert_eq!(xs(&numbers(7).batch(3, Remainder::Keep).unwrap()), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn orders_follow_from_the_seed() {
    let shuffled = |buffer, seed| numbers(20).shuffle(buffer, seed).unwrap();
    let order = xs(&shuffled(20, 1));
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    assert_ne!(order, sorted);
    assert_eq!(order, xs(&shuffled(20, 1)));
    assert_ne!(order, xs(&shuffled(20, 2)));
    assert_eq!(xs(&shuffled(1, 1)), sorted, "a buffer of one has no choice");
    // With a buffer of three, nothing comes more than two places early.
    assert!(xs(&shuffled(3, 1)).iter().enumerate().all(|(at, x)| *x <= at as i32 + 2));
    let twice = xs(&shuffled(20, 1).repeat(2));
    assert_eq!(twice[..20], order);
    assert_ne!(twice[20..], order, "each pass has its own order");
    let forever = shuffled(20, 1).repeat_forever().take(40);
    assert_eq!(xs(&forever), twice);
    // What is shuffled before a cache is shuffled once.
    let cached = xs(&shuffled(20, 1).cache().repeat(2));
    assert_eq!(cached, [&order[..], &order].concat());
}

#[test]
fn first_places_are_even() {
    let mut counts = [0; 4];
    for seed in 0..4000 {
        counts[xs(&numbers(4).shuffle(4, seed).unwrap().take(1))[0] as usize] += 1;
    }
    // Three deviations of 4000 draws with probability 1/4 are 82.
    assert!(counts.iter().all(|count: &i32| (count - 1000).abs() < 82), "{counts:?}");
}

#[test]
fn caches_ask_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let counted = numbers(5).map(move |record| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(record)
    });
    let cached = counted.cache();
    // A pass that is left early, or entered late, keeps what it made.
    assert_eq!(xs(&cached.take(2)), [0, 1]);
    assert_eq!(xs(&cached.skip(4)), [4]);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(xs(&cached.repeat(3)).len(), 15);
    assert_eq!(asked.load(Ordering::Relaxed), 5);
}

#[test]
fn a_number_is_no_promise_of_memory() {
    let endless = Dataset::from_function(u64::MAX, |_, index| {
        Record::new([("x", ndarray::arr0(index as i32).into())])
    });
    for few in [&numbers(7), &endless.take(7)] {
        assert_eq!(few.prefetch(usize::MAX).iter().count(), 7);
        assert_eq!(few.shuffle(usize::MAX, 1).unwrap().iter().count(), 7);
        let largest = few.batch(u32::MAX as usize, Remainder::Keep).unwrap();
        assert_eq!(largest.iter().next().unwrap().unwrap().get("x").unwrap().shape(), [7]);
        for size in [usize::MAX, 1 << 32] {
            for batched in [few.batch(size, Remainder::Keep), few.batch_weighted(size, "w")] {
                let error = batched.unwrap_err().to_string();
                assert!(error.contains("legal are up to 4294967295"), "{error}");
            }
        }
    }
    // Some of what has no end is there at once.
    assert!(endless.prefetch(usize::MAX).iter().nth(3).unwrap().is_ok());
    assert_eq!(endless.repeat_forever().prefetch(9).iter().take(20).count(), 20);
}

#[test]
fn prefetching_changes_nothing() {
    let batches = numbers(50).shuffle(10, 3).unwrap().batch(4, Remainder::Keep).unwrap();
    for depth in [0, 1, 3, 100] {
        assert_eq!(xs(&batches.prefetch(depth)), xs(&batches));
    }
    // Left early, the thread ends.
    let mut some = batches.repeat_forever().prefetch(2).iter();
    assert!(some.next().unwrap().is_ok());
    drop(some);
}

#[test]
fn errors_come_once_and_end() {
    let odd = |record: Record| match record.get("x")?.item() {
        Some(3.0) => Err(DatasetError::from("three".to_owned())),
        _ => Ok(record),
    };
    let bad = numbers(6).map(odd);
    for dataset in [bad.clone(), bad.prefetch(2), bad.cache(), bad.repeat(3)] {
        let records: Vec<_> = dataset.iter().collect();
        assert_eq!(records.len(), 4);
        assert_eq!(records[3], Err(DatasetError::Refused("three".to_owned())));
    }
    let batched: Vec<_> = bad.batch(2, Remainder::Keep).unwrap().iter().collect();
    assert_eq!((batched.len(), batched[1].is_err()), (2, true));
    let panicking = numbers(2).map(|_| std::panic::resume_unwind(Box::new("no"))).prefetch(1);
    let error = panicking.iter().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("it panicked"), "{error}");
}

#[test]
fn sources_of_replicas_are_joined_in_order() {
    let of = |replica: usize| {
        let x: Array1<i32> = (0..5).map(|i| 10 * replica as i32 + i).collect();
        Dataset::from_arrays([("x", x.into())])?.batch(2, Remainder::Drop)
    };
    let joined = Dataset::from_replicas(3, of).unwrap();
    assert_eq!(xs(&joined), [0, 1, 10, 11, 20, 21, 2, 3, 12, 13, 22, 23]);
    let uneven = Dataset::from_replicas(2, |replica| {
        let x = ndarray::Array2::<i32>::zeros((4, 1 + replica));
        Dataset::from_arrays([("x", x.into())])?.batch(2, Remainder::Drop)
    });
    let error = uneven.unwrap().iter().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("i32[2, 2] meets i32[2, 1]"), "{error}");
}

#[test]
fn refusals() {
    let array = |n: usize| Array::from(Array1::<f32>::zeros(n));
    let refused = |result: Result<Dataset>, word: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    refused(Dataset::from_arrays([]), "no arrays");
    refused(Dataset::from_arrays([("a", array(2)), ("a", array(2))]), "called `a`");
    refused(Dataset::from_arrays([("a", array(2)), ("b", array(3))]), "`b` has 3 examples");
    refused(Dataset::from_arrays([("a", Array::from(1.0))]), "no dims");
    refused(numbers(2).shuffle(0, 1), "buffer of size 0");
    refused(numbers(2).batch(0, Remainder::Keep), "batch of size 0");
    refused(numbers(2).rows(1..1, 2), "range of rows of size 0");
    refused(numbers(2).batch_weighted(0, "w"), "batch of size 0");
    refused(Dataset::from_replicas(0, |_| Ok(numbers(1))), "replicas of size 0");
    let none = numbers(1).iter().next().unwrap().unwrap();
    assert!(none.get("z").unwrap_err().to_string().contains("it has x, y"));
    assert!(PerReplica::parts(&array(3), 2).is_err());
    assert!(PerReplica::along(&array(3), 1).is_err());
    let each = PerReplica::along(&array(3), 0).unwrap();
    assert!(each.reduce(crate::Reduction::Sum, Some(0)).is_err());
    assert!(numbers(0).repeat_forever().iter().next().is_none());
}

/// Numbers from 0, and which of them were read.
#[derive(Clone)]
struct Counted {
    count: u64,
    read: Arc<Mutex<Vec<u64>>>,
}

impl Counted {
    fn new(count: u64) -> Self {
        Self { count, read: Arc::default() }
    }

    /// What was read since the last call, in order of size.
    fn read(&self) -> Vec<u64> {
        let mut read = std::mem::take(&mut *self.read.lock().unwrap());
        read.sort_unstable();
        read
    }
}

impl Source for Counted {
    fn examples(&self) -> u64 {
        self.count
    }

    fn read(&self, rows: &[u64]) -> Result<Record> {
        self.read.lock().unwrap().extend(rows);
        let x: Array1<i32> = rows.iter().map(|&row| row as i32).collect();
        Record::new([("x", x.into())])
    }
}

/// The elements of `x` of each record.
fn elements(records: impl Iterator<Item = Result<Record>>) -> Vec<Vec<i32>> {
    let x = |record: Record| record.get("x").unwrap().as_i32().unwrap().iter().copied().collect();
    records.map(|record| x(record.unwrap())).collect()
}

#[test]
fn rows_are_read_without_the_others() {
    let source = Counted::new(1000);
    let batches = Dataset::from_source(source.clone()).shuffle(1000, 5).unwrap();
    let batches = batches.batch(128, Remainder::Drop).unwrap();
    let whole = elements(batches.pass(3));
    assert_eq!(source.read().len(), 7 * 128);
    let mut all = Vec::new();
    for rows in [0..64, 64..100, 100..128] {
        let own = elements(batches.rows(rows.clone(), 128).unwrap().pass(3));
        assert_eq!(source.read().len(), 7 * rows.len());
        for (own, whole) in own.iter().zip(&whole) {
            assert_eq!(own, &whole[rows.clone()]);
        }
        // Rows of rows, and a later pass entered in its middle.
        let narrow = batches.rows(rows.clone(), 128).unwrap().rows(1..3, rows.len()).unwrap();
        let late = elements(narrow.skip(5).prefetch(1).pass(3));
        assert_eq!(late, [5, 6].map(|i| whole[i][rows.start + 1..rows.start + 3].to_vec()));
        assert_eq!(source.read().len(), 4);
        all.push(own);
    }
    assert!((0..7).all(|i| all.iter().map(|own| own[i].len()).sum::<usize>() == 128));

    // Rows of weighted batches, and of what replicas join.
    let weighted = Dataset::from_source(source.clone()).batch_weighted(300, "w").unwrap();
    let last = weighted.rows(90..120, 300).unwrap().pass(0).nth(3).unwrap().unwrap();
    assert_eq!(source.read().len(), 30);
    assert_eq!(last.get("x").unwrap().as_i32().unwrap()[[9]], 999);
    assert_eq!(last.get("x").unwrap().as_i32().unwrap()[[10]], 900);
    assert_eq!(last.get("w").unwrap().as_f32().unwrap().sum(), 10.0);
    let own = |_| Dataset::from_source(source.clone()).batch(10, Remainder::Drop);
    let joined = Dataset::from_replicas(3, own).unwrap().rows(18..23, 30).unwrap();
    assert_eq!(elements(joined.take(1).iter()), [[8, 9, 0, 1, 2]]);
    assert_eq!(source.read(), [0, 1, 2, 8, 9]);

    // What has no rows of its own is made and cut; what lacks them is an error.
    let mapped = batches.map(Ok).rows(3..5, 128).unwrap();
    assert_eq!(elements(mapped.pass(3).take(1)), [&whole[0][3..5]]);
    let joined = Dataset::from_replicas(1, |_| Ok(batches.clone())).unwrap();
    let narrow = batches.rows(0..128, 128).unwrap();
    for batches in [&batches, &batches.map(Ok), &joined, &narrow, &mapped.map(Ok)] {
        for (rows, of) in [(100..129, 128), (0..1, 127), (0..1, 129), (128..129, 129)] {
            let other = batches.rows(rows.clone(), of).unwrap().iter().next().unwrap();
            let error = other.unwrap_err().to_string();
            let asked = format!("rows {} to {} of {of} are asked for", rows.start, rows.end);
            assert!(error.starts_with(&asked), "{error}");
        }
    }
}

#[test]
fn weights_count_every_record_once() {
    for size in [1, 4, 11, 30] {
        let batches = numbers(11).batch_weighted(size, "weight").unwrap();
        let mut seen = Vec::new();
        for batch in &batches {
            let batch = batch.unwrap();
            assert_eq!(batch.get("y").unwrap().shape(), [size]);
            let weights = batch.get("weight").unwrap().as_f32().unwrap();
            let x = batch.get("x").unwrap().as_i32().unwrap();
            seen.extend(x.iter().zip(weights).filter(|(_, w)| **w == 1.0).map(|(x, _)| *x));
            assert!(weights.iter().all(|w| [0.0, 1.0].contains(w)));
        }
        assert_eq!(seen, (0..11).collect::<Vec<_>>());
        assert_eq!(batches.cardinality(), Some(11_u64.div_ceil(size as u64)));
    }
}

#[test]
fn functions_of_pass_and_number() {
    let drawn = Dataset::from_function(4, |pass, i| {
        Record::new([("x", Array::from((10 * pass + i) as i32))])
    });
    let pairs = drawn.batch(2, Remainder::Keep).unwrap().repeat(2);
    assert_eq!(elements(pairs.pass(1)), [[20, 21], [22, 23], [30, 31], [32, 33]]);
    assert_eq!(elements(pairs.skip(3).pass(1)), [[32, 33]]);
    assert_eq!(pairs.cardinality(), Some(4));
}

#[test]
fn orders_must_be_of_the_source() {
    let refused = |dataset: &Dataset, word: &str| {
        let error = dataset.iter().find_map(Result::err).unwrap().to_string();
        assert!(error.contains(word), "{error}");
    };
    refused(&Dataset::sampled(Counted::new(5), 2, |_| [4, 5]), "no example 5: the source has 5");
    refused(&Dataset::sampled(Counted::new(5), 3, |_| [4, 0]), "pass 0 ends before the 3 examples");
    struct Lies;
    impl Source for Lies {
        fn examples(&self) -> u64 {
            9
        }
        fn read(&self, _: &[u64]) -> Result<Record> {
            Record::new([("x", arr1(&[1, 2]).into())])
        }
    }
    let lies = Dataset::from_source(Lies).batch(3, Remainder::Drop).unwrap();
    refused(&lies, "gave 2 examples side by side where 3");
}

/// Something done to a data set.
#[derive(Clone, Debug)]
enum Change {
    Map,
    Cache,
    Shuffle(usize, u64),
    Repeat(u64),
    Take(usize),
    Skip(usize),
    Prefetch(usize),
    Batch(usize, Remainder),
    Rows(Range<usize>, usize),
}

/// What a map adds: more than there are examples.
const MAPPED: i32 = 1000;

fn mapped(record: Record) -> Result<Record> {
    let x = record.get("x")?.as_i32().unwrap() + MAPPED;
    Ok(record.with("x", x))
}

fn changed(dataset: &Dataset, change: &Change) -> Dataset {
    match change.clone() {
        Change::Map => dataset.map(mapped),
        Change::Cache => dataset.cache(),
        Change::Shuffle(buffer, seed) => dataset.shuffle(buffer, seed).unwrap(),
        Change::Repeat(times) => dataset.repeat(times),
        Change::Take(count) => dataset.take(count),
        Change::Skip(count) => dataset.skip(count),
        Change::Prefetch(depth) => dataset.prefetch(depth),
        Change::Batch(size, remainder) => dataset.batch(size, remainder).unwrap(),
        Change::Rows(rows, of) => dataset.rows(rows, of).unwrap(),
    }
}

/// The elements of a pass, computed whole and one change after the other.
fn plainly(examples: i32, changes: &[Change], pass: u64) -> Vec<Vec<i32>> {
    let Some((last, before)) = changes.split_last() else {
        return (0..examples).map(|x| vec![x]).collect();
    };
    let of = |pass| plainly(examples, before, pass);
    match last.clone() {
        Change::Map => {
            of(pass).iter().map(|record| record.iter().map(|x| x + MAPPED).collect()).collect()
        }
        Change::Cache => of(0),
        Change::Shuffle(size, seed) => {
            let (mut waiting, mut numbers) = (of(pass), shuffle::Numbers::new(seed, pass));
            let mut buffer: Vec<_> = waiting.drain(..size.min(waiting.len())).collect();
            let mut drawn = Vec::new();
            while !buffer.is_empty() {
                drawn.push(buffer.swap_remove(numbers.below(buffer.len())));
                if !waiting.is_empty() {
                    buffer.push(waiting.remove(0));
                }
            }
            drawn
        }
        Change::Repeat(times) => (0..times).flat_map(|round| of(pass * times + round)).collect(),
        Change::Take(count) => of(pass).into_iter().take(count).collect(),
        Change::Skip(count) => of(pass).into_iter().skip(count).collect(),
        Change::Prefetch(_) => of(pass),
        Change::Batch(size, remainder) => {
            let all = of(pass);
            let parts = all.chunks(size);
            let whole = parts.filter(|p| p.len() == size || remainder == Remainder::Keep);
            whole.map(<[_]>::concat).collect()
        }
        Change::Rows(rows, _) => {
            of(pass).iter().map(|record| record[rows.clone()].to_vec()).collect()
        }
    }
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Map),
        Just(Change::Cache),
        (1..40_usize, any::<u64>()).prop_map(|(buffer, seed)| Change::Shuffle(buffer, seed)),
        (0..4_u64).prop_map(Change::Repeat),
        (0..60_usize).prop_map(Change::Take),
        (0..8_usize).prop_map(Change::Skip),
        (1..3_usize).prop_map(Change::Prefetch),
    ]
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let some = || prop::collection::vec(any_change(), 0..4);
    let batch =
        (1..7_usize, any::<bool>(), 0..7_usize, 1..7_usize).prop_map(|(size, keep, a, b)| {
            let remainder = if keep { Remainder::Keep } else { Remainder::Drop };
            let rows = a.min(size - 1)..(a.min(size - 1) + b).min(size);
            // A smaller batch may lack the rows.
            let rows = if keep { vec![] } else { vec![Change::Rows(rows, size)] };
            [vec![Change::Batch(size, remainder)], rows].concat()
        });
    (some(), prop::option::of(batch), some())
        .prop_map(|(first, batch, then)| [first, batch.unwrap_or_default(), then].concat())
}

proptest! {
    #[test]
    fn a_pass_entered_in_the_middle_goes_on_as_the_whole_one(
        examples in 0..30_u64, changes in changes(), pass in 0..3_u64, skipped in 0..20_usize,
    ) {
        let source = Counted::new(examples);
        let of = || changes.iter().fold(Dataset::from_source(source.clone()), |d, c| changed(&d, c));
        let expected = plainly(examples as i32, &changes, pass);
        let dataset = of();
        prop_assert_eq!(elements(dataset.pass(pass)), &expected[..]);
        prop_assert_eq!(dataset.cardinality(), Some(expected.len() as u64));
        let expected = &expected[skipped.min(expected.len())..];
        let made: usize = expected.iter().map(Vec::len).sum();
        // Cold, as after a restart, and warm.
        for dataset in [of(), dataset] {
            source.read();
            prop_assert_eq!(elements(dataset.skip(skipped).pass(pass)), expected);
            prop_assert!(source.read().len() <= made);
            prop_assert_eq!(elements(dataset.pass(pass).skip(skipped)), expected);
            prop_assert!(source.read().len() <= made);
        }
        // Without caches and with, what is read is what is seen, no matter where.
        source.read();
        let seen = elements(of().skip(skipped).pass(pass)).concat();
        let mut rows: Vec<_> = seen.iter().map(|x| (x % MAPPED) as u64).collect();
        let mut read = source.read();
        if changes.iter().any(|change| matches!(change, Change::Cache)) {
            for rows in [&mut rows, &mut read] {
                rows.sort_unstable();
                rows.dedup();
            }
            // A record that is kept whole is read whole.
            prop_assert!(rows.iter().all(|row| read.contains(row)));
        } else {
            rows.sort_unstable();
            prop_assert_eq!(rows, read);
        }
    }
}
