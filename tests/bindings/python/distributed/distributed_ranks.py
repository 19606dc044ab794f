"""Ranks without a launcher: nobody ends the others when one of them dies."""

import os
import subprocess
import sys
import textwrap
import time

from jobs import LIMIT_S, free_ports

PRELUDE = """
import datetime, os, signal, sys, time
import pytest
import torch
import torch.distributed as dist
import ronde
import ronde.torch.distributed

rank, size, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def start(rank=rank, size=size, address=address):
    limit = datetime.timedelta(seconds=30)
    dist.init_process_group(
        "ronde", init_method=address, rank=rank, world_size=size, timeout=limit
    )


def added(group=None):
    total = torch.ones(100)
    dist.all_reduce(total, group=group)
    assert total.unique().numel() == 1
    return int(total[0])


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def add_until_failure(group=None):
    with pytest.raises(ronde.Error) as raised:
        while True:
            added(group)
    return raised.value


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()
"""


def run_ranks(script, size, folder, arguments=(), limit_s=LIMIT_S):
    """(exit status, output) of each rank that runs `script`, after PRELUDE."""
    path = folder / "rank.py"
    path.write_text(PRELUDE + textwrap.dedent(script))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RONDE_", "TORCHELASTIC_"))}
    files = [folder / f"rank{rank}.log" for rank in range(size)]
    address = f"tcp://127.0.0.1:{free_ports(1)}"
    processes = []
    for rank, file in enumerate(files):
        with file.open("w") as log:
            command = [sys.executable, str(path), str(rank), str(size), address, *arguments]
            environment = {**clean, "OMP_NUM_THREADS": "1"}
            processes.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            )
    end = time.monotonic() + limit_s
    try:
        for process in processes:
            process.wait(max(end - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        pass  # its status is None
    statuses = [process.poll() for process in processes]
    for process in processes:
        process.kill()
        process.wait()
    return list(zip(statuses, (file.read_text() for file in files)))
