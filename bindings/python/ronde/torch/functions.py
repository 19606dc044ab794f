"""Broadcasts parameters, optimizer state and objects, so that all ranks start equal."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from ronde import _numpy
from ronde._described import described
from ronde._errors import InvalidArgumentError, MismatchError
from ronde._job import ProcessSet, global_process_set, rank, size
from ronde._objects import allgather_object, broadcast_object
from ronde.torch.mpi_ops import broadcast_async_

__all__ = [
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
]

# broadcast_parameters uses its names until it ends.
_one_thread = threading.Lock()


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Gives every rank the root's parameters, in place.

    params: model.state_dict(), model.named_parameters(), or a list of tensors; the same names and
    shapes on all ranks. root_rank: a rank of the job. Threads take turns; the order of threads must
    be the same on all ranks.
    Raises InvalidArgumentError (a ValueError) for anything else, and on all ranks MismatchError
    naming the first difference.
    """
    named = _named_tensors(params)
    with _one_thread:
        _check_alike(named, root_rank)
        pairs = [(name and f"parameter.{name}", tensor) for name, tensor in named]
        broadcast_tensors(pairs, root_rank)


def broadcast_tensors(
    named: Iterable[tuple[str | None, torch.Tensor]],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives every rank the root's tensors, in place, as operations of these names."""
    with torch.no_grad():
        handles = [broadcast_async_(tensor, root_rank, name, process_set) for name, tensor in named]
    for handle in handles:
        handle.wait()


def _check_alike(named: list[tuple[str | None, torch.Tensor]], root_rank: int) -> None:
    """Raises MismatchError on all ranks unless they have the same names, shapes and dtypes.

    Otherwise a rank would wait for a tensor that another one does not have.
    """
    if size() == 1 or not 0 <= root_rank < size():  # broadcast refuses these
        return
    mine = [_described(name, tensor) for name, tensor in named]
    digest = hashlib.sha256("\n".join(mine).encode()).digest()
    digests = _numpy.allgather(np.frombuffer(digest, np.uint8)[None], "broadcast_parameters.digest")
    if (digests == digests[0]).all():
        return
    lists = allgather_object(mine, "broadcast_parameters.list")
    for place, of_root in enumerate(itertools.chain(lists[root_rank], itertools.repeat("missing"))):
        for other, listed in enumerate(lists):
            found = listed[place] if place < len(listed) else "missing"
            if found != of_root:
                raise MismatchError(
                    f"broadcast_parameters: number {place} is {found} on rank {other}, but "
                    f"{of_root} on rank {root_rank}, the root; all ranks must give the same names, "
                    "shapes and dtypes, from several threads in the same order"
                )


def _described(name: str | None, tensor: torch.Tensor) -> str:
    kind = f"{str(tensor.dtype)[6:]}{list(tensor.shape)}"
    return f'"{name}" {kind}' if name else kind


def _named_tensors(params: Any) -> list[tuple[str | None, torch.Tensor]]:
    """(name or None, tensor) of each parameter, in an order that is the same on all ranks."""
    if isinstance(params, Mapping):
        pairs: list[Any] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, torch.Tensor):
        pairs = [p if isinstance(p, tuple) else (None, p) for p in params]
    else:
        raise InvalidArgumentError(
            "expected a state_dict, named parameters, or a list of tensors, "
            f"not {type(params).__name__}"
        )
    found = [(name, value) for name, value in pairs if value is not None]
    for name, value in found:
        if not isinstance(value, torch.Tensor):
            raise InvalidArgumentError(f"parameter {name} is no tensor but {type(value).__name__}")
    return found


class _EmptyTensor:
    """Replaces a tensor in a structure that is sent as an object."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype

    def empty(self) -> torch.Tensor:
        return torch.empty(self.shape, dtype=self.dtype)


def _replace(value: Any, wanted: type, replacement: Callable[[Any], Any]) -> Any:
    """A copy of nested dicts, lists and tuples with every `wanted` replaced, in order."""
    if isinstance(value, wanted):
        return replacement(value)
    if isinstance(value, dict):
        return {key: _replace(item, wanted, replacement) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_replace(item, wanted, replacement) for item in value)
    return value


@described
def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Gives every rank the root's optimizer state and options (learning rate, ...), in place.

    Works for every torch optimizer, also before its first step. `model` is accepted for Horovod
    scripts and not needed. Raises InvalidArgumentError for other objects.
    """
    del model
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidArgumentError(
            f"expected a torch.optim.Optimizer, not {type(optimizer).__name__}"
        )
    at_root = rank() == root_rank
    state: Any = optimizer.state_dict() if at_root else None
    tensors: list[torch.Tensor] = []

    def take(tensor: torch.Tensor) -> _EmptyTensor:
        tensors.append(tensor.detach())
        return _EmptyTensor(tensor)

    def make(blank: _EmptyTensor) -> torch.Tensor:
        tensors.append(blank.empty())
        return tensors[-1]

    structure = broadcast_object(
        _replace(state, torch.Tensor, take) if at_root else None, root_rank
    )
    if not at_root:
        state = _replace(structure, _EmptyTensor, make)
    broadcast_tensors([(None, tensor) for tensor in tensors], root_rank)
    if not at_root:
        optimizer.load_state_dict(state)
