"""Process sets: some of the job's ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ronde._calls.argument_checks import check, whole_numbers
from ronde._errors import InvalidArgumentError
from ronde._job.runtime import rank, runtime


def is_ranks(value: Any) -> bool:
    """True for ranks, False for an mpi4py communicator."""
    return isinstance(value, Iterable) and not hasattr(value, "Get_rank")


def checked_ranks(what: str, ranks: Any) -> list[int]:
    """The ranks as ints. Raises ArgumentTypeError for anything else than ranks."""
    return whole_numbers(what, ranks, "ranks of the job, such as [0, 1]")


class ProcessSet:
    """Some of the job's ranks, among which collectives can run.

    Pass one to init(process_sets=[...]) or add_process_set(). Until then, and once removed,
    `process_set_id` is None. A new set gets the number of the set that was removed first, as in
    Horovod. `ranks` are ranks of the job, ascending.
    """

    process_set_id: int | None = None
    core_id: int | None = None  # of the core, which gives no id twice
    lost = ""  # why it cannot be used, for people
    private = False  # the core has no other name for it than its number
    unclaimed = False  # made for a worker that has joined, whose script has not asked for it yet

    def __init__(self, ranks_or_comm: Any) -> None:
        """Takes ranks of the job, or an mpi4py communicator made of them."""
        self.mpi_comm = ranks_or_comm if hasattr(ranks_or_comm, "Get_rank") else None
        ranks = ranks_or_comm if self.mpi_comm is None else ranks_or_comm.allgather(rank())
        self.ranks: list[int] = sorted(checked_ranks("a process set", ranks))

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
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )

    __repr__ = __str__


ProcessSet.__module__ = "ronde"  # its public name


class _GlobalProcessSet(ProcessSet):
    """All ranks of the job; its ranks are known after init()."""

    process_set_id = 0
    core_id = 0

    def __init__(self) -> None:
        super().__init__([])

    def __repr__(self) -> str:
        """Its public name until its ranks are known: help() shows it as a default."""
        return str(self) if self.ranks else "global_process_set"


global_process_set = _GlobalProcessSet()
registered_sets: dict[int, ProcessSet] = {}  # by number; without the global one


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Registers a set; collective over all ranks of the job. Returns it.

    process_set: a ProcessSet, or the ranks of the job that it has; the same on all ranks.
    Raises InvalidArgumentError (a ValueError) for unknown, duplicate or no ranks, or a set that
    exists; MismatchError if ranks disagree.
    """
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    claimed = _claimed(made.ranks)
    enter(made, runtime().add_process_set(made.ranks) if claimed is None else claimed)
    made.lost = ""
    return made


def enter(made: ProcessSet, core_id: int) -> None:
    """Gives a set its id of the core, and the number that users see."""
    made.core_id = core_id
    made.process_set_id = runtime().process_set_number(core_id)
    registered_sets[made.process_set_id] = made


def core_id_of(process_set: ProcessSet) -> int | None:
    """The core's id of a registered set; None for any other, also if its number is used again."""
    number, identifier = process_set.process_set_id, process_set.core_id
    if number is None or identifier is None:
        return None
    return identifier if number == 0 or identifier == core_id_of_number(number) else None


def core_id_of_number(number: int) -> int | None:
    """The core's id of the set that has this number now; None if there is none."""
    if number == 0:
        return 0
    return registered_sets[number].core_id if number in registered_sets else None


def _claimed(ranks: list[int]) -> int | None:
    """The core's id of a set that the job had before this worker joined it."""
    for registered in registered_sets.values():
        if registered.unclaimed and registered.ranks == ranks:
            return registered.core_id
    return None


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set; collective over all ranks.

    process_set: a registered set. Operations that its ranks have agreed on end first; all others
    fail with AbortedError. Returns False if it is global or not registered.
    """
    check(process_set=process_set)
    number, identifier = process_set.process_set_id, core_id_of(process_set)
    if number is None or not identifier:
        return False
    try:
        if process_set.private:
            runtime().close_set(identifier, -1.0)
        else:
            runtime().remove_process_set(identifier)
    finally:  # an interrupt may come when the set is removed, while this rank's operations end
        if not runtime().has_process_set(identifier):
            registered_sets.pop(number)
            process_set.process_set_id = process_set.core_id = None
            process_set.private = False
    return True
