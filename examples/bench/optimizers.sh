#!/bin/sh
# Trains the language model of `lm` with several optimizers, each with several rates and seeds, and prints the
# held-out loss of each run and, for each optimizer, the mean over seeds with its best rate.
#
# usage: optimizers.sh TEXT OPTIMIZER=RATE,RATE,RATE ... > results.txt
#   optimizers.sh shakespeare.txt adam=1e-3,3e-3,1e-2 muon=1e-3,3e-3,1e-2
# STEPS=1500 steps; SEEDS="1 2 3"; RUN= a command to run every program under; LM= the program, if it is built.
set -eu
text=${1:?usage: optimizers.sh TEXT OPTIMIZER=RATE,RATE,RATE ...}
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
[ -n "${LM:-}" ] || (cd "$here" && cargo build --release --locked --quiet -p examples --bin lm)
lm=${LM:-${CARGO_TARGET_DIR:-$here/target}/release/lm}
for seed in ${SEEDS:-1 2 3}; do
    for pair in "$@"; do
        optimizer=${pair%%=*}
        for rate in $(echo "${pair#*=}" | tr , ' '); do
            # shellcheck disable=SC2086
            loss=$(${RUN:-} "$lm" --text "$text" --optimizer "$optimizer" --lr "$rate" --seed "$seed" \
                --steps "${STEPS:-1500}" --sample 0 | sed -n 's/.*held-out \([0-9.]*\) nats.*/\1/p' | tail -1)
            echo "$optimizer $rate $seed ${loss:-failed}"
        done
    done
done | tee /dev/stderr | awk '
    $4 != "failed" { sum[$1 " " $2] += $4; count[$1 " " $2]++ }
    END {
        for (pair in sum) {
            split(pair, part, " ")
            mean = sum[pair] / count[pair]
            if (!(part[1] in best) || mean < best[part[1]]) { best[part[1]] = mean; rate[part[1]] = part[2] }
        }
        for (name in best) printf "best %s rate %s held-out %.4f\n", name, rate[name], best[name]
    }'
