"""Sums of sparse tensors, such as gradients of nn.Embedding(sparse=True)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ronde._calls import reduce_ops
from ronde._collectives import calls as kinds
from ronde._errors import InvalidArgumentError
from ronde.torch._collectives.adapter import collectives
from ronde.torch._collectives.sparse import coalesced, row_numbers
from ronde.torch.distributed._tensors import summable, view
from ronde.torch.distributed._work import Tensors, Work

if TYPE_CHECKING:
    from ronde.torch.distributed._base import GroupBase


def allreduce(group: GroupBase, tensors: Tensors, opts: Any, op: int) -> Work:
    """Adds up one sparse COO tensor over the ranks of `group`, in place."""
    if len(tensors) != 1 or op not in (reduce_ops.Sum, reduce_ops.Average):
        raise InvalidArgumentError("sparse tensors: one at a time can be summed or averaged")
    target = tensors[0]
    mine = target.detach()
    shape = mine.shape[: mine.sparse_dim()]
    values = summable(mine._values().contiguous(), True)
    indices = np.append(row_numbers(mine._indices(), shape).numpy(), np.int64(shape.numel()))

    def finish(operation: Any) -> None:
        sums = collectives._adopt(operation, 0, values)
        if target.is_complex():
            sums = torch.view_as_complex(sums)
        with torch.no_grad():
            target.copy_(coalesced(torch.from_numpy(operation.indices), sums, target))

    return group._start(
        kinds.SPARSE_ALLREDUCE, [view(values)], [None], values, tensors, opts, finish, op,
        splits=indices,
    )  # fmt: skip
