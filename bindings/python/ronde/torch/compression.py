"""Gradient compression: what tensors travel as.

Codecs of Ronde (`Compression.fp16`, `.bf16`, `.int8`, `.int4`, `.onebit`, `.topk`, `.randomk`,
`.powersgd`, `.auto`) work in the allreduce: values are added in fp32; what a lossy one leaves over
is kept by the name of the tensor and added to its next gradient. All work with and without
parentheses, and by name ("auto", "int8:block=128"). The others are classes with Horovod's
interface: compress(tensor) -> (tensor, context),
decompress(tensor, context).
"""

from __future__ import annotations

from typing import Any

import torch

from ronde import _compression
from ronde._codec_factory import casts, class_named
from ronde._codecs import CastCompressor, Compressor, NoneCompressor
from ronde._compression import AnyCompression

__all__ = ["Compression", "Compressor", "NoneCompressor"]


class _TorchCast(CastCompressor):
    @staticmethod
    def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A copy of another type."""
        return tensor.to(dtype)

    @staticmethod
    def rounds(tensor: torch.Tensor) -> bool:
        """Whether the tensor is of floating-point numbers."""
        return tensor.dtype.is_floating_point


def wire_for(compression: Any, tensor: torch.Tensor) -> str:
    """What the core is to compress the tensor with; empty where nothing, or by the compressor."""
    floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return _compression.wire_for(compression, floating)


class Compression(AnyCompression):
    """The compressors there are, and what error feedback keeps."""

    @staticmethod
    def state_dict() -> dict[str, Any]:
        """What compression has left over of every tensor on this rank, for a checkpoint.

        Each rank has its own. No operation may be under way.
        """
        return _compression.save_state(torch.from_numpy)


for _name, _class in casts(_TorchCast, torch).items():
    setattr(Compression, _name, _class)


def __getattr__(name: str) -> Any:
    """FP16Compressor, Int8Compressor, ...: the codecs' classes by their own names."""
    return class_named(name, Compression)
