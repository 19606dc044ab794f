"""State that belongs to one rank alone, over changes of the job.

Survivors keep their own. A worker that dies leaves its state where a partner has a copy: the rank
that replaces the worker gets it, or a survivor merges it into its own.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._elastic.residuals import ResidualKeeper
from ronde._errors import InvalidArgumentError
from ronde._job.runtime import job, runtime, size
from ronde._membership import epochs
from ronde._snapshots.copies import Copies, Part


def _say(text: str) -> None:
    print(f"ronde: {text}", file=sys.stderr)


def _listed(workers: list[int]) -> str:
    return ("worker " if len(workers) == 1 else "workers ") + ", ".join(map(str, workers))


class OwnState:
    """The own state of this rank: attributes that its state names, and compression's residuals.

    A part's values are those of the state's newest copy.
    """

    def __init__(self, names: frozenset[str], redundancy: int, every: int) -> None:
        """names: the attributes. every: partners get copies after so many commits.

        Raises InvalidArgumentError for other numbers.
        """
        if redundancy not in (0, 1):
            raise InvalidArgumentError(f"redundancy={shown(redundancy)}; allowed: 0, 1")
        if not isinstance(every, int) or isinstance(every, bool) or every < 1:
            raise InvalidArgumentError(
                f"redundancy_every={shown(every)}; allowed: whole numbers from 1"
            )
        self._names = names
        self._partners = _core.Partners(every if redundancy else 0)
        self._residuals = ResidualKeeper()
        self.part = Part("residuals", self._residuals.take, self._residuals.put, own=True)

    def hands_over(self) -> bool:
        """True if ranks that stay take over what those that leave have."""
        return self._partners.hands_over

    def on_commit(self, step: int, copies: Copies) -> None:
        """Sends the newest copy to the partner if that is due. Collective."""
        if epochs.available() and self._partners.due():
            self._send(step, copies)

    def begin(self, step: int, copies: Copies) -> None:
        """Sends the newest copy to the partner, at the start of an epoch. Collective."""
        if self.hands_over():
            self._send(step, copies)

    def _send(self, step: int, copies: Copies) -> None:
        place = epochs.place()
        if place is None or size() == 1:
            return
        if self._partners.warns_of_one_host(place):
            _say(
                f"redundancy=1: all ranks are on {place.hosts[0]}; if it is lost, so are the "
                "copies of their own states"
            )
        own = pickle.dumps(copies.newest_own(), protocol=5)
        self._partners.send(runtime(), place, step, own)
        job.has_copies = True

    def has_begun(self) -> None:
        """All ranks of the epoch have begun."""
        place = epochs.place()
        if place is not None:
            self._partners.begun(place)

    def settle(
        self, step: int | None, restored: int, copies: Copies
    ) -> tuple[list[dict[str, Any]], list[int]]:
        """Gives the own states of workers that are gone to others, where there are copies.

        step: at which all ranks go on; None: they did not go back. restored: the worker from whose
        copies this rank goes on; 0: none. Returns (the attributes of each worker that nobody
        replaces and of which this rank has a copy, the workers whose states are lost). Collective.
        """
        place, residuals = epochs.place(), self._residuals
        if place is None:
            residuals.begin(residuals.steps())
            return [], []
        mine, orphans, lost, residual_steps = self._partners.settle(
            runtime(), place, step, epochs.worker().holds_state, restored, residuals.steps()
        )
        if mine is not None:
            copies.put_own(pickle.loads(mine))
        attributes = [self._merge(pickle.loads(orphan)) for orphan in orphans]
        residuals.begin(residual_steps)  # codecs that draw random numbers need the same on all
        return attributes, lost

    def _merge(self, orphan: dict[str, Any]) -> dict[str, Any]:
        """Adds a worker's residuals to those of this rank. Returns its attributes."""
        unfit = self._residuals.add(orphan.pop(self.part.name))
        if unfit:
            _say(f"residuals of a worker that is gone are lost: {', '.join(unfit)} changed size")
        attributes: dict[str, Any] = {}
        for part, value in orphan.items():
            whole = part.startswith("own ")  # the parts that hold several attributes by name
            attributes.update(value if whole else {part.split(" ", 1)[-1]: value})
        return attributes

    def report_lost(self, workers: list[int], copies: Copies) -> None:
        """Says what of these workers is lost."""
        names = sorted(self._names)
        if self.hands_over() and copies.newest(self.part.name):
            names.append("residuals of compression")  # else the runtime says so
        if workers and names:
            hint = "" if self.hands_over() else "; redundancy=1 keeps copies"
            _say(f"lost of {_listed(workers)}: {', '.join(names)}{hint}")


def report_orphans(orphans: list[dict[str, Any]]) -> None:
    """Says that nobody takes these attributes."""
    names = sorted({name for orphan in orphans for name in orphan})
    if names:
        count = f"{len(orphans)} worker{'s' if len(orphans) > 1 else ''}"
        _say(f"nobody takes {', '.join(names)} of {count} gone; on_orphans() can keep them")
