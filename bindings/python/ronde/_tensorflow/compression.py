"""Compression of TensorFlow's tensors: its casts, for ronde.tensorflow and ronde.keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde._codecs import CastCompressor
from ronde._compression.choice import AnyCompression, add_casts

_PUBLIC = "ronde.tensorflow.compression"  # what prints and pickles of these classes name


class _TensorFlowCast(CastCompressor):
    __module__ = _PUBLIC

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

    __module__ = _PUBLIC

    _to_tensor = staticmethod(tf.constant)


class_named = add_casts(Compression, _TensorFlowCast, tf)
