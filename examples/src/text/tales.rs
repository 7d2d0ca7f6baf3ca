//! Tales that a grammar generates: regular enough to be learned in minutes, too many to be
//! memorised.

use crate::Rng;

/// The number of tales.
const TALES: u64 = 300;
/// The seed and the stream of the tales.
const KEY: (u64, u64) = (11, 0x5441_4c45);

const WHO: [(&str, &str); 12] = [
    ("miller", "he"),
    ("ferrywoman", "she"),
    ("old shepherd", "he"),
    ("baker's daughter", "she"),
    ("clockmaker", "he"),
    ("goose girl", "she"),
    ("lamplighter", "he"),
    ("widow", "she"),
    ("young fisherman", "he"),
    ("weaver", "she"),
    ("woodcutter", "he"),
    ("innkeeper", "she"),
];
const NAMES: [&str; 14] = [
    "Anselm", "Berta", "Corvin", "Dorothea", "Edmund", "Fenna", "Gregor", "Hanna", "Ivo", "Jorun",
    "Klara", "Ludwig", "Marit", "Niklas",
];
const PLACES: [&str; 14] = [
    "by the mill",
    "at the edge of the wood",
    "near the old bridge",
    "behind the church",
    "beside the quiet river",
    "in the upper village",
    "under the great oak",
    "by the harbour",
    "on the windy hill",
    "at the crossroads",
    "in the narrow valley",
    "along the stony road",
    "at the well",
    "over the marsh",
];
const THINGS: [&str; 14] = [
    "lantern",
    "silver key",
    "basket of apples",
    "blue cup",
    "wooden flute",
    "loaf of bread",
    "copper kettle",
    "woollen coat",
    "little boat",
    "iron ring",
    "jar of honey",
    "grey horse",
    "book of songs",
    "bundle of letters",
];
const TIMES: [&str; 10] = [
    "One morning",
    "Late in the evening",
    "On the first day of winter",
    "When the snow had melted",
    "Before the sun was up",
    "In the spring",
    "At harvest time",
    "During the long rain",
    "After supper",
    "On market day",
];
const FOUND: [&str; 6] = ["found", "lost", "bought", "was given", "carried", "hid"];
const MOODS: [&str; 8] =
    ["glad", "tired", "curious", "silent", "merry", "afraid", "patient", "proud"];
const DEEDS: [&str; 10] = [
    "walked home",
    "sang an old song",
    "lit the fire",
    "crossed the water",
    "looked up at the stars",
    "swept the floor",
    "waited for the others",
    "counted the geese",
    "closed the shutters",
    "went to sleep",
];
const SAYINGS: [&str; 10] = [
    "What is given freely comes back at night",
    "The river knows the way",
    "Nobody should travel alone in the dark",
    "A small light is enough for a small room",
    "There will be bread tomorrow",
    "The wind has turned",
    "It is better to ask twice than to lose the road",
    "You may keep it until the summer",
    "I have seen it before",
    "Patience opens every door",
];

/// All tales, one paragraph each.
pub(super) fn tell() -> Vec<u8> {
    let tales: Vec<_> = (0..TALES).map(|i| tale(&mut Rng::keyed(KEY.0, KEY.1, i))).collect();
    tales.join("\n\n").into_bytes()
}

fn tale(rng: &mut Rng) -> String {
    let (who, they) = *pick(rng, &WHO);
    let (name, other) = (*pick(rng, &NAMES), *pick(rng, &NAMES));
    let thing = *pick(rng, &THINGS);
    let mut tale = format!(
        "There was once a {who} called {name}, who lived {}. {}, {name} {} a {thing} {}.",
        pick(rng, &PLACES),
        pick(rng, &TIMES),
        pick(rng, &FOUND),
        pick(rng, &PLACES),
    );
    for _ in 0..2 + rng.below(4) {
        tale.push(' ');
        tale.push_str(&sentence(rng, who, they, name, other, thing));
    }
    tale
}

fn sentence(rng: &mut Rng, who: &str, they: &str, name: &str, other: &str, thing: &str) -> String {
    let (time, place, mood) = (pick(rng, &TIMES), pick(rng, &PLACES), pick(rng, &MOODS));
    let (deed, next, saying) = (pick(rng, &DEEDS), pick(rng, &DEEDS), pick(rng, &SAYINGS));
    match rng.below(6) {
        0 => format!("The {who} was {mood}, and {they} {deed}."),
        1 => format!("{time}, {they} took the {thing} and {deed} {place}."),
        2 => format!("\"{saying},\" said {other}, who was {mood}."),
        3 => format!("{time}, {other} came {place} and asked for the {thing}."),
        4 => format!("{name} {deed}, then {they} {next}."),
        _ => format!("But the {thing} was gone, and the {who} said, \"{saying}.\""),
    }
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len())]
}
