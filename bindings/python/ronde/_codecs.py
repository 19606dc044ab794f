"""Compressors of all frameworks: Horovod's two functions, the text of a codec, and its class.

A codec is used as a class (all defaults) or as an instance; both have `wire`, the text that is
negotiated. Errors in values arise where an instance is made, and name the value.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ronde import _core
from ronde._calls.argument_checks import check_text, is_number, shown
from ronde._errors import InvalidArgumentError

Row = Mapping[str, Any]


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


def _warn(text: str) -> None:
    """Warns as if the innermost caller outside of this package did."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "ronde" or module.startswith("ronde.")


@cache
def warn_of_integers(codec: str, dtype: str) -> None:
    """Warns, once a process for each codec and type, of tensors that a cast leaves alone."""
    _warn(
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


def _text(row: Row, given: Mapping[str, Any]) -> str:
    """A codec as the core reads it. Leaves out None, and switches that stand as by default."""
    values = {}
    for one in row["arguments"]:
        value = given.get(one["argument"])
        if one["type"] == "bool":
            is_default = one["argument"] not in given or bool(value) == one["is_on"]
            value = None if is_default else one["other_word"]
        if value is not None:
            values[one["key"]] = value if is_number(value) else shown(value).strip("'")
    assignments = ",".join(f"{key}={values[key]}" for key in row["keys"] if key in values)
    return f"{row['name']}:{assignments}" if assignments else row["name"]


def _parameter(argument: Mapping[str, Any]) -> inspect.Parameter:
    is_switch = argument["type"] == "bool"
    return inspect.Parameter(
        argument["argument"],
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=argument["is_on"] if is_switch else None,
        annotation="bool" if is_switch else f"{argument['type']} | None",
    )


def _constructor(row: Row) -> Callable[..., None]:
    """The __init__ of a codec's class."""
    arguments = inspect.Signature([_parameter(one) for one in row["arguments"]])

    def __init__(self: Any, *positional: Any, **named: Any) -> None:
        """Raises TypeError naming a parameter that the codec does not have, and those it has.

        Raises InvalidArgumentError for values that are not allowed, alone or together.
        """
        try:
            given = arguments.bind(*positional, **named).arguments
        except TypeError as error:
            allowed = ", ".join(arguments.parameters)
            message = f"Compression.{row['name']}: {error}; allowed: {allowed}"
            raise TypeError(message) from None
        self.wire = _text(row, given)
        check_wire(self.wire)

    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = arguments.replace(parameters=[this, *arguments.parameters.values()])
    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def _name_of(row: Row) -> str:
    return f"{row['title']}Compressor"


def codec_class(row: Row, base: type[Compressor], module: str, **members: Any) -> type[Compressor]:
    """A subclass of `base` with the codec's arguments, docstring and text, in a module."""
    described = {"__init__": _constructor(row), "__doc__": row["doc"], "__module__": module}
    return type(_name_of(row), (base,), {"wire": row["name"], **described, **members})


def casts(base: type[CastCompressor], types: Any) -> dict[str, type[Compressor]]:
    """The codecs that other collectives can use too, as casts of a framework.

    base: how the framework casts. types: the module that has its types by name.
    """
    return {
        row["name"]: codec_class(row, base, base.__module__, dtype=getattr(types, row["cast"]))
        for row in _core.codecs()
        if row["cast"]
    }


def class_named(name: str, compression: type) -> type[Compressor]:
    """A codec's class by its own name, "Int8Compressor", as a framework's Compression has it.

    Raises AttributeError where there is none.
    """
    for row in _core.codecs():
        if name == _name_of(row):
            found: type[Compressor] = getattr(compression, row["name"])
            return found
    raise AttributeError(f"{name} is not the name of a compressor")
