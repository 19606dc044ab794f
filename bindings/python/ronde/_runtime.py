"""The job that this process is in, and this process's place in it."""

from __future__ import annotations

from ronde import _core
from ronde._errors import NotInitializedError


class _Job:
    """The job of this process. A forked child has none."""

    runtime: _core.Runtime | None = None
    last: _core.Runtime | None = None  # has been left; the next one takes over what it has learned
    has_copies = False  # partners keep copies of residuals
    forked = False
    hooks_set = False
    until = -1  # a descriptor: a start ends by AbortedError once it is readable


job = _Job()


def runtime() -> _core.Runtime:
    """The job's runtime. Raises NotInitializedError before init() and after shutdown()."""
    if job.runtime is None:
        if job.forked:
            raise NotInitializedError(
                "this process was forked after ronde.init() and is no member of the job; "
                "call ronde in the parent only, or start processes by spawn"
            )
        raise NotInitializedError("ronde has not been initialized; call init() first")
    return job.runtime


def is_initialized() -> bool:
    """True between init() and shutdown()."""
    return job.runtime is not None


def rank() -> int:
    """This process's number in the job, from 0."""
    return runtime().rank()


def size() -> int:
    """Number of processes in the job."""
    return runtime().size()


def local_rank() -> int:
    """This process's number among those on this host."""
    return runtime().local_rank()


def local_size() -> int:
    """Number of the job's processes on this host."""
    return runtime().local_size()


def cross_rank() -> int:
    """This host's number among the hosts that have a process with this local rank."""
    return runtime().cross_rank()


def cross_size() -> int:
    """Number of hosts that have a process with this local rank."""
    return runtime().cross_size()


def is_homogeneous() -> bool:
    """True if every host has the same number of processes."""
    return len(set(runtime().ranks_by_host())) == 1
