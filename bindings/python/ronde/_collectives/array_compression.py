"""Gradient compression of NumPy's arrays: the form in which they are sent.

As in ronde.torch: codecs of Ronde work in the allreduce; others are classes with two functions,
compress(array) -> (array, context) and decompress(array, context).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ronde._codecs import CastCompressor
from ronde._compression.choice import AnyCompression, add_casts
from ronde._errors import UnsupportedError


def is_floating(array: Any) -> bool:
    """True for arrays of floating types and of complex numbers, which travel as pairs of them."""
    return str(array.dtype).startswith(("float", "bfloat", "complex"))


class _NumpyCast(CastCompressor):
    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """A copy of another type."""
        if dtype is None:
            raise UnsupportedError(
                "NumPy has no bfloat16; Compression.bf16 works in calls of floating arrays only"
            )
        return tensor.astype(dtype)

    @staticmethod
    def rounds(tensor: Any) -> bool:
        """True for floating-point arrays."""
        return np.issubdtype(tensor.dtype, np.floating)


class Compression(AnyCompression):
    """The compressors, and the residuals of error feedback."""

    _to_tensor = staticmethod(np.asarray)


Compression.__module__ = "ronde"  # its public name

__getattr__ = add_casts(Compression, _NumpyCast, SimpleNamespace(float16=np.float16, bfloat16=None))
