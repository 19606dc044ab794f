"""Measures `srun` to the first allreduce, beyond `srun hostname`: two nodes of two tasks.

    python tests/clusters/slurm_start.py [C++ PROGRAM]

Runs are interleaved; prints medians and quartiles in seconds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clusters.slurm_cluster import SlurmCluster

ROUNDS = 15
SUM = str(Path(__file__).resolve().parents[2] / "examples" / "slurm" / "sum.py")
TASKS = ["srun", "-N2", "--ntasks-per-node=2"]


def main() -> None:
    programs = {
        "hostname": ["hostname"],
        "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
        "Python, without torch": [sys.executable, SUM],
    }
    if len(sys.argv) > 1:
        programs["C++"] = [sys.argv[1]]
    for auth in ("munge", "none"):
        seconds = {name: [] for name in programs}
        with SlurmCluster(auth=auth) as cluster:
            for _ in range(ROUNDS):
                for name, program in programs.items():
                    began = time.monotonic()
                    done = subprocess.run(
                        cluster.command([*TASKS, *program]), capture_output=True, text=True
                    )
                    seconds[name].append(time.monotonic() - began)
                    assert done.returncode == 0, done.stderr
        base = statistics.median(seconds["hostname"])
        for name, values in seconds.items():
            low, middle, high = statistics.quantiles(values, n=4)
            print(
                f"auth {auth}: {name}: {middle:.3f} s ({low:.3f} to {high:.3f}),"
                f" beyond hostname {middle - base:+.3f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
