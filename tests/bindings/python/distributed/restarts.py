"""Lets torchrun restart a job many times, each time for another fault, and counts the successes.

usage: restarts.py [--restarts 100] [--ranks 2] [--api torch|horovod] [--seed 1] [--limit-s 1800]

An attempt works if all ranks have added up a number that is the attempt's own. The last line says
how many restarts worked. The exit status is 0 if all did.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

# Moments of a worker's life at which it is killed, and ways to fail by itself.
FAULTS = (
    "killed before import",
    "killed before init",
    "killed in init",
    "exception before init",
    "exception in training",
    "exit in training",
    "killed in training",
    "killed in destroy",
)


def fault_of(attempt, restarts, seed):
    """The fault of an attempt; the last one has none."""
    return FAULTS[(attempt + seed) % len(FAULTS)] if attempt < restarts else ""


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def tell(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Torch:
    """The job as a script of torch.distributed sees it."""

    def __init__(self):
        import ronde.torch.distributed  # noqa: F401

    def init(self):
        import torch.distributed as dist

        dist.init_process_group("ronde")

    def add(self, value):
        import torch
        import torch.distributed as dist

        tensor = torch.full((1000,), float(value))
        dist.all_reduce(tensor)
        assert tensor.unique().numel() == 1
        return int(tensor[0])

    def destroy(self):
        import torch.distributed as dist

        dist.destroy_process_group()


class Horovod:
    """The job as a script of ronde.torch sees it."""

    def __init__(self):
        import ronde.torch  # noqa: F401

    def init(self):
        import ronde.torch as hvd

        hvd.init()

    def add(self, value):
        import ronde.torch as hvd
        import torch

        return int(hvd.allreduce(torch.tensor([float(value)]), op=hvd.Sum)[0])

    def destroy(self):
        import ronde.torch as hvd

        hvd.shutdown()


def work(api, restarts, seed):
    """One rank in one attempt: meets a planted fault, but in the last attempt."""
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    chance = random.Random(f"{seed} {attempt}")
    fault = fault_of(attempt, restarts, seed)
    hit = chance.randrange(size) == rank
    after_s = chance.uniform(0, 0.03)
    if fault == "killed before import" and hit:
        kill_self()
    import torch  # noqa: F401

    job = {"torch": Torch, "horovod": Horovod}[api]()
    if fault == "killed before init" and hit:
        kill_self()
    if fault == "exception before init" and hit:
        raise ValueError("planted")
    if fault == "killed in init" and hit:
        threading.Timer(after_s, kill_self).start()
    job.init()
    assert job.add(attempt + 1) == (attempt + 1) * size
    tell(f"attempt {attempt} rank {rank} added")
    if not fault:
        job.destroy()
        tell(f"rank {rank} of {size} done")
        return
    if fault == "killed in training" and hit:
        threading.Timer(after_s, kill_self).start()
    for step in range(3):
        job.add(step)
    if hit:
        fail(fault, job)
    while True:  # until the fault reaches this rank too
        job.add(0)


def fail(fault, job):
    """The faults of a rank that has trained."""
    if fault == "exception in training":
        raise ValueError("planted")
    if fault == "exit in training":
        os._exit(3)
    if fault == "killed in destroy":
        threading.Timer(0.001, kill_self).start()
        job.destroy()
    time.sleep(1)
    kill_self()


def torchrun(*options):
    """The command that starts this file's work() by torchrun."""
    return [sys.executable, "-m", "torch.distributed.run", "--monitor-interval", "0.05", *options]


def worked(output, restarts, ranks, seed):
    """How many of the restarts led to a job that worked, by what the ranks have printed.

    A restart whose rank meets a fault before it can add counts if torchrun went on to the next.
    """
    added = set(map(tuple, re.findall(r"attempt (\d+) rank (\d+) added", output)))
    full = {a for a in range(restarts + 1) if all((str(a), str(r)) in added for r in range(ranks))}
    last = max(full, default=0)
    faults = {a: fault_of(a, restarts, seed) for a in range(last)}
    early = {a for a, fault in faults.items() if "before" in fault or "in init" in fault}
    return len((full | early) - {0})


def run(restarts, ranks, api, seed, limit_s):
    """(restarts that worked, exit status or None, output)."""
    command = torchrun("--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")
    command += ["--rdzv-conf=last_call_timeout=1"]  # to wait for more hosts; else 30 s
    command += [f"--nproc-per-node={ranks}", f"--max-restarts={restarts}", str(Path(__file__))]
    command += ["--work", "--api", api, "--restarts", str(restarts), "--seed", str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # torchrun ends its workers, which lead sessions
        output, _ = process.communicate(timeout=480)
        status = None
    return worked(output, restarts, ranks, seed), status, output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--api", choices=("torch", "horovod"), default="torch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=1800)
    parser.add_argument("--log", type=Path, help="file for the job's output")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.api, chosen.restarts, chosen.seed)
        return
    started = time.monotonic()
    count, status, output = run(
        chosen.restarts, chosen.ranks, chosen.api, chosen.seed, chosen.limit_s
    )
    if chosen.log:
        chosen.log.write_text(output)
    seconds = time.monotonic() - started
    print(f"{count} of {chosen.restarts} restarts worked, exit status {status}, {seconds:.0f} s")
    raise SystemExit(status != 0 or count != chosen.restarts)


if __name__ == "__main__":
    main()
