"""The timeline: starting and stopping it, and marks of the script in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ronde import _core
from ronde._calls.argument_checks import check, explained
from ronde._job.runtime import is_initialized, rank, runtime


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Starts writing a Chrome trace on this rank: rank r writes PATH with .rank<r> inserted.

    A worker of an elastic job inserts .worker<n>.epoch<e>. In other jobs PATH itself becomes
    a link to the trace of rank 0, unless there is such a file. mark_cycles: mark, as CYCLE_START,
    where each bundle of agreed work begins. A timeline that is being written to another path ends.
    """
    check(file_path=file_path)
    path = Path(os.fsdecode(file_path))
    runtime().start_timeline(os.fsencode(path), bool(mark_cycles))
    _link_trace(path)


def _link_trace(path: Path) -> None:
    """Links PATH to the trace of rank 0, where tools for Horovod look for it."""
    if rank() == 0 and _core.Member.of_process() is None:
        with suppress(FileExistsError):
            path.symlink_to(f"{path.stem}.rank0{path.suffix}")


def stop_timeline() -> None:
    """Completes the trace and stops writing it. A no-op if none is written."""
    runtime().stop_timeline()


def _marked(function: Callable[[str], None], name: str) -> None:
    try:
        function(name)
    except TypeError as error:
        raise explained(error, mark=name) from None


def mark(name: str) -> None:
    """Marks this moment of this rank in the timeline; nothing while it is off."""
    _marked(runtime().mark, name)


@contextmanager
def mark_span(name: str) -> Iterator[None]:
    """Marks a block of code, such as "forward", in the timeline. Spans may nest in one thread."""
    _marked(runtime().begin_mark, name)
    try:
        yield
    finally:
        runtime().end_mark()


def mark_pass(name: str) -> None:
    """Marks in the timeline that a phase of training begins, such as "backward".

    It ends the phase before; an empty name begins none. DistributedOptimizer of ronde.torch calls
    it by itself.
    """
    _marked(runtime().mark_pass, name)


def mark_step() -> None:
    """Marks the end of a training step, once its operations are done.

    `ronde timeline report` then shows steps. DistributedOptimizer calls it by itself.
    """
    runtime().mark_step()


def mark_commit(step: int) -> None:
    """Marks in the timeline that all ranks have committed this step of their state.

    Reports count work since then as lost if a rank fails. States call it by themselves. Does
    nothing before init().
    """
    if not is_initialized():
        return
    try:
        runtime().mark_commit(step)
    except TypeError as error:
        raise explained(error, step=step) from None
