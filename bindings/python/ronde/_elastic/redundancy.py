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

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._collectives import on_arrays
from ronde._errors import InvalidArgumentError, MismatchError
from ronde._job.runtime import job, rank, size
from ronde._membership import epochs

OwnValues = dict[str, Any]  # by the names of parts


def made_states(redundancy: int, every: int) -> _core.OwnStates:
    """The keeper of `redundancy` copies of others' own states. Raises InvalidArgumentError."""
    if redundancy not in (0, 1):
        raise InvalidArgumentError(f"redundancy={shown(redundancy)}; allowed: 0, 1")
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise InvalidArgumentError(
            f"redundancy_every={shown(every)}; allowed: whole numbers from 1"
        )
    return _core.OwnStates(every if redundancy else 0)


class Partnership:
    """Sends own states between this rank and its partners."""

    def __init__(self, states: _core.OwnStates) -> None:
        """states: keeps those of others."""
        self._states = states
        self._said = False

    def send(self, step: int, own: OwnValues) -> None:
        """Sends the own state of this step to the partner, and keeps what comes. Collective."""
        place = epochs.worker.place
        if place is None or size() == 1:
            return
        self._say_once(place.hosts)
        data = np.frombuffer(pickle.dumps(own, protocol=5), np.uint8)
        splits = [0] * size()
        splits[_core.partner_in(place)] = data.size
        try:
            received, counts = on_arrays.alltoall(data, splits, "elastic.own")
        except MismatchError:  # some rank has called join()
            return
        pieces = np.split(received, np.cumsum(counts)[:-1])
        self._states.keep(step, {w: p.tobytes() for w, p in zip(place.workers, pieces)})
        job.has_copies = True

    def _say_once(self, hosts: Sequence[str]) -> None:
        if len(set(hosts)) == 1 and rank() == 0 and not self._said:
            self._said = True
            print(
                f"ronde: redundancy=1: all ranks are on {hosts[0]}; if it is lost, so are the "
                "copies of their own states",
                file=sys.stderr,
            )

    def pass_on(self) -> tuple[OwnValues | None, list[OwnValues]]:
        """Passes the own states of workers that are gone to the ranks that replace them.

        Returns (that for this rank, those that this rank has and nobody takes). Collective.
        """
        states = self._states
        mine = np.frombuffer(states.offer(), np.uint8)
        offers = on_arrays.allgather(mine, "elastic.orphans").tobytes()
        given, left = states.hand_over(rank(), offers, size())
        splits = [len(given.get(taker, b"")) for taker in range(size())]
        data = np.frombuffer(b"".join(given[taker] for taker in sorted(given)), np.uint8)
        received, _ = on_arrays.alltoall(data, splits, "elastic.orphans.states")
        return (
            pickle.loads(received.tobytes()) if received.size else None,
            [pickle.loads(one) for one in left],
        )
