"""One seeded case: the numbers it is drawn from, and jobs set up as it wants them."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from pathlib import Path
from typing import Any, Callable

from driver.job import Job
from driver.sandbox import CLONE_NEWIPC, libc


def other_host() -> None:
    """In a child: makes the process look as if it ran on a host of its own."""
    libc.unshare(CLONE_NEWIPC)


def free_port() -> int:
    """A port that nobody listens on now, below those that the kernel gives to connections."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", random.SystemRandom().randrange(10_000, 20_000)))
            return int(probe.getsockname()[1])


class Case:
    """What `seed` means for `kind`; drawing from `random` in a fixed order replays it."""

    def __init__(self, kind: str, seed: int, worker: Path, isolated: bool, lives: int = 30) -> None:
        self.kind, self.seed, self.worker, self.isolated = kind, seed, worker, isolated
        self.lives = lives  # how often ranks join and leave, where that is the point
        self.random = random.Random(f"{kind} {seed}")
        self.facts: dict[str, Any] = {"kind": kind, "seed": seed}
        self.job: Job | None = None
        self.made: list[Path] = []

    def make_job(self, sizes: tuple[int, ...] = (2, 3, 4), planes: tuple[str, ...] = ()) -> Job:
        """A job of a drawn size on a drawn data plane; "hosts" is TCP between two of them."""
        size = self.random.choice(sizes)
        plane = self.random.choice(planes or ("shm", "shm", "tcp", "gloo", "hosts"))
        if plane == "hosts" and (size < 2 or not self.isolated):
            plane = "tcp"
        self.facts.update(size=size, plane=plane)
        self.job = Job(self.worker, size, f"{self.kind}-{self.seed}")
        self.job.environment["RONDE_BACKEND"] = {"hosts": "auto"}.get(plane, plane)
        if plane == "hosts":
            self._spread(self.job)
        return self.job

    def _spread(self, job: Job) -> None:
        self.give_secret(job)
        job.environment["RONDE_RENDEZVOUS"] = f"127.0.0.1:{free_port()}"
        job.environment["RONDE_NETWORK_INTERFACE"] = "lo"

    def give_secret(self, job: Job) -> None:
        """Lets the job's ranks connect across hosts."""
        secret = Path(f"/tmp/ronde-chaos-secret-{os.getpid()}")
        secret.write_text("0123456789abcdef" * 4)
        secret.chmod(0o600)
        self.made.append(secret)
        job.environment["RONDE_SECRET_FILE"] = str(secret)

    def host_of(self, rank: int) -> int:
        """0 or 1: on which pretended host a rank runs."""
        if self.facts.get("plane") != "hosts" or self.job is None:
            return 0
        return int(rank >= (self.job.size + 1) // 2)

    def start(self, *arguments: str, **extra: str) -> Job:
        """Starts all ranks of the job with the same arguments, each on its host."""
        assert self.job is not None
        if self.facts.get("plane") == "mpi":
            self._start_by_mpirun(self.job, arguments)
            return self.job
        self.start_ranks(list(range(self.job.size)), list(arguments), **extra)
        return self.job

    def start_ranks(self, ranks: list[int], arguments: list[str], **extra: str) -> None:
        """Starts some of the ranks, each on its host."""
        assert self.job is not None
        for rank in ranks:
            before: Callable[[], None] | None = other_host if self.host_of(rank) else None
            self.job.start_rank(rank, arguments, before=before, **extra)

    def _start_by_mpirun(self, job: Job, arguments: tuple[str, ...]) -> None:
        for name in ("RONDE_SIZE", "RONDE_JOB_ID"):
            del job.environment[name]
        job.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        command = ["mpirun", "--enable-recovery", "--oversubscribe", "--bind-to", "none"]
        job.start([*command, "-np", str(job.size), str(job.worker), *arguments], launches=True)

    def clean(self) -> None:
        """Removes what the case itself made."""
        for path in self.made:
            path.unlink(missing_ok=True)
