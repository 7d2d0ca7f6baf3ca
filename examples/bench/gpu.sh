#!/bin/sh
# Everything that a machine with a GPU (or another device of a PJRT plugin) can tell, in one command: the tests of
# XLA's devices, both examples beside threads, and training steps, beside JAX's on the same device if it is here.
#
# usage: gpu.sh PLUGIN [PEERS_SCRIPTS PYTHON] > results.txt
#   PLUGIN         the plugin's library (docs/accelerators.md says which wheel has it, and what it needs)
#   PEERS_SCRIPTS  the folder of the peers' programs (peer_jax.py, common.py)
#   PYTHON         a Python with numpy, optax, and JAX for the same device
# DEVICES=1 devices, which share the batch; SECS=4 seconds a measurement; TESTS=no leaves the tests out.
# MESH_LAYOUTS=all tests every layout.
#
# Each number is one line, as run.sh has them, and table.py makes tables of them; what failed is one line, `failed ...`,
# and the script then ends with an error.
set -u
plugin=$(realpath "${1:?usage: gpu.sh PLUGIN [PEERS_SCRIPTS PYTHON]}") || exit 1
scripts=${2:-}
python=${3:-python3}
devices=${DEVICES:-1}
seconds=${SECS:-4}
here=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
export MESH_PJRT_PLUGIN="$plugin"
init=$(mktemp -d)
failed=0
trap 'rm -rf "$init"' EXIT

try() {
  "$@" || {
    failed=1
    echo "failed rc=$? command=\"$*\""
  }
}

cd "$here" || exit 1
cargo build --release --locked --quiet --features xla -p examples || exit 1
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sed 's/^/device /'

# The cases of all ops and layers, on as many devices as there are; what else is tested needs eight.
if [ "${TESTS:-yes}" != no ]; then
  cases="conformance:: layers:: core:: beams:: routed:: variables::"
  [ "$devices" -ge 8 ] && cases=
  # shellcheck disable=SC2086
  MESH_DEVICES_MESH="a:$devices"
  export MESH_DEVICES_MESH
  try cargo test --release --locked --quiet -p tests --features xla --test xla -- $cases >&2
  [ "$devices" -ge 8 ] && for package in tests examples; do
    try cargo test --release --locked --quiet -p $package --features xla >&2
  done
fi

layout=single
[ "$devices" -gt 1 ] && layout=dp$devices
[ -n "$scripts" ] && try "$python" examples/bench/initial.py "$scripts" "$init"
ours() { # WORKLOAD
  set -- step --workload "$1" --name "$layout" --mesh "all:$devices" --layout batch:all --seconds "$seconds"
  [ -n "$scripts" ] && set -- "$@" --init "$init"
  try "$target/release/bench" "$@" --backend xla --plugin "$plugin"
}
jax() { # WORK OPTIMIZER
  [ -n "$scripts" ] || return 0
  (cd "$scripts" && JAX_PLATFORMS='' try "$python" peer_jax.py --work "$1" --opt "$2" --layout "$layout" --secs "$seconds")
}
ours mlp_b128; jax mlp128 adam
ours mlp_b1024; jax mlp1024 adam
ours cnn_b200; jax cnn adafactor
ours lm_adamw; jax lm adamw
ours lm_adafactor; jax lm adafactor
for workload in lm_muon resnet18 mobilenet vit unet; do
  try "$target/release/bench" step --workload $workload --name "$layout" --mesh "all:$devices" --layout batch:all \
    --seconds "$seconds" --backend xla --plugin "$plugin"
done
try "$target/release/bench" compile --scan --processors "$devices" --backend xla --plugin "$plugin"
exit $failed
