"""SyncBatchNorm: batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ronde._calls.reduce_ops import Sum
from ronde._collectives.calls import Call
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import global_process_set
from ronde._job.runtime import is_initialized, size
from ronde.torch._collectives.adapter import collectives

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """torch's BatchNorm1d, 2d and 3d in one, with mean and variance over all ranks' batches.

    Shapes: input and output (N, C) or (N, C, ...), C being num_features; N may differ between
    ranks, and be 0 on some. Outputs and gradients equal those of one process with the joined batch.
    All ranks must call it equally often, in the same order. Running statistics are the same on
    all ranks. In evaluation mode nothing is communicated, except by a layer without running
    statistics: there those of all ranks' batches count, as in training.
    Raises InvalidArgumentError (a ValueError) if all ranks together have one value per channel.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2 or input.shape[1] != self.num_features:
            raise InvalidArgumentError(
                f"expected an input (N, {self.num_features}, ...), not {tuple(input.shape)}"
            )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalises over all ranks in training mode, else by the running statistics."""
        self._check_input_dim(input)
        batch_counts = self.training or self.running_mean is None
        if not batch_counts or not is_initialized() or size() == 1:
            return super().forward(input)
        output, mean, variance, count = _Normalize.apply(  # type: ignore[no-untyped-call]
            input, self.weight, self.bias, self.eps
        )
        if self.training and self.running_mean is not None:
            _track(self, mean, variance, count)
        return output  # type: ignore[no-any-return]


def _track(norm: SyncBatchNorm, mean: Any, variance: Any, count: float) -> None:
    """Moves the running statistics towards those of this batch (its unbiased variance)."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    with torch.no_grad():
        norm.num_batches_tracked += 1
        rate = norm.momentum
        if rate is None:  # the plain average of all batches so far
            rate = 1.0 / float(norm.num_batches_tracked)
        norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), rate)
        unbiased = variance * (count / (count - 1))
        norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), rate)


def _accumulator(input: torch.Tensor) -> torch.dtype:
    """The type of statistics: float64 for float32, so that sums are exact."""
    return torch.float32 if input.dtype in (torch.float16, torch.bfloat16) else torch.float64


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """(C,) made to broadcast against (N, C, ...)."""
    return values.view(1, -1, *[1] * (like.dim() - 2))


def _sums(values: torch.Tensor) -> torch.Tensor:
    """The sum over all but the channels."""
    return values.sum(dim=[d for d in range(values.dim()) if d != 1])


def _joint_statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Mean and biased variance per channel over all ranks, and the number of values in each.

    Source: Chan, Golub, LeVeque, Updating formulae for computing sample variances, 1979.
    """
    here = x.numel() // x.shape[1]
    mean = _sums(x) / max(here, 1)
    spread = _sums((x - _per_channel(mean, x)) ** 2)
    mine = torch.stack([mean, spread, torch.full_like(mean, here)]).unsqueeze(0)
    call = Call(None, global_process_set)
    (every,) = collectives.allocating("allgather", True, [mine], call).wait()
    means, spreads, counts = every.unbind(1)
    total = counts.sum(0)
    count = float(total[0])
    if count <= 1:
        raise InvalidArgumentError(
            "expected more than one value per channel over all ranks when training"
        )
    joint = (means * counts).sum(0) / total
    spread = (spreads + counts * (means - joint) ** 2).sum(0)
    return joint, spread / total, count


class _Normalize(torch.autograd.Function):
    """apply(input, weight, bias, eps) -> (output, mean, biased variance, values per channel)."""

    @staticmethod
    def forward(ctx: Any, input: Any, weight: Any, bias: Any, eps: float) -> Any:
        x = input.to(_accumulator(input))
        mean, variance, count = _joint_statistics(x)
        scale = torch.rsqrt(variance + eps)
        normal = (x - _per_channel(mean, x)) * _per_channel(scale, x)
        output = normal
        if weight is not None:
            output = normal * _per_channel(weight.to(x.dtype), x)
        if bias is not None:
            output = output + _per_channel(bias.to(x.dtype), x)
        ctx.save_for_backward(input, weight, mean, scale)
        ctx.count, ctx.bias_type = count, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(mean, variance)
        return output.to(input.dtype), mean, variance, count

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Any, *_: Any) -> Any:
        input, weight, mean, scale = ctx.saved_tensors
        x, back = input.to(mean.dtype), gradient.to(mean.dtype)
        normal = (x - _per_channel(mean, x)) * _per_channel(scale, x)
        own = torch.stack([_sums(back), _sums(back * normal)])
        # Statistics depend on all ranks' inputs, so a gradient needs those of all ranks.
        call = Call(None, global_process_set, Sum)
        (both,) = collectives.allreduce(True, [own], None, call).wait()
        shift, slope = (_per_channel(part / ctx.count, x) for part in both)
        factor = scale if weight is None else scale * weight.to(scale.dtype)
        to_input = (back - shift - normal * slope) * _per_channel(factor, x)
        to_weight = None if weight is None else own[1].to(weight.dtype)
        to_bias = None if ctx.bias_type is None else own[0].to(ctx.bias_type)
        return to_input.to(input.dtype), to_weight, to_bias, None
