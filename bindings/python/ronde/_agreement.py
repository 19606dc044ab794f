"""What the ranks of an elastic job agree on: at commits, at the start and at the end.

One small allreduce of maxima serves commits and ends, so that ranks with unequal numbers of commits
do not wait for each other forever. Ranks that have joined add zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ronde import _epochs, _leaving, _numpy
from ronde._checkpoint import begin_from_scratch
from ronde._errors import Error, InternalError, InvalidArgumentError
from ronde._handle import Handle
from ronde._job import on_epoch, rank
from ronde._objects import allgather_object
from ronde._own_state import OwnState
from ronde._reduce_ops import MAX

_REMOVED = 1  # Horovod's kinds of changes
_ADDED = 2
_START = "elastic.start"
_JOINS = [0, 0, 0, 0, 0, 0, 0, -1, -1]  # choose() of a rank that has joined


_HOLDS, _HOLDS_ALIKE = 1, 2  # a rank's state; the same as that of others once all restored it


class _Early:
    rows: Handle[Any] | None = None  # that choose() waits for


_early = _Early()


def _maxima(changed: bool, kind: int, returned: bool) -> tuple[int | None, bool]:
    """(the changes on any rank, or None; True if a rank has not returned). Collective."""
    leaves = _leaving.asked()
    mine = [
        int(changed or leaves),
        int(kind & _REMOVED > 0 or leaves),
        int(kind & _ADDED > 0),
        int(not returned),
    ]
    found = _numpy.allreduce(np.array(mine, np.int64), "elastic.agreement", MAX)
    anything, removed, added, running = map(int, found)
    return (_REMOVED * removed | _ADDED * added if anything else None), bool(running)


def changes(changed: bool, kind: int) -> int | None:
    """The changes that any rank has learned of; None if none has. Collective."""
    return _maxima(changed, kind, False)[0]


def finish() -> tuple[int | None, bool]:
    """The same of a rank that has returned; also True if others have not. Collective."""
    return _maxima(False, 0, True)


def newest_step(step: int) -> int:
    """The newest step of which any rank has a copy. Collective."""
    return int(_numpy.allreduce(np.array([step], np.int64), "elastic.step", MAX)[0])


def held() -> bool:
    """True if some rank of this epoch holds the state."""
    place = _epochs.worker.place
    return place is not None and place.held


def _answer_early() -> None:
    """Does the part of a rank that has joined in choose(), before it gets there.

    Scripts may call operations before run(), which the others call in reset callbacks: after their
    choose().
    """
    _early.rows = None
    if _epochs.available() and held() and not _epochs.worker.holds_state:
        _early.rows = _numpy.allgather_async(np.array([_JOINS], np.int64), _START)


on_epoch.append(_answer_early)


def choose(state: Any, failed: bool, skip_sync: bool) -> bool:
    """Restores the newest committed step at the start of an epoch; true if it must be sent.

    failed: this rank's state was restored. skip_sync: it need not be sent, if all ranks say so.
    Collective.
    """
    own, copies = state._own_state, state._shared_copies()
    holds = _epochs.worker.holds_state
    hands_over = own is not None and own.hands_over()
    alike = state._alike_after_restore() and not hands_over
    adopted = copies.adopted_steps() if copies is not None and not holds else (-1, -1)
    mine = [
        (_HOLDS_ALIKE if alike else _HOLDS) if holds else 0,
        int(failed),
        int(skip_sync and holds and not hands_over),
        state._certain,
        state._step,
        state._older_step,
        0 if held() else _newest_file(state),
        *adopted,
    ]
    early, _early.rows = _early.rows, None
    given = early.wait() if early else _numpy.allgather(np.array([mine], np.int64), _START)
    rows = given.tolist()
    state._chosen = None
    if all(row[2] for row in rows):
        return False
    holders = any(row[0] for row in rows)
    step = _restore(state, rows, failed, adopted) if holders else _resume(state, rows)
    state._chosen = step if holders else None
    if copies is not None and step not in adopted:
        copies.end_adoption(used=False)
    return not _are_alike(rows, step)


def _are_alike(rows: list[list[int]], step: int | None) -> bool:
    """True if all ranks have gone back to the same step, so that nothing is to be sent."""
    restored = any(row[1] for row in rows)
    return restored and all(row[0] == _HOLDS_ALIKE and step in row[4:6] for row in rows)


def begin(state: Any, sync: bool) -> None:
    """Gives all ranks the chosen state, and partners the own states. Collective.

    Own states come after the reset callbacks, in which ranks that have joined take no part.
    """
    own = state._own_state
    if own is not None:
        _settle_own(state, own)
    if sync:
        state.sync()
        state._root = 0
    if own is not None:
        own.begin(state._step, state._copies)
    _numpy.allreduce(np.zeros(1, np.int64), "elastic.started", MAX)
    state._certain = state._step
    _epochs.holds_state()
    if own is not None:
        own.has_begun()
    copies = state._shared_copies()
    if copies is not None:
        copies.end_adoption(used=True)


def _settle_own(state: Any, own: OwnState) -> None:
    """Gives what workers that are gone had to others. Collective.

    Workers that were replaced by ones with their copies need no other replacement.
    """
    copies, step = state._shared_copies(), state._chosen
    adopts = step is not None and copies is not None and step in copies.adopted_steps()
    mine = [
        int(_epochs.worker.holds_state),
        int(copies.adopted_worker) if adopts else 0,
        own.residual_steps(),
    ]
    rows = _numpy.allgather(np.array([mine], np.int64), "elastic.own.start").tolist()
    if any(holds for holds, *_ in rows):
        # Ranks that skip sync() chose no step: they are at the newest.
        restored = {worker for _, worker, _ in rows if worker}
        takers = [taker for taker, row in enumerate(rows) if not row[0] and not row[1]]
        state._settle_own(step, restored, takers)
    own.load_residuals(max(steps for *_, steps in rows))


def _restore(state: Any, rows: list[list[int]], failed: bool, adopted: tuple[int, int]) -> int:
    """Chooses the rank that sends; goes back to its step, unless all ranks are at it.

    A worker that replaces one that died at this step goes on with its own state. Returns the step.
    """
    holders = [holder for holder, row in enumerate(rows) if row[0]]
    newest = max(rows[holder][3] for holder in holders)
    have = [holder for holder in holders if newest in rows[holder][4:6]]
    if not have:
        raise InternalError(f"no rank holds step {newest}, which was committed")
    state._root = have[0]
    at_it = failed and state._step == newest
    if not _epochs.worker.holds_state:
        if newest in adopted:
            state._shared_copies().put_adopted(newest, own_alone=True)
    elif not at_it and any(rows[h][1] for h in holders):
        if state._older_step == newest:
            state._restore_older()
        else:  # it is this step, or sync() mends it
            state.restore()
    return newest


def _resume(state: Any, rows: list[list[int]]) -> int | None:
    """Nobody holds the state: all go on from copies of workers that died, or from a checkpoint.

    Copies of one step were taken by all workers, or are less than one step older than others; those
    before it are of workers that died earlier. Returns their step; None: a checkpoint's.
    """
    newest = max(row[7] for row in rows)
    if newest < max(row[6] for row in rows) or newest < 0:
        _load(state, [row[6] for row in rows])
        return None
    step = min(row[7] for row in rows if row[7] >= max(newest - 1, 0))
    state._root = next(root for root, row in enumerate(rows) if step in row[7:9])
    if step in rows[rank()][7:9]:
        state._shared_copies().put_adopted(step, own_alone=False)
        state._step = state._certain = step
    return step


# Checkpoints. Of no step: no file is whole, but some are there.

_SCRATCH_ALLOWED, _SCRATCH_FORBIDDEN = -1, -2


def _newest_file(state: Any) -> int:
    """The step of the newest checkpoint that this rank can load; 0: none; or one of _SCRATCH_*."""
    checkpoints = state._checkpoints
    newest: int = checkpoints.newest_step() if checkpoints is not None else 0
    if checkpoints is None or newest or not checkpoints.damaged():
        return newest
    return _SCRATCH_FORBIDDEN if checkpoints.needs_whole else _SCRATCH_ALLOWED


def resume(state: Any) -> None:
    """Starts a job that is not elastic from the newest checkpoint, if there is one. Collective."""
    files = _numpy.allgather(np.array([_newest_file(state)], np.int64), _START).tolist()
    _load(state, files)


def _load(state: Any, files: list[int]) -> None:
    """Loads the newest checkpoint of any rank, which sends it. files: _newest_file() of all ranks.

    Collective.
    """
    newest = max(files)
    if newest > 0:
        state._root = files.index(newest)
        _load_together(state, newest, files[rank()] == newest)
    elif min(files) < 0:
        checkpoints = state._checkpoints
        damaged = checkpoints.damaged() if checkpoints is not None else []
        everywhere = {path for paths in allgather_object(damaged) for path in paths}
        begin_from_scratch(sorted(everywhere), min(files) == _SCRATCH_FORBIDDEN)
    state._step = max(state._step, newest)  # later files are newer than this one


def _load_together(state: Any, step: int, has_it: bool) -> None:
    """Raises on all ranks what the loading raises on any. Collective."""
    problem: tuple[type[Error], str] | None = None
    if has_it:
        try:
            state._checkpoints.load(state, step)
        except Exception as error:  # the kinds of errors depend on the state
            kind = Error if type(error) is Error or isinstance(error, OSError) else None
            problem = (kind or InvalidArgumentError, f"{type(error).__name__}: {error}")
    for holder, found in enumerate(allgather_object(problem)):
        if found is not None:
            kind, text = found
            raise kind(f"rank {holder} cannot load the checkpoint of step {step}: {text}")
