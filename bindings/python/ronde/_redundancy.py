"""Copies of each rank's own state at a partner on another host.

At a commit each rank sends its own state to its partner. After a failure partners give the own
states of dead workers to the ranks that replace them, or keep what nobody takes.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ronde import _epochs, _numpy
from ronde._errors import InvalidArgumentError, MismatchError
from ronde._job import rank, size
from ronde._objects import allgather_object
from ronde._runtime import job

OwnState = dict[str, Any]  # values by the names of parts


def partner_of(rank: int, hosts: Sequence[str]) -> int:
    """The rank that keeps the own state of `rank`. hosts: by rank.

    A rank of the next host, so that ranks of one host share the next one's evenly; with one host
    the next rank.
    """
    names = list(dict.fromkeys(hosts))
    if len(names) == 1:
        return (rank + 1) % len(hosts)
    following = names[(names.index(hosts[rank]) + 1) % len(names)]
    theirs = [one for one, host in enumerate(hosts) if host == following]
    return theirs[hosts[:rank].count(hosts[rank]) % len(theirs)]


def made_redundancy(redundancy: int, every: int) -> Redundancy | None:
    """Makes the keeper of `redundancy` copies of own states. Raises InvalidArgumentError."""
    if redundancy not in (0, 1):
        raise InvalidArgumentError(f"redundancy={redundancy!r}; allowed: 0, 1")
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise InvalidArgumentError(f"redundancy_every={every!r}; allowed: whole numbers from 1")
    return Redundancy(every) if redundancy else None


class Redundancy:
    """Own states of other workers, as of the last two commits at which they were sent."""

    def __init__(self, every: int) -> None:
        """every: send at each `every`-th commit."""
        self._every = every
        self._commits = 0
        self._held: list[tuple[int, dict[int, bytes]]] = []  # (step, by worker), newest first
        self._said = False

    def on_commit(self, step: int, own: OwnState) -> None:
        """Sends the own state of this step if it is time. Collective."""
        self._commits += 1
        if self._commits % self._every == 0:
            self.send(step, own)

    def send(self, step: int, own: OwnState) -> None:
        """Sends the own state to the partner, and keeps what comes. Collective."""
        place = _epochs.worker.place
        if place is None or size() == 1:
            return
        self._say_once(place.hosts)
        data = np.frombuffer(pickle.dumps(own, protocol=5), np.uint8)
        splits = [0] * size()
        splits[partner_of(rank(), place.hosts)] = data.size
        try:
            received, counts = _numpy.alltoall(data, splits, "elastic.own")
        except MismatchError:  # some rank has called join()
            return
        pieces = np.split(received, np.cumsum(counts)[:-1])
        mine = {
            worker: piece.tobytes() for worker, piece in zip(place.workers, pieces) if piece.size
        }
        self._held = [(step, mine), *self._held[:1]]
        job.has_copies = True

    def _say_once(self, hosts: Sequence[str]) -> None:
        if len(set(hosts)) == 1 and rank() == 0 and not self._said:
            self._said = True
            print(
                f"ronde: redundancy=1: all ranks are on {hosts[0]}; if it is lost, so are the "
                "copies of their own states",
                file=sys.stderr,
            )

    def forget_older(self) -> None:
        """An epoch has begun: its workers have sent their own states anew."""
        self._held = self._held[:1]

    def exchange_orphans(
        self, step: int, settled: set[int], takers: list[int]
    ) -> tuple[bytes | None, list[bytes], set[int]]:
        """Passes the own states of workers that are gone to the ranks that replace them.

        step: at which all ranks go on. settled: workers whose state goes on already. takers: ranks
        that replace workers. Returns (that for this rank, those that this rank has and nobody
        takes, the workers of all of them). Collective.
        """
        held = self._orphans(step, settled)
        offers = allgather_object(sorted(held), "elastic.orphans")
        keepers: dict[int, int] = {}
        for keeper, workers in enumerate(offers):
            for worker in workers:
                keepers.setdefault(worker, keeper)
        orphans = sorted(keepers)
        taken = dict(zip(orphans, takers))
        mine = [worker for worker in orphans if keepers[worker] == rank()]
        given = {taken[worker]: held[worker] for worker in mine if worker in taken}
        left = [held[worker] for worker in mine if worker not in taken]
        return self._pass_on(given), left, set(orphans)

    def _orphans(self, step: int, settled: set[int]) -> dict[int, bytes]:
        """The newest own states up to this step of workers that are not in this epoch."""
        place = _epochs.worker.place
        living = set(place.workers) if place is not None else set()
        for held_step, by_worker in self._held:
            if held_step <= step:
                gone = by_worker.keys() - living - settled
                return {worker: by_worker[worker] for worker in gone}
        return {}

    @staticmethod
    def _pass_on(given: dict[int, bytes]) -> bytes | None:
        """Sends own states to ranks; returns that for this one. Collective."""
        splits = [len(given.get(taker, b"")) for taker in range(size())]
        data = np.frombuffer(b"".join(given[taker] for taker in sorted(given)), np.uint8)
        received, _ = _numpy.alltoall(data, splits, "elastic.orphans.states")
        return received.tobytes() or None
