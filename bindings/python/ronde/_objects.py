"""Python objects between ranks, by pickle.

Unpickling runs code that the sender chose. It is used only between the ranks of one job, which have
authenticated each other with the job's secret; that is also how far the trust reaches.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ronde import _numpy
from ronde._job import ProcessSet, global_process_set, rank

__all__ = ["allgather_object", "broadcast_object"]


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives every rank the root's `obj` (any that can be pickled); the root gets its own back."""
    at_root = rank() == root_rank
    data = np.frombuffer(pickle.dumps(obj), np.uint8) if at_root else np.empty(0, np.uint8)
    length = np.array([data.size], np.int64)
    size = int(_numpy.broadcast(length, root_rank, _part(name, "size"), process_set)[0])
    given = data if at_root else np.empty(size, np.uint8)
    received = _numpy.broadcast(given, root_rank, _part(name, "data"), process_set)
    return obj if at_root else pickle.loads(received.tobytes())


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Returns the objects of all ranks of the set, in order of rank, on each of them."""
    data = np.frombuffer(pickle.dumps(obj), np.uint8)
    sizes = _numpy.allgather(np.array([data.size], np.int64), _part(name, "size"), process_set)
    everything = _numpy.allgather(data, _part(name, "data"), process_set)
    ends = np.cumsum(sizes)
    return [pickle.loads(everything[end - size : end].tobytes()) for end, size in zip(ends, sizes)]


def _part(name: str | None, part: str) -> str | None:
    return f"{name}.{part}" if name else None
