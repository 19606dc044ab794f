"""Gradient compression: the form in which tensors are sent.

As in ronde.torch: codecs of Ronde (`Compression.fp16`, `.bf16`, `.int8`, `.int4`, `.onebit`,
`.topk`, `.randomk`, `.powersgd`) work in the allreduce; others are classes with Horovod's
interface, compress(tensor) -> (tensor, context) and decompress(tensor, context).
"""

from __future__ import annotations

from ronde._codecs import Compressor, NoneCompressor
from ronde._tensorflow.compression import Compression
from ronde._tensorflow.compression import class_named as __getattr__  # noqa: F401  for pickles

__all__ = ["Compression", "Compressor", "NoneCompressor"]
