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

from driver.elastic_hosts import Host, Hosts, why_not
from driver.sandbox import Sandbox
from driver.watchdog import stacks

HERE = Path(__file__).resolve().parent.parent
LIMIT_S = {"numpy": 120, "torch": 240, "keras": 360}  # frameworks take seconds to start
WORKERS = {
    "numpy": "elastic_worker.py",
    "torch": "elastic_torch_worker.py",
    "keras": "elastic_keras_worker.py",
}


class Job:
    """One elastic job and its faults."""

    def __init__(self, seed: int, arguments: argparse.Namespace, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.complaints: list[str] = []
        self.expect_success = True
        self.spared = 0
        self.hosts: Hosts | None = arguments.network
        self.limit = LIMIT_S[arguments.framework] * (3 if self.hosts else 1)
        least = len(self.hosts.all) if self.hosts else 2
        self.ranks = self.random.randint(least, max(least, arguments.most_ranks))
        self.hostfile = folder / "hosts"
        self.write_hosts(self.ranks)
        self.output = folder / "output"
        command = [arguments.ronde, "run", "--hostfile", str(self.hostfile), "--min-np", "1"]
        command += ["-np", str(self.ranks), "--max-np", str(self.ranks + 2)]
        command += self.hosts.options() if self.hosts else []
        for name, value in self._variables(arguments).items():
            command += ["--env", f"{name}={value}"]
        worker = [sys.executable, "-B", str(HERE / WORKERS[arguments.framework])]
        command += ["--", *(arguments.command or worker)]
        environment = {**os.environ, "RONDE_FREEZE_TIMEOUT_SECONDS": "4", "OMP_NUM_THREADS": "1"}
        environment["TMPDIR"] = str(folder)  # PyTorch leaves a folder there
        self.process = subprocess.Popen(
            command, stdout=self.output.open("w"), stderr=subprocess.STDOUT, env=environment
        )

    def _variables(self, arguments: argparse.Namespace) -> dict[str, str]:
        """Of the workers. Some jobs of frameworks are long enough for a replacement to join."""
        variables = {}
        if arguments.framework != "numpy":
            variables["CHAOS_EPOCHS"] = str(self.random.choice([5, 40]))
        if self.hosts:
            variables["RONDE_LINK_TIMEOUT_MS"] = "2000"
            variables.setdefault("CHAOS_EPOCHS", str(self.random.choice([6, 60])))
        return variables

    def write_hosts(self, slots: int) -> None:
        lines = [f"localhost slots={slots}"]
        if self.hosts:
            lines = self.hosts.slots(slots, self.random)
        new = self.hostfile.with_suffix(".new")
        new.write_text("\n".join([*lines, ""]))
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

    def number_of(self, pid: int) -> int:
        """The worker's number; 0 if it has ended."""
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_bytes()
            if match := re.search(rb"RONDE_WORKER=(\d+)", variables):
                return int(match[1])
        return 0

    def wait_for(self, condition: Callable[[], bool], seconds: float = 60) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.running():
            if condition():
                return True
            time.sleep(0.002)
        return condition()

    def wait_for_epoch(self, number: int) -> bool:
        return self.wait_for(lambda: f"epoch {number}:" in self.text(), self.limit)

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
            status = self.process.wait(self.limit)
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


def coordinator(job: Job) -> None:
    """The worker that is rank 0 dies, and the next one as well."""
    for _ in range(2):
        job.pause(0.5)
        workers = sorted((job.number_of(pid), pid) for pid in job.workers())
        if len(workers) > 1:
            with contextlib.suppress(OSError):
                os.kill(workers[0][1], signal.SIGKILL)


def some_host(job: Job) -> Host:
    assert job.hosts is not None
    return job.random.choice(job.hosts.all)


def host(job: Job) -> None:
    """A host loses its power, and may come back."""
    job.pause(1.0)
    lost = some_host(job)
    lost.lose_power()
    if job.random.random() < 0.5:
        job.pause(20)
        lost.come_back()


def partition(job: Job) -> None:
    """A host is cut off from all others, or from one of them, and may be connected again."""
    job.pause(1.0)
    cut_off = some_host(job)
    other = some_host(job)
    if cut_off is other:
        cut_off.cut()
    else:
        cut_off.part_from(other)
    if job.random.random() < 0.7:
        job.pause(30)
        cut_off.come_back()


ON_HOSTS = (host, partition)
KINDS = {
    kind.__name__: kind
    for kind in (kill, recovery, joiner, leave, flap, freeze, coordinator, launcher, *ON_HOSTS)
}


def kinds_of(arguments: argparse.Namespace) -> list[str]:
    """Those that were asked for, or all that can be played."""
    all_kinds = [name for name, kind in KINDS.items() if arguments.network or kind not in ON_HOSTS]
    return arguments.only or all_kinds


def left_behind(sandbox: Sandbox, hosts: Hosts | None) -> list[str]:
    """Processes, files and sockets of a job that has ended."""
    if hosts is None:
        return sandbox.leftovers()
    spared = hosts.own_processes()
    return [
        f"process {pid} {sandbox._command(pid)}"
        for pid in sandbox.descendants()
        if pid not in spared
    ]


def play(kind: str, seed: int, arguments: argparse.Namespace, sandbox: Sandbox) -> dict[str, Any]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=arguments.folder) as folder:
        job = Job(seed, arguments, Path(folder))
        if job.wait_for_epoch(1):
            KINDS[kind](job)
        job.end()
        # Workers of a dead launcher may take their time to end; so do those of a host cut off.
        end = time.monotonic() + (60 if job.hosts else 8)
        while left_behind(sandbox, job.hosts) and time.monotonic() < end:
            time.sleep(0.05)
        job.complaints += [f"left behind: {what}" for what in left_behind(sandbox, job.hosts)]
        sandbox.sweep(job.hosts.own_processes() if job.hosts else set())
        if job.hosts:
            job.hosts.come_back()
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
    parser.add_argument("--framework", choices=list(WORKERS), default="numpy")
    parser.add_argument("--hosts", type=int, default=0, help="network namespaces as hosts, 2 to 8")
    parser.add_argument("command", nargs="*", help="a program of your own, after --")
    arguments = parser.parse_args()
    if arguments.worker:
        arguments.command = [arguments.worker]
    arguments.folder = "/var/tmp"
    sandbox = Sandbox(HERE)
    reason = why_not(sandbox) if arguments.hosts else ""
    if reason:
        print(f"skipped: {reason}")
        return 77
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=arguments.folder) as folder:
        arguments.network = Hosts(arguments.hosts, Path(folder)) if arguments.hosts else None
        try:
            return play_all(arguments, sandbox)
        finally:
            sandbox.sweep()


def play_all(arguments: argparse.Namespace, sandbox: Sandbox) -> int:
    """Plays the cases; returns the exit status."""
    outcomes = {"ok": 0, "bad": 0, "hang": 0}
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        for kind in kinds_of(arguments):
            line = play(kind, seed, arguments, sandbox)
            outcomes[line["outcome"]] += 1
            if not arguments.bad_only or line["outcome"] != "ok":
                print(json.dumps(line), flush=True)
    print(json.dumps(outcomes), flush=True)
    return 0 if outcomes["bad"] + outcomes["hang"] == 0 else 1
