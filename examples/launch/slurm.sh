#!/usr/bin/env bash
# Train on two hosts with a parameter server and three workers:  sbatch examples/launch/slurm.sh
#SBATCH --job-name=aioflow-digits
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --time=00:15:00
set -euo pipefail

# Whoever has the token may run anything on the tasks. srun hands it on with the environment.
AIOFLOW_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export AIOFLOW_TOKEN

# The first process is the parameter server, all others are workers.
export AIOFLOW_PS=1

# Host by host, as aioflow counts them; if a process fails, the others end, too.
srun --distribution=block --kill-on-bad-exit=1 python examples/engine_digits.py --host 0.0.0.0
