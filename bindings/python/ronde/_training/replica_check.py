"""Compares replicas while they train: parameters and the optimizer's state, every few steps.

After a step each rank submits a small allreduce of its digest, which travels with the agreement on
the next gradients. Its result is looked at when these are averaged. Only where digests differ, the
ranks exchange more.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._calls.reduce_ops import Max
from ronde._collectives import on_arrays
from ronde._collectives.calls import set_id
from ronde._errors import ArgumentTypeError, Error, MismatchError
from ronde._job.marks import mark
from ronde._job.process_sets import ProcessSet
from ronde._job.runtime import rank, runtime
from ronde._membership.joining import on_epoch, on_leave
from ronde._training.drill import is_planting, plant
from ronde._training.replicas import (
    Comparison,
    Difference,
    Fact,
    Hashes,
    bounds_agree,
    compare,
    said,
)

Facts = Callable[[], Iterable[Fact]]

_SETTING = "RONDE_REPLICA_CHECK"
_NAMED = 4  # tensors in a message
_LAST_SECONDS = 2.0  # for the last comparison, as ranks leave
_epochs = [0]  # init() calls
_begun: Counter[tuple[int, str]] = Counter()  # checks by process set and title, in this epoch


def _begin_epoch() -> None:
    _epochs[0] += 1
    _begun.clear()


def _finish_all() -> None:
    """Ends the comparisons after the last step, in the same order on all ranks."""
    pending = [check for check in _checks if check.is_pending()]
    for check in sorted(pending, key=lambda check: check.name):
        check.finish()


on_epoch.append(_begin_epoch)
on_leave.append(_finish_all)
_checks: weakref.WeakSet[ReplicaCheck] = weakref.WeakSet()


class _Submitted(NamedTuple):
    """A comparison under way."""

    step: int
    hashes: Hashes
    handle: Any
    facts: Facts


class ReplicaCheck:
    """The comparison of one optimizer's replicas on the ranks of a process set.

    It begins anew in each epoch of an elastic job, after whose sync() all ranks are alike. All
    ranks make the first check of each optimizer in the same order.
    """

    def __init__(self, process_set: ProcessSet, title: str) -> None:
        """title: a name for operations, the same on all ranks, which other checks may have too."""
        self._process_set, self._title = process_set, title
        self._epoch = 0
        self._submitted: _Submitted | None = None
        self.name = ""  # of operations, no other check's in this epoch
        _checks.add(self)

    def is_on(self) -> bool:
        """True if the job compares every few steps, or plants faults after some."""
        return _every_steps() > 0 or is_planting()

    def is_pending(self) -> bool:
        """True while the ranks compare."""
        return self._epoch == _epochs[0] and self._submitted is not None

    def finish(self) -> None:
        """Looks at the last comparison, as this rank leaves. Others may have left before."""
        assert self._submitted is not None
        try:
            self._look(self._submitted.facts, _LAST_SECONDS)
        except MismatchError as error:
            runtime().warn(str(error))
        except Error:
            pass

    def before_step(self, facts: Facts) -> None:
        """Looks at what after_step() has submitted. Collective.

        Raises MismatchError on all ranks, if the job's setting says so.
        """
        if self.is_pending():
            self._look(facts)

    def _look(self, facts: Facts, timeout: float | None = None) -> None:
        assert self._submitted is not None
        step, hashes, handle, _ = self._submitted
        self._submitted = None
        if bounds_agree(handle.wait(timeout)):
            self._agreed(step)
        else:
            self._compare(step, hashes, facts, asked=False)

    def after_step(self, facts: Facts) -> None:
        """Counts a step, and submits the digest if it is due."""
        self.before_step(facts)  # a script may step without averaging
        if self._epoch != _epochs[0]:
            self._begin()
        self._steps += 1
        plant(facts, self._steps)
        if not self._every or self._steps % self._every or not self._is_shared():
            return
        hashes = Hashes.of(facts())
        handle = on_arrays.allreduce_async(
            hashes.bounds(), self._named(), Max, process_set=self._process_set
        )
        self._submitted = _Submitted(self._steps, hashes, handle, facts)

    def check_now(self, facts: Callable[[Any], Iterable[Fact]], extra: Any) -> bool:
        """Compares at once, and blocks. Returns True if all ranks have the same. Collective.

        facts: takes further tensors by name. Raises ArgumentTypeError if `extra` is no dictionary.
        """
        if extra is not None and not isinstance(extra, Mapping):
            raise ArgumentTypeError(
                f"extra must be a dictionary from names to tensors, not {shown(extra)}"
            )
        if self._epoch != _epochs[0]:
            self._begin()
        if not self._is_shared():
            return True
        every = partial(facts, extra)
        self.before_step(partial(facts, None))
        return self._compare(self._steps, Hashes.of(every()), every, asked=True)

    def _begin(self) -> None:
        self._epoch = _epochs[0]
        self._every = _every_steps()
        self._steps = self._last_agreed = 0
        self._submitted = None
        self._known: list[Any] = []  # the last differences
        self.name = ""

    def _named(self) -> str:
        if not self.name:
            key = set_id(self._process_set), self._title
            _begun[key] += 1
            number = f" ({_begun[key]})" if _begun[key] > 1 else ""
            self.name = f"replicas of {self._title}{number}"
        return self.name

    def _is_shared(self) -> bool:
        return bool(self._process_set.included()) and (self._process_set.size() or 1) > 1

    def _agreed(self, step: int) -> None:
        self._last_agreed, self._known = step, []

    def _compare(self, step: int, hashes: Hashes, facts: Facts, asked: bool) -> bool:
        """Finds what differs, reports it and acts. Warns once of the same difference."""
        found = compare(hashes, self._named(), self._process_set)
        if found is None:
            self._agreed(step)
            return True
        action = _action()
        known = [(one.key, one.ranks) for one in found.differences]
        if action != "warn" or asked or known != self._known:
            self._known = known
            text = self._report(step, found, facts)
            self._act(action, found, facts, text)
        if action == "repair":
            self._agreed(step)
        return False

    def _report(self, step: int, found: Comparison, facts: Facts) -> str:
        """The message, the same on all ranks. Collective."""
        first, count = found.differences[0], len(found.differences)
        text = f"the replicas differ after step {step}: {said(first, found.label(first))}"
        if not first.missing:
            fact = found.own(first, facts())
            text += f": {found.first_element(first, fact, found.usual_bytes(first, fact))}"
        others = found.differences[1 : _NAMED + 1]
        if others:
            names = ", ".join(
                f"{found.label(one)} on {_core.list_ranks(one.ranks)}" for one in others
            )
            more = ", ..." if count > len(others) + 1 else ""
            text += f"; {count - 1} more differ: {names}{more}"
        since = min(self._last_agreed + 1, step)
        return f"{text}; they may differ since step {since}"

    def _act(self, action: str, found: Comparison, facts: Facts, text: str) -> None:
        mark(text)
        if action == "fail":
            raise MismatchError(f"{text} ({_SETTING}=fail)")
        if action == "repair":
            left = [one for one in found.differences if not self._repair(one, found, facts)]
            count = len(found.differences) - len(left)
            text += f"; repaired: {count} tensors have the values of most ranks now"
            if left:
                text += f"; {len(left)} that some ranks do not have are left as they are"
            mark(f"repaired {count} tensors")
        odd = {one for difference in found.differences for one in difference.ranks}
        if rank() in (found.ranks[0], *odd):
            runtime().warn(text)

    @staticmethod
    def _repair(difference: Difference, found: Comparison, facts: Facts) -> bool:
        """Gives the tensor of most ranks to the others. False if some do not have it."""
        if difference.missing:
            return False
        fact = found.own(difference, facts())
        usual = found.usual_bytes(difference, fact)
        if rank() in difference.ranks:
            fact.write(usual)
        return True


def _action() -> str:
    """Returns "warn", "fail" or "repair"."""
    return runtime().setting(_SETTING)


def _every_steps() -> int:
    """Steps between comparisons; 0: never."""
    return int(runtime().setting("RONDE_REPLICA_CHECK_STEPS"))
