"""This process's membership in the job: init, shutdown, ranks, process sets, the timeline."""

from __future__ import annotations

import atexit
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ronde import _core, _epochs, _exit_message
from ronde._errors import Error, InvalidArgumentError, NotInitializedError

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

_PACKAGE = Path(__file__).resolve().parent


class _Job:
    """The job of this process. A forked child has none."""

    runtime: _core.Runtime | None = None
    forked = False
    hooks_set = False


_job = _Job()


def runtime() -> _core.Runtime:
    """The job's runtime. Raises NotInitializedError before init() and after shutdown()."""
    if _job.runtime is None:
        if _job.forked:
            raise NotInitializedError(
                "this process was forked after ronde.init() and is no member of the job; "
                "call ronde in the parent only, or start processes by spawn"
            )
        raise NotInitializedError("ronde has not been initialized; call init() first")
    return _job.runtime


def _is_ranks(value: Any) -> bool:
    return isinstance(value, Iterable) and not hasattr(value, "Get_rank")


class ProcessSet:
    """Some of the job's ranks, among which collectives can run.

    Pass one to init(process_sets=[...]) or add_process_set(). Until then, and once removed,
    `process_set_id` is None. `ranks` are ranks of the job, ascending.
    """

    process_set_id: int | None = None
    lost = ""  # why it cannot be used, for people
    private = False  # the core has no other name for it than its number
    unclaimed = False  # made for a worker that has joined, whose script has not asked for it yet

    def __init__(self, ranks_or_comm: Any) -> None:
        """Takes ranks of the job, or an mpi4py communicator made of them."""
        self.mpi_comm = None if _is_ranks(ranks_or_comm) else ranks_or_comm
        ranks = ranks_or_comm if self.mpi_comm is None else ranks_or_comm.allgather(rank())
        self.ranks: list[int] = sorted(int(r) for r in ranks)

    def size(self) -> int | None:
        """Number of ranks; None if not registered."""
        return None if self.process_set_id is None else len(self._members())

    def rank(self) -> int | None:
        """This process's position in the set; None if not registered.

        Raises ValueError if this process is not in the set.
        """
        if self.process_set_id is None:
            return None
        members = self._members()
        if rank() not in members:
            raise InvalidArgumentError(f"rank {rank()} is not in {self}")
        return members.index(rank())

    def included(self) -> bool | None:
        """True if this process is in the set; None if the set is not registered."""
        return None if self.process_set_id is None else rank() in self._members()

    def _members(self) -> list[int]:
        runtime()
        return self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__


class _GlobalProcessSet(ProcessSet):
    """All ranks of the job; its ranks are known after init()."""

    process_set_id = 0

    def __init__(self) -> None:
        super().__init__([])


global_process_set = _GlobalProcessSet()
registered_sets: dict[int, ProcessSet] = {}  # by number; without the global one
_kept_sets: list[tuple[tuple[int, ...], ProcessSet]] = []  # of the last epoch, with their workers
on_epoch: list[Callable[[], None]] = []  # called at the end of each init()


def _settings_of(comm: Any) -> dict[str, str]:
    """The settings that make `comm` (ranks, or an mpi4py communicator) the job."""
    if comm is None or (_is_ranks(comm) and not list(comm)):
        return {}
    if not _is_ranks(comm):
        job = comm.bcast(uuid.uuid4().hex if comm.Get_rank() == 0 else None)
        return _job_settings(comm.Get_rank(), comm.Get_size(), job)
    ranks = sorted(int(r) for r in comm)
    mine, size, job = _core.launched_job()
    if ranks == list(range(size)):
        return {}
    if mine not in ranks:
        raise InvalidArgumentError(f"init(comm={ranks}) does not include this rank, {mine}")
    return _job_settings(ranks.index(mine), len(ranks), f"{job}-{'.'.join(map(str, ranks))}")


