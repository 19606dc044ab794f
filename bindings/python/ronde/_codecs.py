"""Compressors of all frameworks: Horovod's two functions, and the text of a codec.

A codec is used as a class (all defaults) or as an instance; both have `wire`, the text that is
negotiated. Errors in values arise where an instance is made, and name the value.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ronde import _core
from ronde._argument_checks import check_text
from ronde._errors import InvalidArgumentError
from ronde._warnings import warn


def type_name(dtype: Any) -> str:
    """A type's name without its framework's: "float16" of torch.float16, tf.float16, "float16"."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


def wire_of(compression: Any) -> str:
    """The text of the core's codec; empty for compressors that work by themselves."""
    if isinstance(compression, str):
        return "" if compression == "none" else compression
    return str(getattr(compression, "wire", ""))


def check_wire(wire: str) -> None:
    """Raises InvalidArgumentError, with what is allowed, for a text that names no codec."""
    check_text("compression", wire)
    _core.check_compression(wire)


class _Printed(type):
    """Prints the compressors of Compression by their public names."""

    def __repr__(cls) -> str:
        of_class = cls.__dict__
        name = of_class.get("printed") or of_class.get("wire")
        return f"Compression.{name}" if name else super().__repr__()


class Compressor(metaclass=_Printed):
    """Two functions: compress(tensor) -> (tensor, context), decompress(tensor, context)."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor to send, and the context that decompress() needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the tensor in the form it had before compress()."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    printed = "none"

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the tensor itself."""
        return tensor


@cache
def warn_of_integers(codec: str, dtype: str) -> None:
    """Warns, once a process for each codec and type, of tensors that a cast leaves alone."""
    warn(
        f"compression={codec}: tensors of {dtype} are sent as they are, not compressed; casts are "
        'for floating types. Give such tensors no compression, or "none"'
    )


class CastCompressor(Compressor):
    """Sixteen bits for each element; elsewhere than in an allreduce, a cast."""

    wire = ""
    dtype: Any = None

    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """A copy of another type, as the framework makes it."""
        raise NotImplementedError

    @staticmethod
    def rounds(tensor: Any) -> bool:
        """True for floating-point tensors; others stay as they are."""
        raise NotImplementedError

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Returns a copy of 16 bits, and the type to go back to; integers stay as they are."""
        if not cls.rounds(tensor):
            warn_of_integers(wire_of(cls), type_name(tensor.dtype))
            return tensor, None
        return cls.cast(tensor, cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """Returns the tensor in its type before compress()."""
        return tensor if ctx is None else cls.cast(tensor, ctx)


class AllreduceCompressor(Compressor):
    """A codec that only allreduces know."""

    wire = ""

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Raises InvalidArgumentError: this codec has no tensor of its own."""
        casts = ["none", *(row["name"] for row in _core.codecs() if row["cast"])]
        allowed = ", ".join(f"Compression.{name}" for name in casts)
        raise InvalidArgumentError(
            f"Compression.{wire_of(cls)} works in allreduce and DistributedOptimizer; "
            f"allowed here: {allowed}"
        )


class NamedCompressor(AllreduceCompressor):
    """A codec by its text, as `ronde run --compression` takes it."""

    def __init__(self, wire: str) -> None:
        """wire: "auto", "int8:block=128", ...; raises InvalidArgumentError for what is none."""
        check_wire(wire)
        self.wire = wire
