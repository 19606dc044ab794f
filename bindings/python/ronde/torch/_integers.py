"""Averages of integers, rounded down as by torch's floor_divide() and Horovod."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ronde._collectives import AVERAGE
from ronde._handle import Handle, mapped
from ronde._job import ProcessSet


def _is_integer(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)


Scale = tuple[float, float]  # before and after the sum


def reduced(
    start: Callable[[Scale], Handle[list[torch.Tensor]]],
    tensors: Sequence[torch.Tensor],
    op: int,
    scale: Scale,
    process_set: ProcessSet,
) -> Handle[list[torch.Tensor]]:
    """Calls start(scale). An average of tensors with integers is divided here.

    Ranks still agree on an average. The scale makes it a sum.
    """
    if op != AVERAGE or not any(map(_is_integer, tensors)):
        return start(scale)
    size = process_set.size() or 1

    def divided(sums: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            for total in sums:
                if _is_integer(total):
                    total.floor_divide_(size)
                elif total.dtype is not torch.bool:
                    total.div_(size)
        return sums

    return mapped(start((scale[0], scale[1] * size)), divided)
