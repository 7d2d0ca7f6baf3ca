#!/bin/sh
# Instructions that a training step takes on one processor, and compiling, counted by valgrind: the
# same on a busy machine. valgrind has no AVX-512, so the AVX2 path is counted.
#
# usage: instructions.sh > after.txt; instructions.sh before.txt
#   With a file of an earlier run: fails if a count has grown by more than GROWTH=3 percent.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
earlier=${1:-/dev/null}
(cd "$here" && cargo build --release --locked --quiet -p examples --bin bench)
bench=${CARGO_TARGET_DIR:-$here/target}/release/bench

count() { # FLAGS ...: of the whole process
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$@" 2>&1 >/dev/null |
    sed -n 's/.*Collected : //p'
}
compare() { # WORKLOAD COUNT
  echo "result workload=$1 peer=mesh layout=single metric=instructions value=$2"
  awk -v workload="workload=$1" -v now="$2" -v growth="${GROWTH:-3}" '
    $2 == workload && $5 == "metric=instructions" {
      sub("value=", "", $6)
      if (now > $6 * (1 + growth / 100)) { print "failed " workload " was " $6; exit 1 }
    }' "$earlier"
}

bad=0
# Compiling is linear in layers: what 8 more cost does not depend on what the process does besides.
compare compile_8_layers $(($(count compile --layers 12) - $(count compile --layers 4))) || bad=1
compare mlp_b128_step $((($(count step --workload mlp_b128 --steps 3) - $(count step --workload mlp_b128 --steps 1)) / 2)) || bad=1
exit $bad
