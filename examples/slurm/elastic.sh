#!/bin/bash
# An elastic job of Slurm that may be preempted. Submit it with: sbatch examples/slurm/elastic.sh
# It gets SIGTERM a minute before its end, or when it is preempted. Its workers then leave after a
# commit. Slurm starts the job again, and it goes on from its newest checkpoint.
#SBATCH --job-name=ronde-elastic
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:10:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60

asked=''
if [ $# -eq 0 ]; then set -- python examples/slurm/elastic.py; fi

# The hosts are the nodes of the allocation; ssh reaches the other ones.
ronde run --min-np 1 -- "$@" &
trap 'asked=1; kill -TERM $!' TERM
wait $!
status=$?
# The trap has ended the wait: the workers are leaving now.
if [ -n "$asked" ]; then
  wait $!
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
