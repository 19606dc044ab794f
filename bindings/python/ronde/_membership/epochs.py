"""This process as a worker of an elastic job: its place in one epoch after another.

An epoch is a job of fixed ranks. Only the launcher begins one. Threads: the one that calls init().
"""

from __future__ import annotations

import os

from ronde import _core
from ronde._errors import Error, RankFailure, TimeoutError, UnavailableError, code_of

_of_process = _core.Member.of_process()  # takes what it was passed before scripts can close it

ADDED, REMOVED = 1, 2  # bits of a change, as the launcher's notes have them


class LauncherLostError(UnavailableError):
    """The launcher is gone, so that no epoch can follow this one."""


class JobFailedError(Error):
    """The launcher has ended the job, which failed."""


class CheckpointsDamagedError(Error):
    """No checkpoint is whole, and the state was forbidden to begin from scratch."""


class DismissedError(SystemExit):
    """The launcher has no place for this worker any more. Ends the process with status 0."""

    def __init__(self) -> None:
        super().__init__(0)


def member() -> _core.Member | None:
    """This process's end of an elastic job; None without a launcher of such jobs, and in forks."""
    return _core.Member.of_process() if _of_process is not None else None


def worker() -> _core.Member:
    """The same in an elastic job."""
    found = member()
    assert found is not None
    return found


def available() -> bool:
    """True if a launcher of elastic jobs has started this process."""
    return member() is not None


def place() -> _core.EpochNote | None:
    """The worker's place in its last epoch; None before the first, and without a launcher."""
    found = member()
    return None if found is None else found.place


def recovery_of(error: Error) -> _core.Recovery:
    """What follows an error."""
    if isinstance(error, (LauncherLostError, JobFailedError, CheckpointsDamagedError)):
        return _core.Recovery.NONE
    return _core.recovery_of(code_of(error))


def note_failure(error: Error) -> None:
    """Remembers what ended the epoch, for the launcher. Its first cause counts."""
    rank = error.rank if isinstance(error, (RankFailure, TimeoutError)) else -1
    found = member()
    if found is not None:
        found.failed(f"{type(error).__name__}: {error}", rank)


def next_place() -> _core.EpochNote:
    """Waits until the launcher begins an epoch with this worker.

    Raises DismissedError if it is to end, JobFailedError, LauncherLostError.
    """
    try:
        answer = worker().next_epoch()
    except UnavailableError as error:
        raise LauncherLostError(f"the launcher of this job is gone: {error}") from error
    if isinstance(answer, _core.EpochNote):
        return answer
    if answer.failed:
        raise JobFailedError(f"the launcher has ended this worker: {answer.why}")
    raise DismissedError


def changes() -> tuple[int, int]:
    """(serial, bits) of the newest change that should end this epoch; (0, 0) without one.

    Never blocks. Raises LauncherLostError.
    """
    try:
        return worker().changes()
    except UnavailableError as error:
        raise LauncherLostError(f"the launcher of this job is gone: {error}") from error


def show_in_environment(runtime: _core.Runtime) -> None:
    """Sets the variables that Horovod and torchrun have for ranks and sizes."""
    values = {
        "RANK": runtime.rank(),
        "SIZE": runtime.size(),
        "LOCAL_RANK": runtime.local_rank(),
        "LOCAL_SIZE": runtime.local_size(),
        "CROSS_RANK": runtime.cross_rank(),
        "CROSS_SIZE": runtime.cross_size(),
    }
    os.environ.update({f"HOROVOD_{name}": str(value) for name, value in values.items()})
    for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"):
        os.environ[name.replace("SIZE", "WORLD_SIZE")] = str(values[name])
