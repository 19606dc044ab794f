"""Lets gradients flow through collectives: each one's backward is a collective too.

Data-parallel training averages the ranks' losses. So the gradient of allgather and broadcast is the
average of the ranks' gradients, as in Horovod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ronde._calls.handle import Handle

Backward = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]


class _Attach(torch.autograd.Function):
    """apply(backward, results, *inputs): the results, whose gradient is `backward`."""

    @staticmethod
    def forward(ctx: Any, backward: Backward, results: Any, *inputs: Any) -> Any:
        ctx.function = backward
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, None, *ctx.function(gradients))


def attach(
    results: list[torch.Tensor], inputs: Sequence[torch.Tensor], backward: Backward
) -> list[torch.Tensor]:
    """Makes `results` depend on `inputs`: backward(gradients of results) -> those of inputs."""
    if not any(tensor.requires_grad for tensor in inputs):
        return results
    return list(_Attach.apply(backward, results, *inputs))  # type: ignore[no-untyped-call]


def attached(
    handle: Handle[list[torch.Tensor]], inputs: Sequence[torch.Tensor], backward: Backward
) -> Handle[list[torch.Tensor]]:
    """The same operation, its results attach()ed."""
    return handle.then(lambda results: attach(results, inputs, backward))
