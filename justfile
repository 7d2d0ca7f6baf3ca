# The common tasks; `.ci/run` is the whole gate.

# Train MNIST on the embedded digits.
mnist *flags:
    cargo run --release --bin mnist -- {{flags}}

# All tests.
test:
    cargo test --workspace

# Formatting, lints and docs, warnings as errors.
check:
    cargo fmt --all --check
    cargo lint
    RUSTDOCFLAGS="-D warnings" cargo docs

# What CI runs.
ci:
    .ci/run

# What takes too long for every change.
nightly:
    MESH_NIGHTLY=1 cargo test --release -p examples --test agree the_readme_has
    cargo test --release -p mesh_core --lib exec::cpu
    MESH_NIGHTLY=1 cargo test -p tests --features xla --test random_graphs
    MESH_LAYOUTS=all cargo test -p tests -p examples --features xla --test xla
    MESH_NIGHTLY=1 cargo test -p tests --test pages own_crate

# Every layout that the conformance suite counts, without each pass, and every derivative element by element.
conformance-full:
    MESH_LAYOUTS=all cargo test -p tests --test conformance --test loops
