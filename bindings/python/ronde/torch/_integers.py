"""Averages of integers are rounded down, as torch's floor_divide() and Horovod do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ronde._collectives import AVERAGE, SUM
from ronde._handle import Handle, mapped
from ronde._job import ProcessSet


def _is_integer(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)


def reduced(
    start: Callable[[int], Handle[list[torch.Tensor]]],
    tensors: Sequence[torch.Tensor],
    op: int,
    process_set: ProcessSet,
) -> Handle[list[torch.Tensor]]:
    """start(op), but an average of tensors with integers among them is a sum, divided here."""
    if op != AVERAGE or not any(map(_is_integer, tensors)):
        return start(op)

    def divided(sums: list[torch.Tensor]) -> list[torch.Tensor]:
        size = process_set.size() or 1
        with torch.no_grad():
            for total in sums:
                if _is_integer(total):
                    total.floor_divide_(size)
                elif total.dtype is not torch.bool:
                    total.div_(size)
        return sums

    return mapped(start(SUM), divided)
