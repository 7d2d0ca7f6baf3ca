#!/usr/bin/env bash
# Trains the language model on all tasks of a Slurm job: `sbatch examples/cluster/slurm.sh`, with
# `lm`'s own flags behind it. Sizes are the job's: data parallel over nodes, the model over the cores
# of a node, which its tasks share: `sbatch --ntasks-per-node=1 --cpus-per-task=4 …` is one process
# of 4 threads per node.
#SBATCH --job-name=mesh-lm
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --distribution=block
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
set -euo pipefail

program=${MESH_PROGRAM:-target/release/lm}
nodes=${SLURM_NNODES:?start this with sbatch}
tasks=${SLURM_NTASKS_PER_NODE:?start this with sbatch}
cores=${SLURM_CPUS_PER_TASK:-1}

srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="$cores" --cpu-bind=cores "$program" \
  --mesh "data:${nodes};model:$((tasks * cores))" \
  --layout "batch:data;heads:model;d_ff:model;vocab:model" "$@"
