#!/bin/bash
# A job of Slurm: four ranks on two nodes. Submit it with: sbatch examples/slurm/plain.sh
#SBATCH --job-name=ronde-plain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:10:00

# The programs that Slurm starts find rank, size, rendezvous and secret by themselves.
if [ $# -eq 0 ]; then set -- python examples/slurm/sum.py; fi
srun "$@"
