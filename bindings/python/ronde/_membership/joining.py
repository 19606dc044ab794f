"""This process's membership in the job: how it joins and leaves."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ronde import _core
from ronde._calls.argument_checks import check_text, shown
from ronde._errors import ArgumentTypeError, Error, InvalidArgumentError
from ronde._job import exit_message
from ronde._job.builds import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from ronde._job.marks import mark, mark_pass, mark_span, mark_step, start_timeline, stop_timeline
from ronde._job.process_sets import (
    ProcessSet,
    add_process_set,
    checked_ranks,
    global_process_set,
    is_ranks,
    remove_process_set,
)
from ronde._job.runtime import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    job,
    local_rank,
    local_size,
    rank,
    runtime,
    size,
)
from ronde._membership import epochs
from ronde._membership.kept_sets import keep_sets, register_again
from ronde._rendezvous import torchrun

__all__ = [
    "ProcessSet",
    "add_process_set",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mark",
    "mark_pass",
    "mark_span",
    "mark_step",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

on_epoch: list[Callable[[], None]] = []  # called at the end of each init()
on_leave: list[Callable[[], None]] = []  # called before the job is left without an exception


def _settings_of(comm: Any) -> dict[str, str]:
    """The settings that make `comm` (ranks, or an mpi4py communicator) the job."""
    if comm is None or (is_ranks(comm) and not list(comm)):
        return {}
    if hasattr(comm, "Get_rank"):
        name = comm.bcast(uuid.uuid4().hex if comm.Get_rank() == 0 else None)
        return _job_settings(comm.Get_rank(), comm.Get_size(), name)
    ranks = sorted(checked_ranks("comm", comm))
    mine, count, name = _core.launched_job()
    if ranks == list(range(count)):
        return {}
    if mine not in ranks:
        raise InvalidArgumentError(f"init(comm={ranks}) does not include this rank, {mine}")
    return _job_settings(ranks.index(mine), len(ranks), f"{name}-{'.'.join(map(str, ranks))}")


def _job_settings(rank: int, size: int, name: str) -> dict[str, str]:
    return {"RONDE_RANK": str(rank), "RONDE_SIZE": str(size), "RONDE_JOB_ID": name}


def init(
    comm: Any = None,
    process_sets: Iterable[ProcessSet] | str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Joins the job that the launcher describes; a job of one process where there is no launcher.

    comm: ranks of the launched job (or an mpi4py communicator) that form this one; all by default.
    process_sets: sets to register at once, the same on all ranks. "dynamic" is accepted: sets can
    always be added later.
    settings: RONDE_* settings by name, over those in the environment.

    Blocks until all ranks have called it. Calling it again is a no-op. Raises TimeoutError with the
    missing ranks, InvalidArgumentError with the name of a setting.
    """
    if job.runtime is not None:
        return
    exit_message.record_uncaught()
    if job.forked:
        runtime()
    _refuse_unguarded_script()
    _check_process_sets(process_sets)
    chosen = _chosen(settings or {})
    trace = _horovod_trace()
    if trace is not None:
        chosen["RONDE_TIMELINE"] = ""
    if epochs.available():
        _refuse_comm(comm)
        _join_next_epoch(chosen)
    else:
        settings = _settings_of(comm)
        _join({**settings, **torchrun.agreed_settings(settings, chosen), **chosen})
    for callback in list(on_epoch):
        callback()
    if trace:
        start_timeline(trace, os.environ.get("HOROVOD_TIMELINE_MARK_CYCLES", "0") == "1")
    if process_sets is None or isinstance(process_sets, str):
        return
    for process_set in process_sets:
        add_process_set(process_set)


def _chosen(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings as texts. Raises ArgumentTypeError for anything but a dict of them."""
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise ArgumentTypeError(
            f"settings must be a dict from names of settings to values, not {shown(settings)}"
        )
    chosen = {name: str(value) for name, value in settings.items()}
    for name, value in chosen.items():
        check_text("settings", name)
        check_text(name, value)
    return chosen


def _check_process_sets(process_sets: Any) -> None:
    if process_sets is not None and not isinstance(process_sets, Iterable):
        raise ArgumentTypeError(
            f"process_sets must be a list of ProcessSets, not {shown(process_sets)}"
        )


def _refuse_unguarded_script() -> None:
    """Raises Error in a child of multiprocessing that has only begun to import the main script."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise Error(
            "init() was called while a process of multiprocessing imports the main script: put "
            'what the script does under if __name__ == "__main__":'
        )


def _horovod_trace() -> str | None:
    """The trace's path by Horovod's settings; Ronde's setting takes precedence.

    Empty if the script starts the trace: HOROVOD_TIMELINE=DYNAMIC.
    """
    path = None if "RONDE_TIMELINE" in os.environ else os.environ.get("HOROVOD_TIMELINE")
    return "" if path == "DYNAMIC" else path


def _join(settings: dict[str, str]) -> None:
    job.runtime = _core.Runtime.create(settings, job.last, job.has_copies, job.until)
    job.last = None
    _core.set_current(job.runtime)
    if not job.hooks_set:
        job.hooks_set = True
        atexit.register(shutdown)
        os.register_at_fork(after_in_child=_forget_after_fork)
    global_process_set.ranks = list(range(size()))


def _refuse_comm(comm: Any) -> None:
    if comm is not None and (not is_ranks(comm) or list(comm)):
        raise InvalidArgumentError(
            f"init(comm={shown(comm)}): the launcher of an elastic job decides on its ranks; leave "
            "comm out, or start the job without --min-np and --max-np"
        )


def _join_next_epoch(chosen: dict[str, str]) -> None:
    """Joins the launcher's next epoch whose ranks can all be reached."""
    while job.runtime is None:
        place = epochs.next_place()
        try:
            _join({**chosen, **epochs.worker().settings(place)})
            epochs.worker().began()
            register_again()
        except Error as error:
            shutdown()
            if epochs.recovery_of(error) == _core.Recovery.NONE:
                raise
            epochs.note_failure(error)
    epochs.show_in_environment(job.runtime)


def _forget_after_fork() -> None:
    if job.runtime is not None:
        _core.abandon(job.runtime)
        _core.set_current(None)
        job.runtime, job.forked = None, True
    job.last = None


def shutdown() -> None:
    """Leaves the job. Calling it again, or before init(), is a no-op; init() works again after.

    In an elastic job the next epoch takes over residuals of compression and tuning.
    """
    leave(keep=epochs.available())


def leave(keep: bool, why: str = "") -> None:
    """Leaves the job. keep: the next init() takes over residuals of compression and tuning.

    why: what the other ranks' errors say of it; by default the exception that ends this process.
    """
    if job.runtime is not None and not (why or exit_message.exit_message()):
        for callback in list(on_leave):
            callback()
    leaving, job.runtime = job.runtime, None
    if leaving is None:
        return
    job.last = leaving if keep else None
    keep_sets()
    global_process_set.ranks = []
    _core.set_current(None)
    leaving.shutdown(why or exit_message.exit_message())
