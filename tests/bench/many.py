"""Times 160 asynchronous allreduces of 4 KB from PyTorch, by turns with the same ones from C++.

usage: python tests/bench/many.py [--turns 5]. Prints each turn's medians over 2 ranks, and their
ratio.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 500


def from_cpp():
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        bench = ["bench", "allreduce", "-np", "2", "--mode", "many", "--json", str(rows)]
        subprocess.run([sys.executable, "-m", "ronde", *bench], check=True, capture_output=True)
        found = [json.loads(line) for line in rows.read_text().splitlines()]
    return next(row["p50_us"] for row in found if row["system"] == "ronde-async") / 1e3


def from_torch():
    job = ["run", "-np", "2", sys.executable, __file__, "--rank"]
    done = subprocess.run(
        [sys.executable, "-m", "ronde", *job], check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def work():
    """Prints the median of this job's rounds in ms, by rank 0."""
    import ronde.torch as hvd
    import torch

    hvd.init()
    named = [(f"many.{i}", torch.zeros(1024)) for i in range(160)]
    found = []
    for _ in range(ROUNDS):
        hvd.barrier()
        begin = time.perf_counter()
        handles = [hvd.allreduce_async_(tensor, op=hvd.Sum, name=name) for name, tensor in named]
        for handle in handles:
            hvd.synchronize(handle)
        found.append((time.perf_counter() - begin) * 1e3)
    if hvd.rank() == 0:
        print(statistics.median(found[ROUNDS // 10 :]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        return work()
    ratios = []
    for _ in range(options.turns):
        cpp, torch = from_cpp(), from_torch()
        ratios.append(torch / cpp)
        print(f"C++ {cpp:.3f} ms, torch {torch:.3f} ms: {ratios[-1]:.2f}", flush=True)
    print(f"median of the ratios: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
