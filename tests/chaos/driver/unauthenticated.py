"""Connects millions of unauthenticated peers to a running job; counts the accepted ones.

Turns of a second alternate: the job alone; connections to a socket of this program, which show what
connecting costs the machine; connections to every listening socket of the job. Peers send random
bytes, truncated, replayed and oversized messages, nothing, or slow bytes. Prints one JSON line.
Exit status 1 if a peer was accepted, memory grew, or the job failed.
    tests/chaos/unauthenticated --connections 1000000
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

from driver.flood import HELD_OPEN, MAX_GROWTH_KIB, listeners, resident_kib
from driver.job import Job, now_us
from driver.main import find_worker
from driver.sandbox import Sandbox

TURN_SECONDS = 1.0
HELLO_BYTES = 64  # what a listener may send before the peer is authenticated
DECOY = "\0ronde-chaos-decoy"
KINDS = ("silent", "random", "truncated", "replayed", "oversized", "slow")


class Peers:
    """Unauthenticated peers: each connects, sends a message, and reads the answer."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.held: deque[tuple[socket.socket, str]] = deque()
        self.counts: Counter[str] = Counter()
        self.refused = 0  # connections that the listener refused
        self.accepted = 0
        self.received = b"\0" * HELLO_BYTES

    def connect(self, address: object) -> bool:
        """Opens one connection. False if it is refused."""
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        peer = socket.socket(family, socket.SOCK_STREAM)
        peer.setblocking(False)
        code = peer.connect_ex(address)  # type: ignore[arg-type]
        if code not in (0, errno.EINPROGRESS):
            peer.close()
            self.refused += 1
            return False
        kind = self.random.choice(KINDS)
        self.counts[kind] += 1
        with contextlib.suppress(OSError):
            peer.send(self._message(kind))
        self.held.append((peer, kind))
        if len(self.held) > HELD_OPEN:
            self._close_oldest()
        return True

    def _message(self, kind: str) -> bytes:
        draw = self.random
        if kind == "random":
            return draw.randbytes(draw.randrange(1, 200))
        if kind == "truncated":
            return self.received[: draw.randrange(1, max(len(self.received), 2))]
        if kind == "replayed":
            return self.received
        if kind == "oversized":
            return b"\xff" * 200_000
        return b"" if kind == "silent" else b"r"

    def _close_oldest(self) -> None:
        """Reads the answer of the oldest connection, and closes it."""
        peer, kind = self.held.popleft()
        with contextlib.suppress(OSError):
            if kind == "slow":
                peer.send(b"o")
            answer = peer.recv(4096)
            self.received = answer or self.received
            self.accepted += len(answer) > HELLO_BYTES
        peer.close()

    def close(self) -> None:
        """Closes all connections."""
        while self.held:
            self._close_oldest()


def steps_between(job: Job, begin: int, end: int) -> int:
    """Steps that rank 0 has finished in an interval."""
    return sum(1 for event in job.events("step", 0) if begin <= event["at_us"] < end)


class LoadedJob:
    """A job, and unauthenticated peers that connect to it."""

    def __init__(self, worker: Path, size: int, seed: int) -> None:
        self.job = Job(worker, size, "unauthenticated")
        self.peers = Peers(seed)
        self.decoy = socket.socket(socket.AF_UNIX)
        self.seconds: dict[str, float] = dict.fromkeys(("alone", "decoy", "connected"), 0.0)
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
        addresses = [DECOY] if how == "decoy" else [one for one in listeners() if one != DECOY]
        begin = now_us()
        while now_us() - begin < TURN_SECONDS * 1e6:
            if how == "alone" or not addresses:
                time.sleep(0.01)
            else:
                self._connect_to(addresses, how)
        end = now_us()
        self.peers.close()
        time.sleep(0.05)  # events of the interval come in
        self.seconds[how] += (end - begin) / 1e6
        self.steps[how] += steps_between(self.job, begin, end)

    def warm_up(self) -> None:
        """Lets the job touch its working memory, which is no growth under load."""
        self.turn("alone")
        self.seconds["alone"] = self.steps["alone"] = 0

    def _connect_to(self, addresses: list[object], how: str) -> None:
        opened = [self.peers.connect(one) for one in addresses for _ in range(16)]
        if how == "decoy":
            with contextlib.suppress(OSError):
                while True:
                    self.decoy.accept()[0].close()
        if not any(opened):
            time.sleep(0.002)  # all were refused

    def rate(self, how: str) -> float:
        """Steps a second."""
        return self.steps[how] / max(self.seconds[how], 1e-9)

    def resident(self) -> list[int]:
        """KiB of each rank."""
        return [resident_kib(process.pid) for process in self.job.processes]

    def end(self) -> None:
        self.peers.close()
        for process in self.job.processes:
            process.kill()
            process.wait()


def turns(job: LoadedJob, wanted: int) -> Iterator[int]:
    """Alternates until so many peers have connected to the job."""
    came = 0
    while came < wanted:
        for how in ("alone", "decoy", "connected", "connected", "connected"):
            before = sum(job.peers.counts.values())
            job.turn(how)
            if how == "connected":
                came += sum(job.peers.counts.values()) - before
        yield came
        if any(process.poll() is not None for process in job.job.processes):
            return


def measure(worker: Path, size: int, wanted: int, seed: int) -> dict[str, object]:
    """Runs one job under load; returns its line."""
    loaded = LoadedJob(worker, size, seed)
    loaded.start()
    addresses = [str(one) for one in listeners() if one != DECOY]
    loaded.warm_up()
    before = loaded.resident()
    came = 0
    for so_far in turns(loaded, wanted):
        came = so_far
        growth = max(held - first for held, first in zip(loaded.resident(), before))
        loaded.growth = max(loaded.growth, growth)
    lives = all(process.poll() is None for process in loaded.job.processes)
    wrong = len(loaded.job.events("wrong")) + len(loaded.job.events("failed"))
    loaded.end()
    quiet = loaded.rate("alone")
    return {
        "kind": "unauthenticated",
        "seed": seed,
        "addresses": [one.replace("\0", "@") for one in addresses],
        "connections": came,
        "sent": dict(loaded.peers.counts),
        "refused": loaded.peers.refused,
        "accepted": loaded.peers.accepted,
        "growth_kib": loaded.growth,
        "steps_per_second": {how: round(loaded.rate(how), 1) for how in loaded.steps},
        "step_time_against_alone": round(quiet / max(loaded.rate("connected"), 1e-9), 3),
        "step_time_against_decoy": round(
            loaded.rate("decoy") / max(loaded.rate("connected"), 1e-9), 3
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
        print("no worker: build the target ronde_chaos_worker, or give --worker", file=sys.stderr)
        return 2
    if not Sandbox(chosen.worker.resolve()).isolated:
        print("no namespaces here: it would connect to other programs' sockets", file=sys.stderr)
        return 0
    line = measure(chosen.worker.resolve(), chosen.size, chosen.connections, chosen.seed)
    print(json.dumps(line))
    accepted = bool(line["accepted"]) or not line["job_lives"]
    grew = int(str(line["growth_kib"])) > MAX_GROWTH_KIB and not chosen.any_growth
    return int(accepted or grew)
