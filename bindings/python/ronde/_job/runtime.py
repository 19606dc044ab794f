"""The job that this process is in, this process's place in it, and its counters."""

from __future__ import annotations

import re

from ronde import _core
from ronde._errors import NotInitializedError

# Labels that say who the rank is, which a logger knows.
_OWN = re.compile(r'(?:rank|worker)="[^"]*",?')
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


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


def metrics() -> dict[str, float]:
    """Counters and gauges of this rank so far, by the names of docs/metrics.md. Blocks: never.

    Labels follow a name, as in `ronde_operations_total{kind="allreduce"}`, but for the rank's own.
    Of histograms there are `_sum` (seconds) and `_count`. Threads: any.
    Errors: NotInitializedError.
    """
    found = {}
    for name, labels, value in _SAMPLE.findall(runtime().metrics_text()):
        if name == "ronde_info" or name.endswith("_bucket"):
            continue
        shown = _OWN.sub("", labels).rstrip(",")
        found[f"{name}{{{shown}}}" if shown else name] = float(value)
    return found
