"""Makes the class of a codec from its row in the core's registry."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ronde import _core
from ronde._codecs import CastCompressor, Compressor, check_wire

Row = Mapping[str, Any]


def _text(row: Row, given: Mapping[str, Any]) -> str:
    """A codec as the core reads it. Leaves out None, and switches that stand as by default."""
    values = {}
    for one in row["arguments"]:
        value = given.get(one["argument"])
        if one["type"] == "bool":
            is_default = one["argument"] not in given or bool(value) == one["is_on"]
            value = None if is_default else one["other_word"]
        if value is not None:
            values[one["key"]] = value
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
