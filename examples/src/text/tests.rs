#![allow(clippy::unwrap_used, reason = "a failure fails its test")]

use super::*;

#[test]
fn tales_are_the_same_each_time_and_are_text() {
    let text = Text::tales();
    assert_eq!(text.train, Text::tales().train);
    assert!(text.train.iter().all(|b| b.is_ascii_graphic() || b" \n".contains(b)));
    assert!(text.held_out.len() > 4096, "{}", text.held_out.len());
    // No tale is told twice: what is held out cannot be known by heart.
    let all = String::from_utf8([text.train, text.held_out].concat()).unwrap();
    let mut tales: Vec<_> = all.split("\n\n").collect();
    let count = tales.len();
    tales.sort_unstable();
    tales.dedup();
    assert_eq!(tales.len(), count);
}

#[test]
fn the_last_tenth_is_held_out() {
    let text = Text::divided((0..105).collect());
    assert_eq!((text.train.len(), text.held_out.len()), (95, 10));
    assert_eq!(text.held_out[0], 95);
}

#[test]
fn the_least_size_named_is_the_least_legal() {
    for (batch, length) in [(1, 1), (1, 9), (3, 7), (16, 64)] {
        let of = |bytes: usize| Text::divided(vec![b'x'; bytes]).check("x", batch, length);
        let Err(TextError::Short { least, .. }) = of(0) else { panic!("nothing is enough") };
        assert!(of(least).is_ok() && of(least - 1).is_err());
        let text = Text::divided(vec![b'x'; least]);
        assert!(text.train.len() > batch * length && text.held_out.len() > length);
        let text = Text::divided(vec![b'x'; least - 1]);
        assert!(text.train.len() <= batch * length || text.held_out.len() <= length);
    }
    assert!(Text::divided(Vec::new()).check("x", usize::MAX, usize::MAX).is_err());
}

#[test]
fn windows_hold_bytes_and_what_follows() {
    let text: Vec<u8> = (0..50).collect();
    let (mut bytes, mut next) = (Array2::zeros((2, 4)), Array2::zeros((2, 4)));
    copy_windows(&text, [3, 45], &mut bytes, &mut next);
    assert_eq!(bytes, ndarray::array![[3, 4, 5, 6], [45, 46, 47, 48]]);
    assert_eq!(next, &bytes + 1);
}

#[test]
fn random_windows_reach_both_ends_and_depend_on_the_step() {
    let starts = |step| random_starts(10, 4, 200, 7, step).collect::<Vec<_>>();
    let first = starts(1);
    assert_eq!((first.iter().min(), first.iter().max()), (Some(&0), Some(&5)));
    assert_eq!(first, starts(1));
    assert_ne!(first, starts(2));
}

#[test]
fn even_windows_do_not_overlap_and_cover() {
    let starts: Vec<_> = even_starts(101, 10, 100).collect();
    assert_eq!(starts, (0..10).map(|i| i * 10).collect::<Vec<_>>());
    let starts: Vec<_> = even_starts(1_000, 10, 7).collect();
    assert_eq!(starts.len(), 7);
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 140));
    assert_eq!(even_starts(10, 10, 5).len(), 0);
}
