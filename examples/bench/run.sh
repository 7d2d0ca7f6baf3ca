#!/bin/sh
# Runs our programs and the peers' in turns.
#
# usage: run.sh PEERS_SCRIPTS PEERS_VENVS [part ...] > results.txt
#   PEERS_SCRIPTS  the folder of the peers' programs (peer_jax.py, common.py, ...)
#   PEERS_VENVS    the folder that their setup.sh filled
#   parts          peak mlp cnn lm scaling compile collectives update; all of them by default
# ROUNDS=3 rounds; SECS=4 seconds a program; RUN= a command to run every program under, which may
# wait for the machine to be quiet; MTF64=1 has Mesh TensorFlow lower for 64 processors (3 minutes, 5.5 GB).
#
# Each number is one line, `result workload=... peer=... layout=... metric=... value=...`; a program
# that failed is one line, `failed ...`. `table.py` makes tables of them.
set -eu
scripts=$(cd "${1:?usage: run.sh PEERS_SCRIPTS PEERS_VENVS [part ...]}" && pwd)
venvs=$(cd "${2:?usage: run.sh PEERS_SCRIPTS PEERS_VENVS [part ...]}" && pwd)
shift 2
parts=${*:-peak mlp cnn lm scaling compile collectives update}
seconds=${SECS:-4}
here=$(cd "$(dirname "$0")/../.." && pwd)
mpi=$(command -v mpicc >/dev/null && echo "--features mpi" || true)
# shellcheck disable=SC2086
(cd "$here" && cargo build --release --locked --quiet -p examples --bin bench $mpi)
bench=${CARGO_TARGET_DIR:-$here/target}/release/bench
init=$(mktemp -d)
errors=$(mktemp)
trap 'rm -rf "$init" "$errors"' EXIT
"$venvs/jax/bin/python" "$here/examples/bench/initial.py" "$scripts" "$init"
cd "$scripts"

try() {
  # shellcheck disable=SC2086
  ${RUN:-} timeout "${LIMIT:-300}" "$@" 2>"$errors" ||
    echo "failed rc=$? command=\"$*\" $(grep -v '^ *$' "$errors" | tail -1 | cut -c1-200)"
}
ours() { # WORKLOAD LAYOUT ...
  workload=$1
  shift
  for layout; do
    try "$bench" step --workload "$workload" --name "$layout" --seconds "$seconds" --init "$init"
  done
}
python() { # VENV SCRIPT FLAGS ...
  venv=$1
  shift
  try "$venvs/$venv/bin/python" "$@"
}
peer() { # VENV SCRIPT WORK OPTIMIZER LAYOUT ...
  venv=$1 script=$2 work=$3 optimizer=$4
  shift 4
  for layout; do
    python "$venv" "$script" --work "$work" --opt "$optimizer" --layout "$layout" --secs "$seconds"
  done
}

round() {
  for part in $parts; do
    case $part in
    peak) try "$venvs/peak" 2 ;;
    mlp)
      for batch in 128 1024; do
        ours mlp_b$batch single dp2 dp2z mp2
        peer jax peer_jax.py mlp$batch adam single mp2
        ours mlp_b$batch dp2 dp2z
        peer tf221 peer_mtf.py mlp$batch adam single
        peer torch peer_torch.py mlp$batch adam single
      done
      ;;
    cnn)
      ours cnn_b200 single dp2 dp2z sp2
      peer torch peer_torch.py cnn adafactor single
      ours cnn_b200 dp2
      peer jax peer_jax.py cnn adafactor dp2
      peer tf221 peer_mtf.py cnn adafactor single
      ;;
    lm)
      for optimizer in adamw adafactor; do
        ours lm_$optimizer single dp2 dp2z mp2
        peer tf221 peer_mtf.py lm $optimizer single dp2
        ours lm_$optimizer dp2 dp2z
        peer jax peer_jax.py lm $optimizer dp2
        peer torch peer_torch.py lm $optimizer single
      done
      ;;
    scaling)
      try "$bench" scaling --seconds "$seconds"
      ;;
    compile)
      for processors in 4 64 4096; do try "$bench" compile --processors $processors --repeats 1; done
      for layers in 6 12 50 100; do try "$bench" compile --processors 64 --layers $layers; done
      for processors in 4 64; do python jax graph_jax.py --layers 24 --devices $processors; done
      python tf212 graph_mtf.py --layers 24 --procs 4
      [ -z "${MTF64:-}" ] || python tf212 graph_mtf.py --layers 24 --procs 64
      ;;
    collectives)
      for members in 2 4; do
        try "$bench" all-reduce --processors $members
        try mpirun --allow-run-as-root --oversubscribe -n $members "$venvs/allreduce_mpi"
        [ -z "$mpi" ] || try mpirun --allow-run-as-root --oversubscribe -n $members \
          "$bench" all-reduce --processors $members
        python jax coll_jax.py $members
      done
      ;;
    update) try "$bench" update ;;
    *)
      echo "unknown part $part" >&2
      exit 2
      ;;
    esac
  done
}

count=0
while [ "$count" -lt "${ROUNDS:-3}" ]; do
  round
  count=$((count + 1))
done
