"""Process sets of an elastic job, which makes them again in each epoch."""

from __future__ import annotations

from ronde._collectives.objects import broadcast_object
from ronde._job.process_sets import ProcessSet, add_process_set, enter, registered_sets
from ronde._job.runtime import runtime, size
from ronde._membership import epochs

_kept_sets: list[tuple[tuple[int, ...], ProcessSet]] = []  # of the last epoch, with their workers


def keep_sets() -> None:
    """Unregisters all process sets; an elastic job remembers their workers."""
    place = epochs.worker.place if epochs.available() else None
    numbers = place.workers if place is not None else []
    for process_set in registered_sets.values():
        process_set.last_id = process_set.core_id
        process_set.process_set_id = process_set.core_id = None
        process_set.private = False
        if place is not None:
            workers = tuple(numbers[rank] for rank in process_set.ranks)
            _kept_sets.append((workers, process_set))
    registered_sets.clear()


def register_again() -> None:
    """Makes the process sets of the last epoch again whose members all live.

    Workers that have joined learn them from rank 0: add_process_set() then finds them.
    """
    place = epochs.worker.place
    assert place is not None
    known = {workers: process_set for workers, process_set in _kept_sets}
    if place.epoch > 1:
        listed = list(known)
        for workers in broadcast_object(listed, 0, "elastic.process_sets"):
            _register(workers, known.pop(workers, None))
    for workers, process_set in known.items():
        _lose(workers, process_set)
    _kept_sets.clear()
    _carry_residuals()


def _carry_residuals() -> None:
    """Gives the sets what compression has left over in the last epoch."""
    new_ids = {}
    for process_set in registered_sets.values():
        if process_set.last_id is not None:
            assert process_set.core_id is not None
            new_ids[process_set.last_id] = process_set.core_id
            process_set.last_id = None
    runtime().rename_residuals(new_ids)


def _register(workers: tuple[int, ...], kept: ProcessSet | None) -> None:
    ranks = epochs.ranks_of(workers)
    if ranks is None:
        _lose(workers, kept)
        return
    made = kept or ProcessSet(ranks)
    made.ranks = ranks
    if len(ranks) < size():
        add_process_set(made)
    else:  # all are left; no other set than the global one may have all ranks
        enter(made, runtime().open_set(ranks, "elastic", 0.0, -1.0))
        made.private = True
    if kept is None:
        made.unclaimed = True


def _lose(workers: tuple[int, ...], process_set: ProcessSet | None) -> None:
    if process_set is not None:
        named = ", ".join(map(str, workers))
        process_set.last_id = None
        process_set.lost = f"it was made of the workers {named}, not all of which are left"
