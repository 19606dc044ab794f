"""Gradient compression: the form in which tensors are sent.

As in ronde.torch: codecs of Ronde (`Compression.fp16`, `.bf16`, `.int8`, `.int4`, `.onebit`,
`.topk`, `.randomk`, `.powersgd`) work in the allreduce; others are classes with Horovod's
interface, compress(tensor) -> (tensor, context) and decompress(tensor, context).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde._codecs import CastCompressor, Compressor, NoneCompressor
from ronde._compression import AnyCompression, add_casts

__all__ = ["Compression", "Compressor", "NoneCompressor"]


class _TensorFlowCast(CastCompressor):
    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """A copy of another type."""
        return tf.cast(tensor, dtype)

    @staticmethod
    def rounds(tensor: Any) -> bool:
        """True for floating-point tensors."""
        return bool(tensor.dtype.is_floating)


class Compression(AnyCompression):
    """The compressors, and the residuals of error feedback."""

    _to_tensor = staticmethod(tf.constant)


__getattr__ = add_casts(Compression, _TensorFlowCast, tf)
