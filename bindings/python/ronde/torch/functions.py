"""Broadcasts parameters, optimizer state and objects, so that all ranks start equal."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from ronde._calls.described import described
from ronde._collectives import on_arrays
from ronde._collectives.objects import allgather_object, broadcast_object, broadcast_pickle
from ronde._collectives.pickling import pickled
from ronde._errors import InvalidArgumentError, MismatchError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._job.runtime import rank, size
from ronde.torch._optimizers.optimizer_state import TensorsApart, put_state
from ronde.torch._optimizers.watching import lazy_error
from ronde.torch._sharded.optimizer import ShardedOptimizer
from ronde.torch.mpi_ops import broadcast_async_
from ronde.torch.sharded_embedding import is_shard

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

    params: model.state_dict(), model.named_parameters(), a list of tensors, or the model; the same
    names and shapes on all ranks. Rows of a ShardedEmbedding stay. Other values of a state_dict are
    not sent: they must be the same on all ranks. root_rank: a rank of the job. Threads take turns;
    the order of threads must be the same on all ranks.
    Raises InvalidArgumentError (a ValueError) for anything else, and on all ranks MismatchError
    naming the first difference.
    """
    named = _named_values(params)
    with _one_thread:
        _check_alike(named, root_rank)
        for name, value in named:
            if is_lazy(value):
                raise lazy_error(name or "a parameter")
        pairs = [
            (name and f"parameter.{name}", value)
            for name, value in named
            if isinstance(value, torch.Tensor)
        ]
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


def _check_alike(named: list[tuple[str | None, Any]], root_rank: int) -> None:
    """Raises MismatchError on all ranks unless they have the same names, shapes and dtypes.

    Otherwise a rank would wait for a tensor that another one does not have.
    """
    if size() == 1 or not 0 <= root_rank < size():  # broadcast refuses these
        return
    mine = [_described(name, value) for name, value in named]
    digest = hashlib.sha256("\n".join(mine).encode(errors="backslashreplace")).digest()
    own = np.frombuffer(digest, np.uint8)[None]
    digests = on_arrays.allgather(own, "broadcast_parameters.digest")
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
                    "shapes and dtypes, from several threads in the same order; values that are no "
                    "tensors must be the same, too: broadcast_object() sends them"
                )


def _described(name: str | None, value: Any) -> str:
    if is_lazy(value):
        kind = "not initialized yet"
    elif isinstance(value, torch.Tensor):
        kind = f"{str(value.dtype)[6:]}{list(value.shape)}"
    elif isinstance(value, (bool, int, float, complex, str, torch.dtype, torch.Size)):
        kind = repr(value)
    else:
        digest = hashlib.sha256(pickled(value)).hexdigest()
        kind = f"a {type(value).__name__} of the pickle {digest[:12]}"
    return f'"{name}" {kind}' if name else kind


def _named_values(params: Any) -> list[tuple[str | None, Any]]:
    """(name or None, value) of each parameter, in an order that is the same on all ranks."""
    if isinstance(params, torch.nn.Module):
        params = params.state_dict()
    if isinstance(params, Mapping):
        pairs: list[Any] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, torch.Tensor):
        pairs = [p if isinstance(p, tuple) else (None, p) for p in params]
        _check_tensors(pairs)
    else:
        raise InvalidArgumentError(
            "expected a state_dict, named parameters, or a list of tensors, "
            f"not {type(params).__name__}"
        )
    return [(n, value) for n, value in pairs if value is not None and not is_shard(value)]


def _check_tensors(pairs: list[Any]) -> None:
    for name, value in pairs:
        if value is not None and not isinstance(value, torch.Tensor):
            what = "a parameter" if name is None else f"parameter {name}"
            raise InvalidArgumentError(
                f"{what} is no tensor but {type(value).__name__}; give model.state_dict()"
            )


@described
def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Gives every rank the root's optimizer state and options (learning rate, ...), in place.

    Works for every torch optimizer, also before its first step. Groups, their lists and tensors
    stay the same objects, so schedulers made before go on. Of a sharded optimizer, and one of
    ShardedEmbeddings, it sends the options alone: its state has no copies that could differ.
    `model` is accepted for Horovod scripts and not needed. Raises InvalidArgumentError for other
    objects; on all ranks MismatchError if the groups differ in their numbers of parameters.
    """
    del model
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidArgumentError(
            f"expected a torch.optim.Optimizer, not {type(optimizer).__name__}"
        )
    has_shards = isinstance(optimizer, ShardedOptimizer) or _has_tables(optimizer)
    _check_groups(optimizer, root_rank)
    if has_shards:
        _broadcast_options(optimizer, root_rank)
        return
    sent = TensorsApart(optimizer)
    state = broadcast_pickle(
        optimizer.state_dict() if rank() == root_rank else None,
        root_rank,
        None,
        global_process_set,
        sent.pickled,
        sent.unpickled,
    )
    broadcast_tensors([(None, tensor) for tensor in sent.tensors], root_rank)
    if rank() != root_rank:
        put_state(optimizer, state)


def _has_tables(optimizer: torch.optim.Optimizer) -> bool:
    """True if the parameters are parts of tables. Raises InvalidArgumentError if only some are."""
    kinds = {is_shard(p) for group in optimizer.param_groups for p in group["params"]}
    if len(kinds) > 1:
        raise InvalidArgumentError(
            "broadcast_optimizer_state: the optimizer has the weight of a ShardedEmbedding beside "
            "shared parameters; give that an optimizer of its own"
        )
    return True in kinds


def _broadcast_options(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    groups = optimizer.param_groups
    options = [{k: v for k, v in group.items() if k != "params"} for group in groups]
    for group, given in zip(groups, broadcast_object(options, root_rank)):
        group.update(given)


def _check_groups(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Raises MismatchError on all ranks unless they have as many parameters in each group."""
    if size() == 1 or not 0 <= root_rank < size():  # broadcast_object refuses these
        return
    sizes = allgather_object([len(group["params"]) for group in optimizer.param_groups])
    for other, found in enumerate(sizes):
        if found != sizes[root_rank]:
            raise MismatchError(
                f"broadcast_optimizer_state: the optimizer's groups have {found} parameters on "
                f"rank {other}, but {sizes[root_rank]} on rank {root_rank}, the root; all ranks "
                "must give the same parameters"
            )
