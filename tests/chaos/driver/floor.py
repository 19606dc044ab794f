"""From kill -9 to the error on all survivors, against what any program could do.

Takes turns in one run: Ronde idle (survivors wait for an operation of the victim), Ronde busy
(16 MB allreduces), and for each the floor: as many processes with as much memory, watched by pidfd
and told by sockets, the machine idle or kept busy by a job of the same allreduces. Prints one JSON
line for each death and a last one with p50 and p99 of each. Exit status 1 where a target is missed.
    tests/chaos/deaths --count 200
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from driver.job import Job, now_us
from driver.main import find_worker
from driver.sandbox import Sandbox

Latencies = dict[str, list[float]]


def _told(job: Job, victim: int, event: str) -> float | None:
    """Kills a rank; ms until the last survivor has said `event`, None where one does not."""
    killed = now_us()
    with contextlib.suppress(ProcessLookupError):
        os.kill(job.pid(victim), signal.SIGKILL)
    survivors = [rank for rank in range(job.size) if rank != victim]
    if not job.wait_for(event, survivors, 20):
        return None
    return (max(job.events(event, rank)[0]["at_us"] for rank in survivors) - killed) / 1000


def _end(job: Job) -> None:
    for process in job.processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    job.finish()


@contextlib.contextmanager
def _load(worker: Path, size: int, busy: bool) -> Iterator[None]:
    """Keeps the machine busy with allreduces meanwhile."""
    if not busy:
        yield
        return
    job = Job(worker, size, "load")
    job.start_all(["reduce"])
    job.wait_for("ready", list(range(size)))
    try:
        yield
    finally:
        _end(job)


def _floor(worker: Path, size: int, hold_mb: int, victim: int, busy: bool) -> float | None:
    with _load(worker, size, busy):
        job = Job(worker, size, "floor")
        job.start([str(worker), "floor", f"size={size}", f"hold_mb={hold_mb}"])
        job.wait_for("ready", list(range(size)), 60)
        time.sleep(0.2)
        took = _told(job, victim, "told")
        job.finish()
    return took


def _ronde(worker: Path, size: int, hold_mb: int, victim: int, busy: bool) -> float | None:
    job = Job(worker, size, f"deaths-{victim}")
    waiting = ["stall", f"victim={victim}", "late_ms=1000000000"]
    job.start_all([*(["reduce"] if busy else waiting), f"hold_mb={hold_mb}"])
    job.wait_for("ready", list(range(size)), 60)
    time.sleep(0.2 + random.random() * 0.1)
    took = _told(job, victim, "failed")
    _end(job)
    return took


def percentile(values: list[float], percent: int) -> float:
    """Of values in any order; the nearest from below."""
    return sorted(values)[(len(values) - 1) * percent // 100] if values else float("nan")


def verdict(latencies: Latencies) -> dict[str, object]:
    """p50 and p99 of each system, and whether Ronde is within its targets."""
    line: dict[str, object] = {"kind": "deaths"}
    met = True
    for state in ("idle", "busy"):
        ronde, floor = latencies[f"ronde {state}"], latencies[f"floor {state}"]
        for percent, least, factor in ((50, 5.0, 2), (99, 50.0, 3)):
            mine, theirs = percentile(ronde, percent), percentile(floor, percent)
            line[f"{state} p{percent}"] = {"ronde_ms": round(mine, 2), "floor_ms": round(theirs, 2)}
            met &= mine <= max(least, factor * theirs)
    return {**line, "deaths": {name: len(all_) for name, all_ in latencies.items()}, "met": met}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=20, help="deaths of each sort")
    parser.add_argument("--size", type=int, default=4, help="ranks")
    parser.add_argument("--hold-mb", type=int, default=1024, help="memory of each rank")
    parser.add_argument("--worker", type=Path, default=find_worker())
    chosen = parser.parse_args()
    if chosen.worker is None:
        print("no worker: build the target ronde_chaos_worker, or say --worker", file=sys.stderr)
        return 2
    worker = chosen.worker.resolve()
    Sandbox(worker)
    latencies: Latencies = {}
    lost = 0
    for trial in range(chosen.count):
        for busy in (False, True):
            for system, measure in (("floor", _floor), ("ronde", _ronde)):
                victim = (trial + busy) % chosen.size
                took = measure(worker, chosen.size, chosen.hold_mb, victim, busy)
                name = f"{system} {'busy' if busy else 'idle'}"
                lost += took is None
                latencies.setdefault(name, []).extend([] if took is None else [took])
                print(json.dumps({"system": name, "victim": victim, "ms": took}), flush=True)
    line = {**verdict(latencies), "not_told": lost}
    print(json.dumps(line))
    return int(not line["met"] or lost > 0)
