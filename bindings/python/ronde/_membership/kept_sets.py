"""Process sets of an elastic job, which makes them again in each epoch."""

from __future__ import annotations

from ronde import _core
from ronde._job.process_sets import ProcessSet, enter, registered_sets
from ronde._job.runtime import runtime
from ronde._membership import epochs

_Kept = dict[tuple[int, ...], tuple[int, ProcessSet]]
_kept_sets: _Kept = {}  # of the last epoch, by their workers: (id of the core then, set)


def keep_sets() -> None:
    """Unregisters all process sets; an elastic job remembers their workers."""
    place = epochs.place()
    numbers = place.workers if place is not None else []
    for process_set in registered_sets.values():
        last_id = process_set.core_id
        process_set.process_set_id = process_set.core_id = None
        process_set.private = False
        if place is not None and last_id is not None:
            workers = tuple(sorted(numbers[rank] for rank in process_set.ranks))
            _kept_sets[workers] = last_id, process_set
    registered_sets.clear()


def register_again() -> None:
    """Makes the process sets of the last epoch again whose members all live.

    Workers that have joined learn them from rank 0: add_process_set() then finds them.
    """
    place = epochs.place()
    assert place is not None
    kept = [(workers, last_id) for workers, (last_id, _) in _kept_sets.items()]
    for workers, ranks, core_id, private in _core.remake_sets(runtime(), place, kept):
        known = _kept_sets.pop(workers, None)
        made = ProcessSet(ranks) if known is None else known[1]
        made.ranks, made.private = ranks, private
        made.unclaimed |= known is None
        enter(made, core_id)
    for workers, (_, process_set) in _kept_sets.items():
        named = ", ".join(map(str, workers))
        process_set.lost = f"it was made of the workers {named}, not all of which are left"
    _kept_sets.clear()
