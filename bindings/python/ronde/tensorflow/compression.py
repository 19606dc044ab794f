"""Gradient compression: what tensors travel as.

As in ronde.torch: codecs of Ronde (`Compression.fp16`, `.bf16`, `.int8`, `.int4`, `.onebit`,
`.topk`, `.randomk`, `.powersgd`) work in the allreduce; others are classes with Horovod's
interface, compress(tensor) -> (tensor, context) and decompress(tensor, context).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde import _codecs, _compression
from ronde._compression import AnyCompression, CastCompressor, Compressor, NoneCompressor

__all__ = ["BF16Compressor", "Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class _TensorFlowCast(CastCompressor):
    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """A copy of another type."""
        return tf.cast(tensor, dtype)

    @staticmethod
    def rounds(tensor: Any) -> bool:
        """Whether the tensor is of floating-point numbers."""
        return bool(tensor.dtype.is_floating)


class FP16Compressor(_codecs.Fp16, _TensorFlowCast):
    """float16 to nearest even, added in fp32; finite values beyond its range stay at its ends."""

    dtype = tf.float16


class BF16Compressor(_codecs.Bf16, _TensorFlowCast):
    """bfloat16 to nearest even, added in fp32."""

    dtype = tf.bfloat16


class Compression(AnyCompression):
    """The compressors there are, and what error feedback keeps."""

    fp16 = FP16Compressor
    bf16 = BF16Compressor

    @staticmethod
    def state_dict() -> dict[str, Any]:
        """What compression has left over of every tensor on this rank, for a checkpoint.

        Each rank has its own. No operation may be under way.
        """
        return _compression.save_state(tf.constant)
