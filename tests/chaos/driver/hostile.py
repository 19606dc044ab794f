"""Strangers by the million at a running job: how many get in, and what the job notices.

In turns of a second the job is left alone, a socket of this program's own is knocked at (what the
knocking itself costs the machine), and every socket on which the job listens: random bytes,
truncated and replayed messages, much too much, silence and slow bytes. Prints one JSON line. Exit
status 1 where a stranger was let in, memory grew, or the job failed.
    tests/chaos/hostile --connections 1000000
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import random
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

from driver.job import Job, now_us
from driver.main import find_worker
from driver.sandbox import Sandbox
from driver.strangers import HELD_OPEN, MAX_GROWTH_KIB, listeners, resident_kib

TURN_SECONDS = 1.0
HELLO_BYTES = 64  # what a door may say of itself before it knows who is there
DECOY = "\0ronde-hostile-decoy"
KINDS = ("silent", "random", "truncated", "replayed", "oversized", "slow")


class Strangers:
    """Connects, says something, and looks whether it is answered."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.held: deque[tuple[socket.socket, str]] = deque()
        self.counts: Counter[str] = Counter()
        self.refused = 0  # the door was shut: nobody came to it
        self.accepted = 0
        self.heard = b"\0" * HELLO_BYTES

    def knock(self, door: object) -> bool:
        """One connection; whether it came about."""
        family = socket.AF_UNIX if isinstance(door, str) else socket.AF_INET
        stranger = socket.socket(family, socket.SOCK_STREAM)
        stranger.setblocking(False)
        code = stranger.connect_ex(door)  # type: ignore[arg-type]
        if code not in (0, errno.EINPROGRESS):
            stranger.close()
            self.refused += 1
            return False
        kind = self.random.choice(KINDS)
        self.counts[kind] += 1
        with contextlib.suppress(OSError):
            stranger.send(self._words(kind))
        self.held.append((stranger, kind))
        if len(self.held) > HELD_OPEN:
            self._part()
        return True

    def _words(self, kind: str) -> bytes:
        draw = self.random
        if kind == "random":
            return draw.randbytes(draw.randrange(1, 200))
        if kind == "truncated":
            return self.heard[: draw.randrange(1, max(len(self.heard), 2))]
        if kind == "replayed":
            return self.heard
        if kind == "oversized":
            return b"\xff" * 200_000
        return b"" if kind == "silent" else b"r"

    def _part(self) -> None:
        """Looks what the oldest has been told, and leaves."""
        stranger, kind = self.held.popleft()
        with contextlib.suppress(OSError):
            if kind == "slow":
                stranger.send(b"o")
            told = stranger.recv(4096)
            self.heard = told or self.heard
            self.accepted += len(told) > HELLO_BYTES
        stranger.close()

    def leave(self) -> None:
        """Ends all connections."""
        while self.held:
            self._part()


def steps_between(job: Job, begin: int, end: int) -> int:
    """Steps that rank 0 has finished in an interval."""
    return sum(1 for event in job.events("step", 0) if begin <= event["at_us"] < end)


