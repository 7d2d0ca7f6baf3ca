use super::*;
use ndarray::{Array1, arr1, arr2};
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
    assert_eq!(feeds[1].to_owned(), Array::from(1));
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
    // A pass that is left early is not kept.
    assert_eq!(xs(&cached.take(2)), [0, 1]);
    assert_eq!(xs(&cached.repeat(3)).len(), 15);
    assert_eq!(asked.load(Ordering::Relaxed), 2 + 5);
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
    refused(Dataset::from_replicas(0, |_| Ok(numbers(1))), "replicas of size 0");
    let none = numbers(1).iter().next().unwrap().unwrap();
    assert!(none.get("z").unwrap_err().to_string().contains("it has x, y"));
    assert!(PerReplica::parts(&array(3), 2).is_err());
    assert!(PerReplica::along(&array(3), 1).is_err());
    let each = PerReplica::along(&array(3), 0).unwrap();
    assert!(each.reduce(crate::Reduction::Sum, Some(0)).is_err());
    assert!(numbers(0).repeat_forever().iter().next().is_none());
}