def _job_settings(rank: int, size: int, job: str) -> dict[str, str]:
    return {"RONDE_RANK": str(rank), "RONDE_SIZE": str(size), "RONDE_JOB_ID": job}


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
    if _job.runtime is not None:
        return
    if _job.forked:
        runtime()
    chosen = {name: str(value) for name, value in (settings or {}).items()}
    trace = _horovod_trace()
    if trace:
        chosen["RONDE_TIMELINE"] = ""
    if _epochs.available():
        _refuse_comm(comm)
        _join_next_epoch(chosen)
    else:
        _join({**_settings_of(comm), **chosen})
    for callback in list(on_epoch):
        callback()
    if trace:
        start_timeline(trace, os.environ.get("HOROVOD_TIMELINE_MARK_CYCLES", "0") == "1")
    if process_sets is None or isinstance(process_sets, str):
        return
    for process_set in process_sets:
        add_process_set(process_set)


def _join(settings: dict[str, str]) -> None:
    _job.runtime = _core.Runtime.create(settings)
    _core.set_current(_job.runtime)
    if not _job.hooks_set:
        _job.hooks_set = True
        atexit.register(shutdown)
        _exit_message.record_uncaught()
        os.register_at_fork(after_in_child=_forget_after_fork)
    global_process_set.ranks = list(range(size()))


def _refuse_comm(comm: Any) -> None:
    if comm is not None and (not _is_ranks(comm) or list(comm)):
        raise InvalidArgumentError(
            f"init(comm={comm!r}): the launcher of an elastic job decides on its ranks; leave comm "
            "out, or start the job without --min-np and --max-np"
        )


def _join_next_epoch(chosen: dict[str, str]) -> None:
    """Joins the launcher's next epoch whose ranks can all be reached."""
    while _job.runtime is None:
        place = _epochs.next_place()
        try:
            _join({**chosen, **place.settings})
            _epochs.worker.began = True
            _register_again()
        except Error as error:
            shutdown()
            if not _epochs.recoverable(error):
                raise
            _epochs.note_failure(error)
    _epochs.show_in_environment(_job.runtime)


def _register_again() -> None:
    """Makes the process sets of the last epoch again whose members all live.

    Workers that have joined learn them from rank 0: add_process_set() then finds them.
    """
    place = _epochs.worker.place
    assert place is not None
    known = {workers: process_set for workers, process_set in _kept_sets}
    if place.epoch > 1:
        listed = list(known)
        from ronde._objects import broadcast_object  # it imports this module

        for workers in broadcast_object(listed, 0, "elastic.process_sets"):
            _register(workers, known.pop(workers, None))
    for workers, process_set in known.items():
        _lose(workers, process_set)
    _kept_sets.clear()


def _register(workers: tuple[int, ...], kept: ProcessSet | None) -> None:
    ranks = _epochs.ranks_of(workers)
    if ranks is None:
        _lose(workers, kept)
        return
    made = kept or ProcessSet(ranks)
    made.ranks = ranks
    if len(ranks) < size():
        add_process_set(made)
    else:  # all are left; no other set than the global one may have all ranks
        made.process_set_id = runtime().open_set(ranks, "elastic", 0.0, -1.0)
        registered_sets[made.process_set_id] = made
        made.private = True
    if kept is None:
        made.unclaimed = True


def _lose(workers: tuple[int, ...], process_set: ProcessSet | None) -> None:
    if process_set is not None:
        named = ", ".join(map(str, workers))
        process_set.lost = f"it was made of the workers {named}, not all of which are left"


def _forget_after_fork() -> None:
    if _job.runtime is not None:
        _core.abandon(_job.runtime)
        _core.set_current(None)
        _job.runtime, _job.forked = None, True


def shutdown() -> None:
    """Leaves the job. Calling it again, or before init(), is a no-op; init() works again after."""
    leaving, _job.runtime = _job.runtime, None
    if leaving is None:
        return
    _keep_sets()
    global_process_set.ranks = []
    _core.set_current(None)
    leaving.shutdown(_exit_message.exit_message())


def _keep_sets() -> None:
    """Unregisters all process sets; an elastic job remembers their workers."""
    place = _epochs.worker.place if _epochs.available() else None
    for process_set in registered_sets.values():
        process_set.process_set_id = None
        process_set.private = False
        if place is not None:
            workers = tuple(place.workers[rank] for rank in process_set.ranks)
            _kept_sets.append((workers, process_set))
    registered_sets.clear()


