"""Gradient compression: what tensors travel as.

As in ronde.torch: codecs of Ronde (`Compression.fp16`, `.bf16`, `.int8`, `.int4`, `.onebit`,
`.topk`, `.randomk`, `.powersgd`) work in the allreduce; others are classes with Horovod's
interface, compress(tensor) -> (tensor, context) and decompress(tensor, context).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde import _compression
from ronde._codec_factory import casts, class_named
from ronde._codecs import CastCompressor, Compressor, NoneCompressor
from ronde._compression import AnyCompression

__all__ = ["Compression", "Compressor", "NoneCompressor"]


class _TensorFlowCast(CastCompressor):
    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """A copy of another type."""
        return tf.cast(tensor, dtype)

    @staticmethod
    def rounds(tensor: Any) -> bool:
        """Whether the tensor is of floating-point numbers."""
        return bool(tensor.dtype.is_floating)


class Compression(AnyCompression):
    """The compressors there are, and what error feedback keeps."""

    @staticmethod
    def state_dict() -> dict[str, Any]:
        """What compression has left over of every tensor on this rank, for a checkpoint.

        Each rank has its own. No operation may be under way.
        """
        return _compression.save_state(tf.constant)


for _name, _class in casts(_TensorFlowCast, tf).items():
    setattr(Compression, _name, _class)


def __getattr__(name: str) -> Any:
    """FP16Compressor, Int8Compressor, ...: the codecs' classes by their own names."""
    return class_named(name, Compression)
