"""Jobs of several processes by `ronde run`, and the results of cases that their ranks run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LIMIT_S = 480  # frameworks take a minute to import where many processes share a core


def launch(command, np, environment=None, options=()):
    """Starts `command` on np ranks, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ronde", "run", "-np", str(np), *options, "--", *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def end(process, limit_s=LIMIT_S, before_kill=lambda: None):
    """(exit status, output); a job that overruns the limit is killed, and its status is None."""
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        before_kill()
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output
    return process.returncode, output


def finish(process, limit_s=LIMIT_S):
    """As end(), but a job that overruns the limit fails the test."""
    status, output = end(process, limit_s)
    if status is None:
        pytest.fail(f"the job did not end within {limit_s} s; its output:\n{output}")
    return status, output


def free_ports(count):
    """The first of `count` ports in a row that nobody has, and that the kernel gives to nobody."""
    for first in range(random.randrange(20_000, 30_000), 32_000, count):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError("no free ports")


class CaseResults:
    """What every rank says about the cases of some files, run in one job."""

    def __init__(
        self,
        files,
        np,
        folder,
        python=sys.executable,
        options=(),
        environment=None,
        only=(),
        limit_s=LIMIT_S,
    ):
        """Runs the job; each rank writes its results as it goes. only: names of cases, or all."""
        (folder / "only").write_text("\n".join(only))
        command = [python, str(HERE / "run_cases.py"), str(folder), *map(str, files)]
        # A case that fails on one rank alone must not hold up the others.
        environment = {"RONDE_STALL_ERROR_SECONDS": "30", **(environment or {})}
        self.folder, self.np = folder, np
        self.status, self.output = self.wait(launch(command, np, environment, options), limit_s)
        self.ending = f"ended with {self.status}"
        if self.status is None:
            self.ending = f"was killed after {limit_s} s"
        self.ranks, self.stacks = [], []
        for rank in range(np):
            lines = self._text(rank, "jsonl").splitlines()
            self.ranks.append(dict(json.loads(line) for line in lines))
            self.stacks.append(self._text(rank, "stacks"))

    def _text(self, rank, suffix):
        path = self.folder / f"{rank}.{suffix}"
        return path.read_text() if path.exists() else ""

    def wait(self, process, limit_s):
        """As end(); ranks that overrun the limit say first what their threads are doing."""
        return end(process, limit_s, self._ask_for_stacks)

    def _ask_for_stacks(self):
        for rank in range(self.np):
            pid = self._text(rank, "pid")
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGUSR1)
        time.sleep(2)

    def check(self, name):
        """Fails unless every rank finished the case well; says first what went wrong."""
        for rank, results in enumerate(self.ranks):
            if results.get(name):
                pytest.fail(f"on rank {rank}: {results[name]}", pytrace=False)
        for rank, results in enumerate(self.ranks):
            if name not in results:
                pytest.fail(self._not_reached(rank, name), pytrace=False)

    def _not_reached(self, rank, name):
        last = list(self.ranks[rank])[-1:]
        return (
            f"rank {rank} did not finish {name}: the job {self.ending}; "
            f"the last case that this rank finished: {last}\n"
            f"{self.stacks[rank]}\noutput ends:\n{self.output[-3000:]}"
        )
