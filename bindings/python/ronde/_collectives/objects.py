"""Python objects between ranks, by pickle.

Unpickling runs code that the sender chose. Only ranks of one job send pickles to each other, and
they have authenticated each other with the job's secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ronde._calls.argument_checks import check
from ronde._calls.described import described
from ronde._collectives import on_arrays
from ronde._collectives.pickling import pickled, unpickled
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._job.runtime import rank

__all__ = ["allgather_object", "broadcast_object"]


@described
def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives every rank the root's `obj` (any that can be pickled); the root gets its own back.

    Functions without a name and local classes need cloudpickle on all ranks. Raises
    InvalidArgumentError on all ranks if it cannot be pickled.
    """
    return broadcast_pickle(obj, root_rank, name, process_set, pickled, unpickled)


def broadcast_pickle(
    obj: Any,
    root_rank: int,
    name: str | None,
    process_set: ProcessSet,
    dump: Callable[[Any], bytes],
    load: Callable[[bytes], Any],
) -> Any:
    """As broadcast_object(); the root calls `dump`, which may raise, and the others `load`."""
    check(root_rank=root_rank, name=name, process_set=process_set)
    at_root = rank() == root_rank
    data, unfit = _message(obj, dump) if at_root else (np.empty(0, np.uint8), 0)
    mine = np.array([data.size, unfit], np.int64)
    size, unfit = on_arrays.broadcast(mine, root_rank, _part(name, "size"), process_set).tolist()
    given = data if at_root else np.empty(size, np.uint8)
    received = on_arrays.broadcast(given, root_rank, _part(name, "data"), process_set)
    if unfit:
        raise _unfit("broadcast_object", root_rank, received)
    return obj if at_root else load(received.tobytes())


@described
def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Returns the objects of all ranks of the set, in order of rank, on each of them.

    Functions without a name and local classes need cloudpickle on all ranks. Raises
    InvalidArgumentError on all ranks if one object cannot be pickled.
    """
    check(name=name, process_set=process_set)
    data, unfit = _message(obj, pickled)
    mine = np.array([[data.size, unfit]], np.int64)
    sizes, unfits = on_arrays.allgather(mine, _part(name, "size"), process_set).T
    everything = on_arrays.allgather(data, _part(name, "data"), process_set)
    parts = np.split(everything, np.cumsum(sizes)[:-1])
    for place in np.flatnonzero(unfits):
        raise _unfit("allgather_object", process_set.ranks[place], parts[place])
    return [unpickled(part.tobytes()) for part in parts]


def _message(obj: Any, dump: Callable[[Any], bytes]) -> tuple[NDArray[np.uint8], int]:
    """(the pickled object, 0), or (an error text, 1): other ranks always wait for a message."""
    try:
        return np.frombuffer(dump(obj), np.uint8), 0
    except InvalidArgumentError as error:
        return np.frombuffer(str(error).encode(errors="backslashreplace"), np.uint8), 1


def _unfit(call: str, of_rank: int, said: NDArray[np.uint8]) -> InvalidArgumentError:
    text = said.tobytes().decode().replace("the object", f"the object of rank {of_rank}", 1)
    return InvalidArgumentError(f"{call}: {text}")


def _part(name: str | None, part: str) -> str | None:
    return f"{name}.{part}" if name else None
