"""Compressed communication of FSDP2: compress_fsdp(model, gradients=Compression.int8)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._codecs import wire_of
from ronde._collectives import calls as kinds
from ronde._compression.choice import resolved
from ronde._compression.rules import checked_one
from ronde._errors import InvalidArgumentError, UnsupportedError
from ronde.torch.compression import Compression
from ronde.torch.distributed._group import RondeProcessGroup, reduction_of
from ronde.torch.distributed._tensors import rows, view
from ronde.torch.distributed._work import Work

_calls = itertools.count()  # of compress_fsdp(), for names: residuals are found by them


def compress_fsdp(
    model: torch.nn.Module,
    gradients: Any = Compression.int8,
    parameters: Any = Compression.none,
) -> None:
    """Compresses the reduce-scatters and allgathers of a model after fully_shard().

    gradients: their codec, with error feedback. parameters: that of the values which forward and
    backward passes use; shards stay exact. Codecs: fp16, bf16, int8, int4, auto, or none. Call it
    on all ranks, equally often, and after fully_shard() of all modules. Raises InvalidArgumentError
    for other codecs and models without FSDP; UnsupportedError where torch has no such hooks.
    """
    sent = _wire("gradients", "reduce_scatter", gradients)
    returned = _wire("parameters", "allgather", parameters)
    found = [
        (name, module)
        for name, module in model.named_modules()
        if any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__)
    ]
    if not found:
        raise InvalidArgumentError("compress_fsdp: no module of the model is sharded; call "
                                   "fully_shard() first")  # fmt: skip
    number = next(_calls)
    for name, module in found:
        one: Any = module
        if not hasattr(one, "set_custom_reduce_scatter"):
            raise UnsupportedError(f"compress_fsdp: torch {torch.__version__} has no hooks for it")
        one.set_custom_reduce_scatter(_ReduceScatter(sent, f"fsdp.{number}.{name}"))
        one.set_custom_all_gather(_AllGather(returned))


def _wire(what: str, kind: str, compression: Any) -> str:
    """The text of a codec; "none" if there is none."""
    wire = wire_of(checked_one(compression))
    if wire:
        _core.check_codec(kind, wire)
    elif resolved(compression) is not Compression.none:
        raise InvalidArgumentError(
            f"{what}={shown(compression)}; allowed: fp16, bf16, int8, int4, auto, none"
        )
    return wire or "none"


class _Communication:
    """One module's, with torch's interface Comm."""

    def __init__(self, wire: str, name: str = "") -> None:
        self._wire, self._name = wire, name

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """Memory for a tensor that is sent or received."""
        return torch.empty(*size, dtype=dtype, device=device)

    def _wire_of(self, tensor: torch.Tensor) -> str:
        """Parameters of several types are gathered as bytes, which no codec rounds."""
        return self._wire if tensor.is_floating_point() else "none"


class _ReduceScatter(_Communication):
    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> Work | None:
        options: Any = c10d.ReduceScatterOptions()
        options.asyncOp = async_op
        reduction, prescale = reduction_of(op)
        work = _ronde(group)._start(
            kinds.REDUCE_SCATTER,
            [rows(input_tensor, group.size())],
            [view(output_tensor)],
            ([input_tensor], [output_tensor]),
            [output_tensor],
            options,
            None,
            reduction,
            prescale,
            name=self._name,
            compression=self._wire_of(input_tensor),
        )
        return work if async_op else None


class _AllGather(_Communication):
    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        async_op: bool = False,
    ) -> Work | None:
        options: Any = c10d.AllgatherOptions()
        options.asyncOp = async_op
        work = _ronde(group)._start(
            kinds.ALLGATHER,
            [rows(input_tensor, 1)],
            [view(output_tensor)],
            ([input_tensor], [output_tensor]),
            [output_tensor],
            options,
            compression=self._wire_of(input_tensor),
        )
        return work if async_op else None


def _ronde(group: Any) -> RondeProcessGroup:
    if isinstance(group, RondeProcessGroup):
        return group
    raise InvalidArgumentError(
        "compress_fsdp needs process groups of the backend ronde; this one's is "
        f"{dist.get_backend(group)}"
    )
