"""Gradient compression: the form in which tensors are sent.

Codecs of Ronde (`Compression.fp16`, `.bf16`, `.int8`, `.int4`, `.onebit`, `.topk`, `.randomk`,
`.powersgd`, `.auto`) work in the allreduce, which adds in fp32. A lossy codec keeps its residual by
the tensor's name and adds it to the next gradient. All work with and without parentheses, and by
name ("auto", "int8:block=128"). Other compressors are classes with Horovod's interface:
compress(tensor) -> (tensor, context), decompress(tensor, context).
"""

from __future__ import annotations

from typing import Any

import torch

from ronde._codecs import CastCompressor, Compressor, NoneCompressor
from ronde._compression import choice
from ronde._compression.choice import AnyCompression, add_casts

__all__ = ["Compression", "Compressor", "NoneCompressor"]


class _TorchCast(CastCompressor):
    @staticmethod
    def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A copy of another type."""
        return tensor.to(dtype)

    @staticmethod
    def rounds(tensor: torch.Tensor) -> bool:
        """True for floating-point tensors."""
        return tensor.dtype.is_floating_point


def wire_for(compression: Any, tensor: torch.Tensor) -> str:
    """The core's codec for the tensor; empty if it has none or the compressor works itself."""
    floating = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return choice.wire_for(compression, floating, tensor.dtype)


class Compression(AnyCompression):
    """The compressors, and the residuals of error feedback."""

    _to_tensor = staticmethod(torch.from_numpy)


__getattr__ = add_casts(Compression, _TorchCast, torch)
