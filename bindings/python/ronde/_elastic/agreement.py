"""The agreements of an elastic job's ranks: at commits, at the start and at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from ronde import _core
from ronde._calls.handle import Handle
from ronde._collectives import on_arrays
from ronde._collectives.objects import allgather_object
from ronde._elastic.changes import HostUpdateResult
from ronde._elastic.checkpoint import begin_from_scratch
from ronde._elastic.own_state import OwnState
from ronde._errors import Error, InvalidArgumentError, UnavailableError
from ronde._job.runtime import rank, runtime, size
from ronde._membership import epochs
from ronde._membership.joining import on_epoch

_START = "elastic.start"


class _Early:
    rows: Handle[Any] | None = None  # that choose() waits for


_early = _Early()


def _bytes(facts: _core.StartFacts) -> Any:
    return np.frombuffer(facts.encoded(), np.uint8)


def agree(changed: bool, kind: int, running: bool = True) -> _core.CommitFacts:
    """Joins the facts of all ranks. kind: of this rank's changes, by Horovod. Collective.

    running: this rank's function has not returned.
    """
    return _core.agree(
        runtime(),
        changed=changed,
        added=bool(kind & HostUpdateResult.added),
        removed=bool(kind & HostUpdateResult.removed),
        running=running,
    )


def _answer_early() -> None:
    """Does the part of a rank that has joined in choose(), before it gets there.

    Scripts may call operations before run(), which the others call in reset callbacks: after their
    choose().
    """
    _early.rows = None
    worker = epochs.member()
    if worker is not None and worker.state_is_held() and not worker.holds_state:
        _early.rows = on_arrays.allgather_async(_bytes(_core.StartFacts()), _START)


on_epoch.append(_answer_early)


def choose(state: Any, restored: bool, skip_sync: bool) -> bool:
    """Restores the step from which all ranks go on, at an epoch's start; true if it must be sent.

    restored: this rank goes back to a copy. skip_sync: the state need not be sent, if all ranks say
    so. Collective.
    """
    own, copies = state._own_state, state._shared_copies()
    hands_over = own is not None and own.hands_over()
    mine = state._progress.facts(
        holds_state=epochs.worker().holds_state,
        alike=state._alike_after_restore() and not hands_over,
        restored=restored,
        skip_sync=skip_sync and not hands_over,
        adopted=(-1, -1) if copies is None else copies.adopted_steps(),
    )
    if not epochs.worker().state_is_held() and state._checkpoints is not None:
        state._checkpoints.tell(mine)
    early, _early.rows = _early.rows, None
    told = early.wait() if early else on_arrays.allgather(_bytes(mine), _START)
    start = state._progress.choose(mine, _core.StartFacts.decoded(told.tobytes(), size()))
    state._chosen = start.step
    _restore(state, copies, start)
    if copies is not None and not start.keeps_adopted:
        copies.end_adoption(used=False)
    return bool(start.sends)


def _restore(state: Any, copies: Any, start: _core.Start) -> None:
    kinds = _core.Start.Restore
    if start.restore == kinds.NEWEST:
        state.restore()
    elif start.restore == kinds.OLDER:
        state._restore_older()
    elif start.restore in (kinds.ADOPTED, kinds.ADOPTED_OWN):
        copies.put_adopted(start.step, own_alone=start.restore == kinds.ADOPTED_OWN)
    _load(state, start)


def begin(state: Any, sync: bool) -> None:
    """Gives all ranks the chosen state, and partners the own states. Collective.

    Own states come after the reset callbacks, in which ranks that have joined take no part.
    """
    own = state._own_state
    if own is not None:
        _settle_own(state, own)
    if sync:
        state.sync()
    if own is not None:
        own.begin(state._progress.step, state._copies)
    _core.meet(runtime())
    state._progress.begun()
    epochs.worker().hold_state()
    if own is not None:
        own.has_begun()
    copies = state._shared_copies()
    if copies is not None:
        copies.end_adoption(used=True)


def _settle_own(state: Any, own: OwnState) -> None:
    """Gives what workers that are gone had to others. Collective.

    Ranks that skip sync() chose no step: they are at the newest.
    """
    copies, step = state._shared_copies(), state._chosen
    adopts = copies is not None and step in copies.adopted_steps()
    restored = copies.adopted_worker if adopts else 0
    orphans, lost = own.settle(step, restored, state._copies)
    if orphans:
        state.on_orphans(orphans)
    if rank() == state._progress.root:
        own.report_lost(lost, state._copies)


# Checkpoints.


def resume(state: Any) -> None:
    """Starts a job that is not elastic from the newest checkpoint, if there is one. Collective."""
    mine = _core.StartFacts()
    if state._checkpoints is not None:
        state._checkpoints.tell(mine)
    told = on_arrays.allgather(_bytes(mine), _START)
    ranks = _core.StartFacts.decoded(told.tobytes(), size())
    _load(state, state._progress.choose_checkpoint(mine, ranks))


def _load(state: Any, start: _core.Start) -> None:
    """Loads the newest checkpoint of any rank, which sends it. Collective."""
    if start.checkpoint:
        _load_together(state, start.checkpoint, start.loads)
    elif start.damaged:
        checkpoints = state._checkpoints
        damaged = checkpoints.damaged() if checkpoints is not None else []
        everywhere = {path for paths in allgather_object(damaged) for path in paths}
        begin_from_scratch(sorted(everywhere), start.needs_whole)


def _load_together(state: Any, step: int, has_it: bool) -> None:
    """Raises on all ranks what the loading raises on any. Collective."""
    problem: tuple[type[Error], str] | None = None
    if has_it:
        try:
            state._checkpoints.load(state, step)
        except Exception as error:  # the kinds of errors depend on the state
            unread = type(error) is Error or isinstance(error, (OSError, UnavailableError))
            kind = Error if unread else None
            path = state._checkpoints.file_of(step)
            problem = (kind or InvalidArgumentError, f"{path}: {type(error).__name__}: {error}")
    for holder, found in enumerate(allgather_object(problem)):
        if found is not None:
            kind, text = found
            raise kind(f"rank {holder} cannot load the checkpoint of step {step}: {text}")