class Besieged:
    """A job, and strangers around it."""

    def __init__(self, worker: Path, size: int, seed: int) -> None:
        self.job = Job(worker, size, "hostile")
        self.strangers = Strangers(seed)
        self.decoy = socket.socket(socket.AF_UNIX)
        self.seconds: dict[str, float] = dict.fromkeys(("alone", "decoy", "knocked"), 0.0)
        self.steps: dict[str, int] = dict.fromkeys(self.seconds, 0)
        self.growth = 0

    def start(self) -> None:
        arguments = ["steps", "seed=1", "elements=20000", "run_ms=100000000", "tell_every=1"]
        self.job.start_all(arguments)
        self.job.wait_for("ready", list(range(self.job.size)))
        self.decoy.bind(DECOY)
        self.decoy.listen(64)
        self.decoy.setblocking(False)

    def turn(self, how: str) -> None:
        """One interval of one kind; measures the job's steps in it."""
        doors = [DECOY] if how == "decoy" else [d for d in listeners() if d != DECOY]
        begin = now_us()
        while now_us() - begin < TURN_SECONDS * 1e6:
            if how == "alone" or not doors:
                time.sleep(0.01)
            else:
                self._knock_at(doors, how)
        end = now_us()
        self.strangers.leave()
        time.sleep(0.05)  # events of the interval come in
        self.seconds[how] += (end - begin) / 1e6
        self.steps[how] += steps_between(self.job, begin, end)

    def warm_up(self) -> None:
        """The job touches the memory that it works in, which strangers have no part in."""
        self.turn("alone")
        self.seconds["alone"] = self.steps["alone"] = 0

    def _knock_at(self, doors: list[object], how: str) -> None:
        any_open = [self.strangers.knock(door) for door in doors for _ in range(16)]
        if how == "decoy":
            with contextlib.suppress(OSError):
                while True:
                    self.decoy.accept()[0].close()
        if not any(any_open):
            time.sleep(0.002)  # all doors are shut

    def rate(self, how: str) -> float:
        """Steps a second."""
        return self.steps[how] / max(self.seconds[how], 1e-9)

    def resident(self) -> list[int]:
        """KiB of each rank."""
        return [resident_kib(process.pid) for process in self.job.processes]

    def end(self) -> None:
        self.strangers.leave()
        for process in self.job.processes:
            process.kill()
            process.wait()


def turns(besieged: Besieged, wanted: int) -> Iterator[int]:
    """Alternates until enough strangers have come to the job."""
    came = 0
    while came < wanted:
        for how in ("alone", "decoy", "knocked", "knocked", "knocked"):
            before = sum(besieged.strangers.counts.values())
            besieged.turn(how)
            if how == "knocked":
                came += sum(besieged.strangers.counts.values()) - before
        yield came
        if any(process.poll() is not None for process in besieged.job.processes):
            return


def siege(worker: Path, size: int, wanted: int, seed: int) -> dict[str, object]:
    """The whole run; its line."""
    besieged = Besieged(worker, size, seed)
    besieged.start()
    doors = [str(door) for door in listeners() if door != DECOY]
    besieged.warm_up()
    before = besieged.resident()
    came = 0
    for so_far in turns(besieged, wanted):
        came = so_far
        growth = max(held - at_first for held, at_first in zip(besieged.resident(), before))
        besieged.growth = max(besieged.growth, growth)
    lives = all(process.poll() is None for process in besieged.job.processes)
    wrong = len(besieged.job.events("wrong")) + len(besieged.job.events("failed"))
    besieged.end()
    quiet = besieged.rate("alone")
    return {
        "kind": "hostile",
        "seed": seed,
        "doors": [door.replace("\0", "@") for door in doors],
        "connections": came,
        "said": dict(besieged.strangers.counts),
        "shut": besieged.strangers.refused,
        "accepted": besieged.strangers.accepted,
        "growth_kib": besieged.growth,
        "steps_per_second": {how: round(besieged.rate(how), 1) for how in besieged.steps},
        "step_time_against_alone": round(quiet / max(besieged.rate("knocked"), 1e-9), 3),
        "step_time_against_decoy": round(
            besieged.rate("decoy") / max(besieged.rate("knocked"), 1e-9), 3
        ),
        "job_lives": lives and not wrong,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--size", type=int, default=2, help="ranks of the job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worker", type=Path, default=find_worker())
    parser.add_argument(
        "--any-growth",
        action="store_true",
        help="let memory grow: for a worker under a sanitizer, which keeps freed memory on purpose",
    )
    chosen = parser.parse_args()
    if chosen.worker is None:
        print("no worker: build the target ronde_chaos_worker, or say --worker", file=sys.stderr)
        return 2
    if not Sandbox(chosen.worker.resolve()).isolated:
        print("no namespaces here: other programs' sockets would be knocked at", file=sys.stderr)
        return 0
    line = siege(chosen.worker.resolve(), chosen.size, chosen.connections, chosen.seed)
    print(json.dumps(line))
    let_in = bool(line["accepted"]) or not line["job_lives"]
    grew = int(str(line["growth_kib"])) > MAX_GROWTH_KIB and not chosen.any_growth
    return int(let_in or grew)
