"""How soon an elastic job goes on after a death, and how soon a joiner works.

Kills one of the workers again and again. Prints one JSON line: the milliseconds from the signal to
the end of the last survivor's next operation, and those from a joiner's first line of Python after
its imports to the end of its first operation.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from driver.elastic_hosts import Hosts, why_not
from driver.sandbox import Sandbox

DEATHS_PER_JOB = 4  # a host whose workers die often gets its next one later and later
HERE = Path(__file__).resolve().parent.parent
WORKERS = {"numpy": "recovery_worker.py", "torch": "recovery_torch_worker.py"}
FIRST = re.compile(r"FIRST ([\d.]+) size (\d+) pid (\d+) since ([\d.]+)")


class Watch:
    """The first operations of each worker in each epoch, as they are printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.changed = threading.Condition()
        self.firsts: list[tuple[float, int, int, float]] = []  # time, size, pid, start of the pid
        self.process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if match := FIRST.search(line):
                with self.changed:
                    when, size, pid, start = match.groups()
                    self.firsts.append((float(when), int(size), int(pid), float(start)))
                    self.changed.notify_all()

    def wait(self, count: int, size: int, since: float) -> list[tuple[float, int, int, float]]:
        """The first `count` of an epoch of this size that ended after `since`."""

        def found() -> list[tuple[float, int, int, float]]:
            return [one for one in self.firsts if one[1] == size and one[0] > since]

        with self.changed:
            if not self.changed.wait_for(lambda: len(found()) >= count, 90):
                raise SystemExit(f"no epoch of {size} ranks within 90 s: {self.firsts[-8:]}")
            return found()[:count]

    def wait_for_all(self, pids: set[int], since: float) -> float:
        """The time by which all of these have ended an operation of an epoch after `since`.

        A replacement that is quick may be in that epoch, too.
        """

        def found() -> dict[int, float]:
            return {pid: when for when, _, pid, _ in reversed(self.firsts) if when > since}

        with self.changed:
            if not self.changed.wait_for(lambda: pids <= found().keys(), 90):
                raise SystemExit(f"{pids} have not gone on within 90 s: {self.firsts[-8:]}")
            return max(found()[pid] for pid in pids)


def summary(values: list[float]) -> dict[str, float]:
    """Milliseconds: median, 99th percentile and greatest."""
    ordered = sorted(values)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return {
        "p50": round(statistics.median(ordered), 2),
        "p99": round(last, 2),
        "most": round(ordered[-1], 2),
    }


@contextlib.contextmanager
def pretended_hosts(count: int) -> Iterator[Hosts | None]:
    """So many network namespaces with an sshd each; none for 0."""
    if count == 0:
        yield None
        return
    sandbox = Sandbox(HERE)
    if reason := why_not(sandbox):
        print(f"skipped: {reason}")
        raise SystemExit(77)
    with tempfile.TemporaryDirectory(prefix="recoveries-", dir="/var/tmp") as folder:
        try:
            yield Hosts(count, Path(folder))
        finally:
            sandbox.sweep()


def placement(hosts: Hosts | None, ranks: int) -> list[str]:
    """Options of `ronde run` that spread the ranks evenly."""
    if hosts is None:
        return []
    count = len(hosts.all)
    slots = [ranks // count + (host < ranks % count) for host in range(count)]
    places = [f"{host.address}:{number}" for host, number in zip(hosts.all, slots)]
    return ["-H", ",".join(places), *hosts.options()]


def play(
    arguments: argparse.Namespace, hosts: Hosts | None, count: int
) -> tuple[list[float], list[float]]:
    """(times of deaths, times of joins) in milliseconds, of one job with so many deaths."""
    ranks = arguments.np
    command = [arguments.ronde, "run", "-np", str(ranks), "--min-np", "1"]
    command += [*placement(hosts, ranks), "--env", f"STATE_BYTES={arguments.state_mb * 1e6:.0f}"]
    command.append("--")
    python_worker = [sys.executable, "-B", str(HERE / WORKERS[arguments.framework])]
    command += [arguments.worker] if arguments.worker else python_worker
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        return measure(Watch(process), ranks, count)
    finally:
        process.terminate()
        process.wait(30)


def measure(watch: Watch, ranks: int, count: int) -> tuple[list[float], list[float]]:
    """The same of a job that runs."""
    deaths, joins = [], []
    living = [pid for _, _, pid, _ in watch.wait(ranks, ranks, 0)]
    for _ in range(count):
        time.sleep(0.3 + random.random() * 0.1)
        victim = random.choice(living)
        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        survivors = {pid for pid in living if pid != victim}
        deaths.append(1e3 * (watch.wait_for_all(survivors, killed) - killed))
        again = watch.wait(ranks, ranks, killed)
        living = [pid for _, _, pid, _ in again]
        joins += [1e3 * (when - start) for when, _, pid, start in again if pid not in survivors]
        time.sleep(1.0)  # a worker that dies at once again is replaced after a pause
    return deaths, joins


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ronde", default=str(Path(sys.executable).parent / "ronde"))
    parser.add_argument("--np", type=int, default=4)
    parser.add_argument("--count", type=int, default=20, help="deaths")
    parser.add_argument("--state-mb", type=float, default=1.0)
    parser.add_argument("--framework", choices=list(WORKERS), default="numpy")
    parser.add_argument("--worker", help="the C++ worker: tests/chaos/ronde_chaos_recovery_worker")
    parser.add_argument("--hosts", type=int, default=0, help="network namespaces as hosts")
    arguments = parser.parse_args()
    deaths: list[float] = []
    joins: list[float] = []
    with pretended_hosts(arguments.hosts) as hosts:
        while len(deaths) < arguments.count:
            of_job = play(arguments, hosts, min(DEATHS_PER_JOB, arguments.count - len(deaths)))
            deaths += of_job[0]
            joins += of_job[1]
    line = {"hosts": max(1, arguments.hosts), "ranks": arguments.np}
    line |= {"state_mb": arguments.state_mb, "deaths": len(deaths)}
    print(json.dumps({**line, "death_ms": summary(deaths), "join_ms": summary(joins)}))
    return 0
