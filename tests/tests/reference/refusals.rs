//! Bad input gives a clear error, as on threads.

use super::models::mlp;
use mesh_ops::prelude::*;

#[test]
fn feeds_that_do_not_fit_are_refused() {
    let g = mesh_ops::graph();
    mlp(&g);
    let module = g.lower(&"a:2".parse().unwrap(), &"batch:a".parse().unwrap()).unwrap();
    let (image, label) = (Array::zeros(F32, &[8, 13]), Array::zeros(I32, &[8]));
    let mut messages = Vec::new();
    for mut session in
        [Session::threads(&module, 0).unwrap(), Session::reference(&module, 0).unwrap()]
    {
        let feeds = [("image", image.view()), ("label", label.view())];
        messages.push(session.call_named("train", &feeds).unwrap_err().to_string());
        // Nothing has happened.
        let image = Array::zeros(F32, &[8, 12]);
        session.call_named("train", &[("image", image.view()), ("label", label.view())]).unwrap();
    }
    assert_eq!(messages[0], messages[1]);
    assert!(messages[0].contains("image"), "{}", messages[0]);
}
