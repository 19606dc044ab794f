"""Elastic jobs under faults: workers, the launcher and hosts go, come back and hang.

Each case draws its faults from its seed, lets the job end, and checks what no fault may change:
each sample of the data set counted exactly once an epoch, sums right, nothing left behind. Prints
one JSON line for each case. The same kind and seed draw the same faults:
    tests/chaos/elastic --seed 17 --only kill
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver.sandbox import Sandbox
from driver.watchdog import stacks

HERE = Path(__file__).resolve().parent.parent
LIMIT_S = 120


class Job:
    """One elastic job and its faults."""

    def __init__(self, seed: int, arguments: argparse.Namespace, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.complaints: list[str] = []
        self.expect_success = True
        self.spared = 0
        self.ranks = self.random.randint(2, arguments.most_ranks)
        self.hostfile = folder / "hosts"
        self.write_hosts(self.ranks)
        self.output = folder / "output"
        command = [arguments.ronde, "run", "--hostfile", str(self.hostfile), "--min-np", "1"]
        command += ["-np", str(self.ranks), "--max-np", str(self.ranks + 2), "--"]
        command += arguments.command or [sys.executable, "-B", str(HERE / "elastic_worker.py")]
        environment = {**os.environ, "RONDE_FREEZE_TIMEOUT_SECONDS": "4", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=self.output.open("w"), stderr=subprocess.STDOUT, env=environment
        )

    def write_hosts(self, slots: int) -> None:
        new = self.hostfile.with_suffix(".new")
        new.write_text(f"localhost slots={slots}\n")
        new.replace(self.hostfile)

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def running(self) -> bool:
        return self.process.poll() is None

    def workers(self) -> list[int]:
        """The living workers' processes, the oldest first."""
        found = []
        for pid in Sandbox.descendants():
            with contextlib.suppress(OSError):
                if b"RONDE_WORKER=" in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(pid)
        return found

    def wait_for(self, condition: Callable[[], bool], seconds: float = 60) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.running():
            if condition():
                return True
            time.sleep(0.002)
        return condition()

    def wait_for_epoch(self, number: int) -> bool:
        return self.wait_for(lambda: f"epoch {number}:" in self.text())

    def epochs(self) -> int:
        return len(re.findall(r"^ronde run: epoch \d+:", self.text(), re.M))

    def pause(self, most: float) -> None:
        time.sleep(self.random.random() * most)

    def hit(self, number: int) -> None:
        """Sends a signal to one of the workers. One of the first ones, which always holds the
        state, is spared."""
        workers = self.workers()
        if self.spared == 0 and workers:
            self.spared = self.random.choice(workers)
        workers = [pid for pid in workers if pid != self.spared]
        if workers:
            with contextlib.suppress(OSError):
                os.kill(self.random.choice(workers), number)

    def end(self) -> None:
        """Waits for the job's end and checks its result."""
        try:
            status = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.complaints.append("hang: " + "\n".join(stacks(pid) for pid in self.workers()))
            self.process.kill()
            self.process.wait()
            return
        text = self.text()
        if "WRONG" in text:
            self.complaints.append("a wrong result")
        if self.expect_success and (status != 0 or "RESULT ok" not in text):
            self.complaints.append(f"exit status {status}")


def kill(job: Job) -> None:
    """Up to three workers die, at random moments of one run."""
    for _ in range(job.random.randint(1, 3)):
        job.pause(0.7)
        job.hit(signal.SIGKILL)


def recovery(job: Job) -> None:
    """More workers die while the others recover, or give a joiner the state."""
    job.pause(0.5)
    for _ in range(3):
        job.hit(signal.SIGKILL)
        job.pause(job.random.choice([0.003, 0.03, 0.3]))


def joiner(job: Job) -> None:
    """A joiner dies while it joins."""
    job.hit(signal.SIGKILL)
    first = set(job.workers())
    job.wait_for(lambda: bool(set(job.workers()) - first), 5)
    job.pause(1.0)
    for pid in set(job.workers()) - first:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def leave(job: Job) -> None:
    """A worker is asked to leave."""
    job.pause(0.5)
    job.hit(signal.SIGTERM)


def flap(job: Job) -> None:
    """The number of slots grows and shrinks."""
    for _ in range(3):
        job.write_hosts(job.random.randint(1, job.ranks + 2))
        job.pause(1.5)


def freeze(job: Job) -> None:
    """A worker stops running, and may go on after it was given up."""
    job.pause(0.5)
    workers = job.workers()
    if len(workers) < 2:
        return
    frozen = job.random.choice(workers[1:])
    with contextlib.suppress(OSError):
        os.kill(frozen, signal.SIGSTOP)
        job.pause(9)
        os.kill(frozen, signal.SIGCONT)


def launcher(job: Job) -> None:
    """The launcher dies: no worker may stay."""
    job.pause(1)
    job.expect_success = False
    job.process.kill()


KINDS = {kind.__name__: kind for kind in (kill, recovery, joiner, leave, flap, freeze, launcher)}


def play(kind: str, seed: int, arguments: argparse.Namespace, sandbox: Sandbox) -> dict[str, Any]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=arguments.folder) as folder:
        job = Job(seed, arguments, Path(folder))
        if job.wait_for_epoch(1):
            KINDS[kind](job)
        job.end()
        end = time.monotonic() + 8  # workers of a dead launcher may take their time to end
        while sandbox.descendants() and time.monotonic() < end:
            time.sleep(0.05)
        job.complaints += [f"left behind: {what}" for what in sandbox.leftovers()]
        sandbox.sweep()
        line: dict[str, Any] = {"kind": f"elastic_{kind}", "seed": seed, "ranks": job.ranks}
        line["epochs"] = job.epochs()
        line["complaints"] = job.complaints
        if job.complaints:
            line["output"] = job.text()[-6000:]
    hung = any(text.startswith("hang") for text in job.complaints)
    line["outcome"] = "hang" if hung else "bad" if job.complaints else "ok"
    line["seconds"] = round(time.monotonic() - began, 2)
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ronde", default=str(Path(sys.executable).parent / "ronde"))
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--count", type=int, default=1, help="cases of each kind")
    parser.add_argument("--only", action="append", choices=list(KINDS), help="these kinds alone")
    parser.add_argument("--most-ranks", type=int, default=4)
    parser.add_argument("--bad-only", action="store_true", help="print no line for good cases")
    parser.add_argument("--worker", help="the C++ worker: tests/chaos/ronde_chaos_elastic_worker")
    parser.add_argument("command", nargs="*", help="a program of your own, after --")
    arguments = parser.parse_args()
    if arguments.worker:
        arguments.command = [arguments.worker]
    arguments.folder = "/var/tmp"
    sandbox = Sandbox(HERE)
    outcomes = {"ok": 0, "bad": 0, "hang": 0}
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        for kind in arguments.only or KINDS:
            line = play(kind, seed, arguments, sandbox)
            outcomes[line["outcome"]] += 1
            if not arguments.bad_only or line["outcome"] != "ok":
                print(json.dumps(line), flush=True)
    print(json.dumps(outcomes), flush=True)
    return 0 if outcomes["bad"] + outcomes["hang"] == 0 else 1
