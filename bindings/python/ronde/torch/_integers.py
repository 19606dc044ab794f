"""Averages of integers, rounded down as by torch's floor_divide() and Horovod."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ronde._collectives import AVERAGE, Call
from ronde._handle import Handle, mapped


def _is_integer(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)


def reduced(
    start: Callable[[Call], Handle[list[torch.Tensor]]],
    tensors: Sequence[torch.Tensor],
    call: Call,
) -> Handle[list[torch.Tensor]]:
    """Calls start(call). An average of tensors with integers is divided here.

    Ranks still agree on an average. The scale makes it a sum.
    """
    if call.op != AVERAGE or not any(map(_is_integer, tensors)):
        return start(call)
    size = call.process_set.size() or 1

    def divided(sums: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            for total in sums:
                if _is_integer(total):
                    total.floor_divide_(size)
                elif total.dtype is not torch.bool:
                    total.div_(size)
        return sums

    before, after = call.scale
    return mapped(start(call._replace(scale=(before, after * size))), divided)
