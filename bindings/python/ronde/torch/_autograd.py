"""Collectives that gradients flow through: each one's backward is a collective too.

Where ranks' losses are averaged, as in data-parallel training, the gradient of allgather and
broadcast is the average over ranks of what each would give alone; so Horovod has it.
"""

from __future__ import annotations

from typing import Any

import torch

from ronde._collectives import AVERAGE, SUM
from ronde._job import rank
from ronde.torch._adapter import collectives


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Runs a differentiable collective; torch's own apply() is untyped."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


class Allreduce(torch.autograd.Function):
    """apply(name, op, scale, process_set, *tensors); gradients are reduced the same way."""

    @staticmethod
    def forward(ctx: Any, name: Any, op: Any, scale: Any, process_set: Any, *tensors: Any) -> Any:
        """Returns the reduced tensors."""
        ctx.arguments = (op, scale, process_set)
        return tuple(
            collectives.allreduce(True, tensors, None, name, op, scale, process_set).wait()
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Reduces the gradients as the tensors were."""
        reduced = apply(Allreduce, None, *ctx.arguments, *gradients)
        return (None, None, None, None, *reduced)


class Allgather(torch.autograd.Function):
    """apply(name, process_set, *tensors)."""

    @staticmethod
    def forward(ctx: Any, name: Any, process_set: Any, *tensors: Any) -> Any:
        """Returns the joined tensors."""
        ctx.rows = [tensor.shape[0] if tensor.dim() else 1 for tensor in tensors]
        ctx.process_set = process_set
        return tuple(collectives.allgather(True, tensors, name, process_set).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Averages the gradients and returns this rank's rows of them."""
        averaged = apply(Allreduce, None, AVERAGE, (1.0, 1.0), ctx.process_set, *gradients)
        (counts,) = collectives.allgather(
            True, [torch.tensor([ctx.rows])], None, ctx.process_set
        ).wait()
        before = counts[: ctx.process_set.rank()].sum(dim=0).tolist()
        parts = [g.narrow(0, b, n) for g, b, n in zip(averaged, before, ctx.rows)]
        return (None, None, *parts)


class Broadcast(torch.autograd.Function):
    """apply(tensor, root_rank, name, process_set)."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, root_rank: Any, name: Any, process_set: Any) -> Any:
        """Returns the root's tensor."""
        ctx.arguments = (root_rank, process_set)
        return collectives.broadcast(True, [tensor], None, root_rank, name, process_set).wait()[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The average of the gradients at the root, zeros elsewhere."""
        root_rank, process_set = ctx.arguments
        (averaged,) = apply(Allreduce, None, AVERAGE, (1.0, 1.0), process_set, *gradients)
        mine = averaged if rank() == root_rank else torch.zeros_like(averaged)
        return mine, None, None, None


class Reducescatter(torch.autograd.Function):
    """apply(name, op, scale, process_set, *tensors)."""

    @staticmethod
    def forward(ctx: Any, name: Any, op: Any, scale: Any, process_set: Any, *tensors: Any) -> Any:
        """Returns this rank's rows of the reduced tensors."""
        ctx.arguments = (op, scale, process_set)
        return tuple(collectives.reduce_scatter(True, tensors, name, op, scale, process_set).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Joins the gradients of all ranks' rows, scaled as the rows were."""
        op, (before, after), process_set = ctx.arguments
        factor = before * after * (process_set.size() if op == SUM else 1)
        scaled = [gradient * factor for gradient in gradients]
        return (None, None, None, None, *apply(Allgather, None, process_set, *scaled))


class Alltoall(torch.autograd.Function):
    """apply(tensor, splits, name, process_set)."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, splits: Any, name: Any, process_set: Any) -> Any:
        """Returns the rows received and an int32 tensor of how many came from each rank."""
        output, counts = collectives.alltoall(True, tensor, splits, name, process_set).wait()
        ctx.arguments = (counts, process_set)
        received = torch.tensor(counts, dtype=torch.int32)
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Sends each row's gradient back to where the row came from."""
        counts, process_set = ctx.arguments
        returned, _ = apply(Alltoall, gradients[0], counts, None, process_set)
        return returned, None, None, None
