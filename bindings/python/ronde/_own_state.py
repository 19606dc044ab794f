"""State that belongs to one rank alone, over changes of the job.

Survivors keep theirs. That of a worker that is gone goes to a rank that replaces it, or is merged
into a survivor's, where a partner has a copy.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from ronde import _epochs
from ronde._copies import Copies, Part
from ronde._redundancy import Redundancy
from ronde._residuals import ResidualKeeper


def _say(text: str) -> None:
    print(f"ronde: {text}", file=sys.stderr)


def _listed(workers: set[int]) -> str:
    return ("worker " if len(workers) == 1 else "workers ") + ", ".join(map(str, sorted(workers)))


class OwnState:
    """The own state of this rank: attributes that its state names, and compression's residuals.

    A part's values are those of the state's newest copy.
    """

    def __init__(self, names: frozenset[str], redundancy: Redundancy | None) -> None:
        """names: the attributes. redundancy: keeps copies at partners."""
        self._names, self._redundancy = names, redundancy
        self._residuals = ResidualKeeper()
        self.part = Part("residuals", self._residuals.take, self._residuals.put, own=True)
        self._members: set[int] = set()  # the workers of the last epoch that has begun
        self._taken_at, self._taken = -1, set[int]()  # step and workers whose states were settled

    def hands_over(self) -> bool:
        """True if ranks that stay take over what those that leave have."""
        return self._redundancy is not None

    def on_commit(self, step: int, copies: Copies) -> None:
        """Sends the newest copy to the partner if that is due. Collective."""
        if self._redundancy is not None and _epochs.available():
            self._redundancy.on_commit(step, copies.newest_own())

    def begin(self, step: int, copies: Copies) -> None:
        """Sends the newest copy to the partner, at the start of an epoch. Collective."""
        if self._redundancy is not None:
            self._redundancy.send(step, copies.newest_own())

    def has_begun(self) -> None:
        """All ranks of the epoch have begun."""
        place = _epochs.worker.place
        self._members = set(place.workers) if place is not None else set()
        self._taken_at, self._taken = -1, set()
        if self._redundancy is not None:
            self._redundancy.forget_older()

    def residual_steps(self) -> int:
        """The most steps of any residual here."""
        return self._residuals.steps()

    def load_residuals(self, steps: int) -> None:
        """Gives the runtime of a new epoch what a copy's restoration or settle() has put.

        steps: of all, the same on all ranks.
        """
        self._residuals.begin(steps)

    def settle(
        self, step: int | None, restored: set[int], takers: list[int], copies: Copies
    ) -> tuple[list[dict[str, Any]], set[int]]:
        """Gives the own states of workers that are gone to others, where there are copies.

        step: at which all ranks go on; None: they did not go back. restored: workers whose
        replacements have their states already. takers: ranks that hold no state. Returns (the
        attributes of each worker that nobody replaces and of which this rank has a copy, the
        workers whose states are lost). Collective.
        """
        place = _epochs.worker.place
        gone = self._members - set(place.workers if place is not None else ())
        # A state that was settled at an earlier step is in the copies that are restored now.
        settled = set(restored)
        if step is not None and step > self._taken_at:
            settled |= self._taken
        left: list[bytes] = []
        if self._redundancy is not None and step is not None:
            given, left, found = self._redundancy.exchange_orphans(step, settled, takers)
            self._taken_at, self._taken = step, found
            settled |= found
            if given is not None:
                copies.put_own(pickle.loads(given))
        return [self._merge(pickle.loads(one)) for one in left], gone - settled

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

    def report_lost(self, workers: set[int], copies: Copies) -> None:
        """Says what of these workers is lost."""
        names = sorted(self._names)
        if self._redundancy is not None and copies.newest(self.part.name):
            names.append("residuals of compression")  # else the runtime says so
        if workers and names:
            hint = "" if self._redundancy is not None else "; redundancy=1 keeps copies"
            _say(f"lost of {_listed(workers)}: {', '.join(names)}{hint}")


def report_orphans(orphans: list[dict[str, Any]]) -> None:
    """Says that nobody takes these attributes."""
    names = sorted({name for orphan in orphans for name in orphan})
    if names:
        count = f"{len(orphans)} worker{'s' if len(orphans) > 1 else ''}"
        _say(f"nobody takes {', '.join(names)} of {count} gone; on_orphans() can keep them")
