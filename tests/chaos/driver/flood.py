"""Floods every listening socket of a job with unauthenticated peers; the job must not notice."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections import deque
from pathlib import Path

from driver.case import Case
from driver.job import Job

MAX_GROWTH_KIB = 16 << 10
HELD_OPEN = 300


def listeners() -> list[object]:
    """Addresses of all listening sockets of this network namespace."""
    found: list[object] = []
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and int(fields[3], 16) & 0x10000 and fields[7].startswith("@"):
            found.append("\0" + fields[7][1:])
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            address, port = fields[1].split(":")
            found.append((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return found


class Flood(threading.Thread):
    """Connects to all listening sockets until `over` is set."""

    def __init__(self, seed: int) -> None:
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.open: deque[socket.socket] = deque()
        self.received = b""
        self.count = 0
        self.over = False

    def run(self) -> None:
        while not self.over:
            addresses = listeners()
            if not addresses:
                time.sleep(0.001)
            for address in addresses * 30:
                with contextlib.suppress(OSError):
                    self._connect(address)
        while self.open:
            self.open.popleft().close()

    def _connect(self, address: object) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        peer = socket.socket(family, socket.SOCK_STREAM)
        peer.settimeout(0.05)
        self.open.append(peer)
        if len(self.open) > HELD_OPEN:  # the others stay open, silent or within a message
            self.open.popleft().close()
        peer.connect(address)  # type: ignore[arg-type]
        self.count += 1
        peer.sendall(self._message(peer))

    def _message(self, peer: socket.socket) -> bytes:
        draw = self.random
        choice = draw.randrange(5)
        if choice == 0:
            return b""
        if choice == 1:
            return draw.randbytes(draw.randrange(1, 64))
        if choice == 2:
            return draw.randbytes(64 + draw.randrange(5000))
        if choice == 3:
            return bytes(200_000)
        with contextlib.suppress(OSError):  # reflects what another connection has received
            peer.setblocking(False)
            self.received = peer.recv(4096) or self.received
            peer.settimeout(0.05)
        return self.received or draw.randbytes(64)


def resident_kib(pid: int) -> int:
    """Resident memory of a process."""
    with contextlib.suppress(OSError, IndexError):
        text = Path(f"/proc/{pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])
    return 0


def flood(case: Case) -> None:
    """A flood while ranks wait for a late one, and while they work."""
    if not case.isolated:
        case.facts["skipped"] = "no namespaces here"
        return
    job = case.make_job(sizes=(2, 3, 4), planes=("shm", "tcp", "hosts"))
    flooding = Flood(case.seed)
    arguments = ["steps", f"seed={case.seed}", "elements=1000", "run_ms=700"]
    late = job.size - 1
    case.start_ranks(list(range(late)), arguments)
    job.wait_for("start", list(range(late)))
    before = resident_kib(job.processes[0].pid)
    flooding.start()
    time.sleep(0.7)
    _require_no_growth(case, job, before)
    case.start_ranks([late], arguments)
    job.wait_for("done", list(range(job.size)))
    flooding.over = True
    flooding.join()
    case.facts["unauthenticated_peers"] = flooding.count
    job.require_codes(job.finish(), {})


def _require_no_growth(case: Case, job: Job, before: int) -> None:
    growth = resident_kib(job.processes[0].pid) - before
    case.facts["growth_kib"] = growth
    if growth > MAX_GROWTH_KIB:
        job.complain(f"rank 0 grew by {growth} KiB under unauthenticated peers")
