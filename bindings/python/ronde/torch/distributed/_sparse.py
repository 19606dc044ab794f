"""Sums of sparse tensors (gradients of nn.Embedding(sparse=True)): gathered, then added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ronde._calls import reduce_ops
from ronde._collectives import calls as kinds
from ronde._errors import InvalidArgumentError
from ronde.torch._collectives.adapter import collectives
from ronde.torch.distributed._tensors import summable, view
from ronde.torch.distributed._work import Tensors, Work

if TYPE_CHECKING:
    from ronde.torch.distributed._base import GroupBase


def allreduce(group: GroupBase, tensors: Tensors, opts: Any, op: int) -> Work:
    """Adds up one sparse COO tensor over the ranks of `group`, in place."""
    if len(tensors) != 1 or op not in (reduce_ops.Sum, reduce_ops.Average):
        raise InvalidArgumentError("sparse tensors: one at a time can be summed or averaged")
    target = tensors[0]
    mine = target.detach().coalesce()
    places = mine.indices().t().contiguous()
    values = summable(mine.values().contiguous(), True)
    parts = group.size() if op == reduce_ops.Average else 1

    def finish(operation: Any) -> None:
        indices = collectives._adopt(operation, 0, places).t()
        entries = collectives._adopt(operation, 1, values)
        if target.is_complex():
            entries = torch.view_as_complex(entries)
        total = torch.sparse_coo_tensor(indices, entries / parts, target.shape).coalesce()
        with torch.no_grad():
            target.copy_(total.to(target.dtype))

    inputs = [view(places), view(values)]
    keep = (places, values)
    return group._start(kinds.ALLGATHER, inputs, [None, None], keep, tensors, opts, finish)