def is_initialized() -> bool:
    """True between init() and shutdown()."""
    return _job.runtime is not None


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


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Registers a set; collective over all ranks of the job. Returns it.

    Raises InvalidArgumentError (a ValueError) for unknown, duplicate or no ranks, or a set that
    exists; MismatchError if ranks disagree.
    """
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    claimed = _claimed(made.ranks)
    made.process_set_id = runtime().add_process_set(made.ranks) if claimed is None else claimed
    made.lost = ""
    registered_sets[made.process_set_id] = made
    return made


def _claimed(ranks: list[int]) -> int | None:
    """The number of a set that the job had before this worker joined it."""
    for identifier, registered in registered_sets.items():
        if registered.unclaimed and registered.ranks == ranks:
            return identifier
    return None


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set; collective over all ranks. False if it is global or not registered."""
    identifier = process_set.process_set_id
    if identifier is None or identifier == 0:
        return False
    if process_set.private:
        runtime().close_set(identifier, -1.0)
        process_set.private = False
    else:
        runtime().remove_process_set(identifier)
    registered_sets.pop(identifier, None)
    process_set.process_set_id = None
    return True


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Starts writing a Chrome trace on this rank: rank r writes PATH with .rank<r> inserted.

    PATH itself becomes a link to the trace of rank 0, unless there is such a file. mark_cycles:
    mark, as CYCLE_START, where each bundle of agreed work begins.
    """
    path = Path(file_path)
    runtime().start_timeline(os.fspath(path), mark_cycles)
    _link_trace(path)


def _horovod_trace() -> str | None:
    """The trace's path by Horovod's settings; Ronde's setting takes precedence."""
    return None if "RONDE_TIMELINE" in os.environ else os.environ.get("HOROVOD_TIMELINE")


def _link_trace(path: Path) -> None:
    """Links PATH to the trace of rank 0, where tools for Horovod look for it."""
    if rank() == 0:
        with suppress(FileExistsError):
            path.symlink_to(f"{path.stem}.rank0{path.suffix}")


def stop_timeline() -> None:
    """Completes the trace and stops writing it. A no-op if none is written."""
    runtime().stop_timeline()


def mark(name: str) -> None:
    """Marks this moment of this rank in the timeline; nothing while it is off."""
    runtime().mark(name)


@contextmanager
def mark_span(name: str) -> Iterator[None]:
    """Marks a block of code, such as "forward", in the timeline. Spans may nest in one thread."""
    runtime().begin_mark(name)
    try:
        yield
    finally:
        runtime().end_mark()


def mark_pass(name: str) -> None:
    """Marks in the timeline that a phase of training begins, such as "backward".

    It ends the phase before; an empty name begins none. DistributedOptimizer of ronde.torch calls
    it by itself.
    """
    runtime().mark_pass(name)


def mark_step() -> None:
    """Marks the end of a training step, once its operations are done.

    `ronde timeline report` then shows steps. DistributedOptimizer calls it by itself.
    """
    runtime().mark_step()


def _has_module(name: str) -> bool:
    return (_PACKAGE / f"libronde_{name}.so").exists()


def mpi_built(verbose: bool = False) -> bool:
    """True if the MPI backend was built. All such functions take Horovod's `verbose`."""
    return _has_module("mpi")


def gloo_built(verbose: bool = False) -> bool:
    """True if the Gloo backend was built."""
    return _has_module("gloo")


def nccl_built(verbose: bool = False) -> int:
    """0: this build has no NCCL backend."""
    return int(_has_module("nccl"))


def cuda_built(verbose: bool = False) -> bool:
    """True if the CUDA backend was built."""
    return _has_module("cuda")


def rocm_built() -> bool:
    """Always False."""
    return False


def ddl_built(verbose: bool = False) -> bool:
    """Always False."""
    return False


def ccl_built(verbose: bool = False) -> bool:
    """Always False."""
    return False


def mpi_enabled() -> bool:
    """True if this job's data plane is MPI."""
    runtime()
    return os.environ.get("RONDE_BACKEND") == "mpi"


def gloo_enabled() -> bool:
    """True if this job's data plane is Gloo."""
    runtime()
    return os.environ.get("RONDE_BACKEND") == "gloo"


def mpi_threads_supported() -> bool:
    """True if several threads may call MPI. Ronde does not need it."""
    runtime()
    return mpi_built()
