"""Allreduces of sparse tensors: values at the same index are added up over the ranks."""

from __future__ import annotations

from typing import Any

import torch

from ronde._calls.described import described
from ronde._calls.handle import Handle
from ronde._calls.reduce_ops import Average, Sum
from ronde._collectives.calls import Call
from ronde._compression.choice import for_values
from ronde._errors import ArgumentTypeError, InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde.torch._collectives.adapter import collectives
from ronde.torch.compression import Compression

__all__ = ["sparse_allreduce_async"]


# torch >= 2.0 asks if it must check indices; these come from torch.
_UNCHECKED: dict[str, Any] = (
    {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
)


def sparse(places: torch.Tensor, values: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """A sparse COO tensor of these parts."""
    return torch.sparse_coo_tensor(places, values, shape, **_UNCHECKED)


def nothing(like: torch.Tensor, sparse_dims: int) -> torch.Tensor:
    """A sparse tensor of the shape and dtype of `like` without values."""
    places = torch.empty((sparse_dims, 0), dtype=torch.int64)
    values = torch.empty((0, *like.shape[sparse_dims:]), dtype=like.dtype)
    return sparse(places, values, like.shape)


@described
def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    compression: Any = Compression.none,
) -> Handle[torch.Tensor]:
    """Starts the sum (or average) of a sparse COO tensor over all ranks.

    Ranks may have different indices, or none; shapes and dtypes must agree. Call the handle,
    or synchronize() it, for the result: a new coalesced sparse tensor, the same on all ranks.
    compression: casts (fp16, bf16) apply to the values; other codecs are for dense tensors.
    Raises InvalidArgumentError (a ValueError) for dense tensors, and other operations.
    """
    return start_sparse(tensor, Call(name, process_set, op), compression)


def start_sparse(tensor: torch.Tensor, call: Call, compression: Any) -> Handle[torch.Tensor]:
    """sparse_allreduce_async() of a call, with its factors and weight."""
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentTypeError(f"expected a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.sparse_coo:
        is_dense = tensor.layout is torch.strided
        remedy = "allreduce_async() takes" if is_dense else "tensor.to_sparse_coo() makes"
        raise InvalidArgumentError(
            f"a sparse COO tensor is needed here, not one of {tensor.layout}; {remedy} "
            f"{'dense ones' if is_dense else 'one'}"
        )
    if call.op not in (Sum, Average):
        raise InvalidArgumentError("sparse tensors can be summed and averaged only")
    source = tensor.detach()
    compression = for_values(compression)
    values, context = compression.compress(source._values())

    def assemble(result: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        places, sums = result
        sums = compression.decompress(sums, context).to(source.dtype)
        return coalesced(places, sums.to(source.device), source)

    return start_rows(source, values, call).then(assemble)


def start_rows(
    tensor: torch.Tensor, values: torch.Tensor, call: Call
) -> Handle[tuple[torch.Tensor, torch.Tensor]]:
    """Starts the sum of these values of a sparse tensor; gives row_numbers() and their sums."""
    shape = tensor.shape[: tensor.sparse_dim()]
    program = "; ".join(filter(None, [call.program, f"a sparse tensor of {list(tensor.shape)}"]))
    sent = call._replace(program=program[:900], compression="", holds_finding=False)
    numbers = row_numbers(tensor._indices().cpu(), shape).numpy()
    handle = collectives.sparse_allreduce(False, values.cpu(), numbers, shape.numel(), sent)
    return handle.then(lambda done: (torch.from_numpy(done[0]), done[1]))


def row_numbers(places: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The places of a sparse tensor's values, counted row by row."""
    numbers = places.new_zeros(places.shape[1])
    for place, extent in zip(places, shape):
        numbers = numbers * extent + place
    return numbers


def coalesced(numbers: torch.Tensor, values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The sparse tensor, of the shape of `like`, of values at row numbers that ascend."""
    places = numbers.new_empty((like.sparse_dim(), len(numbers)))
    for dimension in reversed(range(like.sparse_dim())):
        extent = max(like.shape[dimension], 1)
        places[dimension] = numbers % extent
        numbers = numbers // extent
    result = sparse(places.to(values.device), values, like.shape)
    return result._coalesced_(True)
