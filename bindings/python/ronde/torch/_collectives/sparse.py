"""Allreduces of sparse tensors: gathers all ranks' values and adds those at the same index."""

from __future__ import annotations

from typing import Any

import torch

from ronde._calls.described import described
from ronde._calls.handle import Handle
from ronde._calls.reduce_ops import Average, Sum
from ronde._collectives.calls import Call
from ronde._compression.choice import for_values
from ronde._errors import ArgumentTypeError, InvalidArgumentError, MismatchError
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
    """sparse_allreduce_async(), by the call's name, set, operation and program."""
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
    name, process_set, op = call.name, call.process_set, call.op
    source = tensor.detach()
    compression = for_values(compression)
    values, context = compression.compress(source._values())
    shape = torch.tensor([tensor.shape], device=values.device)
    parts = [source._indices().t().contiguous(), values, shape]

    def assemble(joined: list[torch.Tensor]) -> torch.Tensor:
        _check_shapes(name, joined[2])
        places, values = joined[0], compression.decompress(joined[1], context)
        if op == Average:
            values = values / (process_set.size() or 1)
        return sparse(places.t(), values.to(source.dtype), source.shape).coalesce()

    # One operation, so that a rank that submits a dense tensor by this name gets an error.
    sent = Call(name, process_set, program=call.program)
    return collectives.allocating("allgather", False, parts, sent).then(assemble)


def _check_shapes(name: str | None, shapes: torch.Tensor) -> None:
    """Raises MismatchError, on all ranks, unless all of them gave tensors of one shape."""
    for member, shape in enumerate(shapes.tolist()):
        if shape != shapes[0].tolist():
            raise MismatchError(
                f'sparse allreduce "{name}": member 0 gave a tensor of shape '
                f"{shapes[0].tolist()}, member {member} one of {shape}"
            )
