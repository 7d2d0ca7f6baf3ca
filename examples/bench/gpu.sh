#!/bin/sh
# Everything that a machine with a GPU (or another device of a PJRT plugin) can tell, in one command: the tests of
# XLA's devices, both examples beside threads, and training steps, beside JAX's on the same device if it is here.
#
# usage: gpu.sh PLUGIN [PEERS_SCRIPTS PYTHON] > results.txt
#   PLUGIN         the plugin's library (docs/accelerators.md says which wheel has it, and what it needs)
#   PEERS_SCRIPTS  the folder of the peers' programs (peer_jax.py, common.py)
#   PYTHON         a Python with numpy, optax, and JAX for the same device
# PARTS="tests losses steps compile" what is done; DEVICES=1 devices, which share the batch; SECS=4 seconds a measurement.
# WORKLOADS and PRECISIONS choose among steps; FED_ALONE=1 leaves out JAX's with batches on the device. MESH_LAYOUTS=all
# tests every layout.
# PROGRAMS=FOLDER takes programs that were built elsewhere, for machines without Rust: `bench`, `mnist`, `lm`, and as `xla` the
# program of `cargo test --release -p tests --features xla --test xla --no-run`.
#
# Each number is one line, as run.sh has them, and table.py makes tables of them; what failed is one line, `failed ...`,
# and the script then ends with an error.
set -u
plugin=$(realpath "${1:?usage: gpu.sh PLUGIN [PEERS_SCRIPTS PYTHON]}") || exit 1
scripts=${2:+$(realpath "$2")}
python=${3:-python3}
parts=${PARTS:-tests losses steps compile}
devices=${DEVICES:-1}
seconds=${SECS:-4}
here=$(cd "$(dirname "$0")/../.." && pwd)
export MESH_PJRT_PLUGIN="$plugin" MESH_DEVICES_MESH="a:$devices"
own=$(mktemp -d)
failed=0
trap 'rm -rf "$own"' EXIT

try() {
  "$@" || {
    failed=1
    echo "failed rc=$? command=\"$*\""
  }
}
result() { # WORKLOAD METRIC VALUE
  echo "result workload=$1 peer=mesh layout=$layout metric=$2 value=$3"
}

cd "$here" || exit 1
if [ -z "${PROGRAMS:-}" ]; then
  cargo build --release --locked --quiet --features xla -p examples || exit 1
  PROGRAMS=${CARGO_TARGET_DIR:-$here/target}/release
fi
programs=$(realpath "$PROGRAMS")
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sed 's/^/device /'
layout=single
[ "$devices" -gt 1 ] && layout=dp$devices

# All ops and layers, and models' steps, on as many devices as there are; what is left out needs more of them.
tests() {
  set -- --skip collectives --skip conv:: --skip errors::a_mesh --skip errors::files --skip errors::plugins --skip errors::what \
    --skip forms_agree --skip index::the_ --skip loops_agree --skip random_numbers --skip state::updates \
    --skip state::bytes --skip state::arrays --skip state::checkpoints
  [ "$devices" -ge 8 ] && set --
  if [ -x "$programs/xla" ]; then
    try "$programs/xla" --nocapture "$@" >&2
  else
    try cargo test --release --locked --quiet -p tests --features xla --test xla -- --nocapture "$@" >&2
  fi
}

# The losses of 20 steps on the device and on threads, and how far they are apart.
losses() {
  for example in mnist lm; do
    for backend in threads xla; do
      try "$programs/$example" --steps 20 --mesh "all:$devices" --layout batch:all --backend $backend \
        --metrics "$own/$example.$backend" >"$own/out" 2>&1 || cat "$own/out" >&2
      sed -n 's/.*"loss":\([-0-9.e]*\).*/\1/p' "$own/$example.$backend" >"$own/$backend"
    done
    apart=$(paste "$own/threads" "$own/xla" | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > m) m = d } END { print m }')
    result $example losses_apart "$apart"
  done
}

# One workload in one precision, beside JAX's, whose batches lie on the device, or, of one device, come from the host
# (`fed`), as ours do.
ours() { # LABEL FLAGS ...
  label=$1
  shift
  try "$programs/bench" step --name "$layout$label-$precision" --mesh "all:$devices" --layout batch:all \
    --seconds "$seconds" --backend xla --precision "$precision" "$@"
}
jax() ( # LABEL FLAGS ...
  label=$1
  shift
  cd "$scripts" || exit
  export JAX_PLATFORMS='' JAX_DEFAULT_MATMUL_PRECISION="$precision"
  set -- --layout "$layout" --secs "$seconds" "$@"
  if [ "$devices" = 1 ]; then
    "$python" "$here/examples/bench/fed_jax.py" "$scripts" "$@" --tag="$label-fed-$precision" || exit
    [ -z "${FED_ALONE:-}" ] || exit 0
  fi
  "$python" peer_jax.py "$@" --tag="$label-$precision"
)
beside() { # WORKLOAD WORK OPTIMIZER
  if [ -z "$scripts" ]; then
    ours '' --workload "$1"
  else
    ours '' --workload "$1" --init "$own"
    try jax '' --work "$2" --opt "$3"
  fi
}
# The sizes of GPT-2 small.
gpt2() {
  ours -gpt2 --workload lm_adamw --vocab 50257 --width 768 --depth 12 --heads 12 --sequence 256 --batch 16
  [ -n "$scripts" ] || return 0
  export LM=vocab=50257,d=768,layers=12,heads=12,ff=3072,seq=256,batch=16
  try jax -gpt2 --work lm --opt adamw
  unset LM
}
steps() {
  [ -n "$scripts" ] && try "$python" examples/bench/initial.py "$scripts" "$own"
  for workload in ${WORKLOADS:-mlp_b128 mlp_b1024 cnn_b200 lm_adamw lm_adafactor gpt2 lm_muon resnet18 mobilenet vit unet}; do
    for precision in ${PRECISIONS:-highest default}; do
      case $workload in
      mlp_b128) beside $workload mlp128 adam ;;
      mlp_b1024) beside $workload mlp1024 adam ;;
      cnn_b200) beside $workload cnn adafactor ;;
      lm_adamw) beside $workload lm adamw ;;
      lm_adafactor) beside $workload lm adafactor ;;
      gpt2) gpt2 ;;
      *) ours '' --workload "$workload" ;;
      esac
    done
  done
}

compile() {
  try "$programs/bench" compile --scan --processors "$devices" --backend xla
}

for part in $parts; do $part; done
exit $failed
