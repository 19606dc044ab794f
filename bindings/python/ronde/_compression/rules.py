"""Compression rules: the codec of each of a model's tensors, for all frameworks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._codecs import check_wire, type_name, wire_of
from ronde._errors import InvalidArgumentError

_FLOATING = tuple(_core.compressible_dtypes())


@dataclasses.dataclass(frozen=True)
class Trained:
    """The properties of a trained variable that rules check."""

    name: str
    dims: int
    elements: int | None  # None: unknown, many
    dtype: Any
    is_floating: bool
    parameter: Any  # the framework's type


@dataclasses.dataclass(frozen=True)
class Rule:
    """A codec, and the conditions on a tensor under which it applies."""

    name: str
    min_elements: int
    max_elements: int | None
    dtypes: tuple[str, ...]  # empty: any
    dims: tuple[int, ...]  # empty: any
    use: Any

    def fits(self, one: Trained) -> bool:
        """True if the rule applies to this variable."""
        if one.elements is not None:
            most = self.max_elements
            if one.elements < self.min_elements or (most is not None and one.elements > most):
                return False
        elif self.max_elements is not None:
            return False
        return (
            fnmatchcase(one.name, self.name)
            and (not self.dtypes or type_name(one.dtype) in self.dtypes)
            and (not self.dims or one.dims in self.dims)
        )


def make_rule(
    name: str = "*",
    *,
    use: Any,
    min_elements: int = 0,
    max_elements: int | None = None,
    dtype: Any = None,
    dims: int | Iterable[int] | None = None,
) -> Rule:
    """A rule of a list that `compression` can be: the first rule that fits a tensor applies.

    name: a pattern of its name, as of fnmatch. min_elements, max_elements: limits of its number of
    elements, both included. dtype: float16, bfloat16, float32 or float64, by name or as the
    framework's type, or several. dims: its number of dimensions, or several. use: its codec. The
    codec then applies to any size, and warms up only if its own warm-up is given.
    Raises InvalidArgumentError for values that are not allowed.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"rule: name={shown(name)}; allowed: a pattern, as of fnmatch")
    _check_count("min_elements", min_elements)
    if max_elements is not None:
        _check_count("max_elements", max_elements)
        if max_elements < min_elements:
            raise InvalidArgumentError(
                f"rule: max_elements={max_elements} is less than min_elements={min_elements}"
            )
    return Rule(name, min_elements, max_elements, _dtypes(dtype), _dims(dims), checked_one(use))


make_rule.__qualname__ = "Compression.rule"  # the name that Python's TypeErrors show


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_count(what: str, value: Any) -> None:
    if not _is_count(value):
        raise InvalidArgumentError(f"rule: {what}={shown(value)}; allowed: whole numbers from 0")


def _dtypes(dtype: Any) -> tuple[str, ...]:
    given = dtype if isinstance(dtype, (list, tuple, set, frozenset)) else [dtype]
    names = () if dtype is None else tuple(type_name(one) for one in given)
    if (dtype is not None and not names) or any(one not in _FLOATING for one in names):
        raise InvalidArgumentError(
            f"rule: dtype={shown(dtype)}; allowed: {', '.join(_FLOATING)}, or a list of them"
        )
    return names


def _dims(dims: Any) -> tuple[int, ...]:
    if dims is None:
        return ()
    listed = isinstance(dims, Iterable) and not isinstance(dims, str)
    numbers = tuple(dims) if listed else (dims,)
    if not numbers or not all(map(_is_count, numbers)):
        raise InvalidArgumentError(
            f"rule: dims={shown(dims)}; allowed: whole numbers from 0, one or several"
        )
    return numbers


def is_compressor(compression: Any) -> bool:
    """True if it names a compression of one tensor. Its parameters may be wrong."""
    return bool(wire_of(compression)) or all(
        hasattr(compression, function) for function in ("compress", "decompress")
    )


def checked_one(compression: Any) -> Any:
    """The compression of one tensor.

    Raises InvalidArgumentError for anything but a compression.
    """
    wire = wire_of(compression)
    if wire:
        check_wire(wire)
    elif not isinstance(compression, str) and not is_compressor(compression):
        raise InvalidArgumentError(
            'compression must be one of Compression, its name (such as "int8"), or an object '
            f"with compress() and decompress(), not {shown(compression)}"
        )
    return compression


def checked(compression: Any) -> Any:
    """The compression of a training: of one tensor, or rules.

    Rules are a dict from patterns to compressors, a list of Rules, or a callable. Raises
    InvalidArgumentError for anything but a compression.
    """
    if isinstance(compression, (list, tuple)):
        for one in compression:
            if not isinstance(one, Rule):
                raise InvalidArgumentError(
                    f"a list of compressions consists of Compression.rule(...), not {shown(one)}"
                )
    elif isinstance(compression, Rule):
        raise InvalidArgumentError("a Compression.rule(...) alone is no compression: pass a list")
    elif not _is_function(compression):
        for one in compression.values() if isinstance(compression, dict) else [compression]:
            checked_one(one)
    return compression


def _is_function(compression: Any) -> bool:
    return callable(compression) and not is_compressor(compression)


def is_ruled(compression: Any) -> bool:
    """True for rules. Rules apply to tensors of any size and dimension."""
    return isinstance(compression, (dict, list, tuple)) or _is_function(compression)


def by_rules(one: Trained, compression: Any) -> Any:
    """The compression of a variable by the rules; None if no rule applies.

    Raises InvalidArgumentError if a callable returns anything but a compression.
    """
    if isinstance(compression, dict):
        fits = (use for name, use in compression.items() if fnmatchcase(one.name, name))
        return next(fits, None)
    if isinstance(compression, (list, tuple)):
        return next((rule.use for rule in compression if rule.fits(one)), None)
    found = compression(one.name, one.parameter)
    try:
        return None if found is None else checked_one(found)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f'for "{one.name}": {error}') from None


def patterns(compression: Any) -> Iterator[str]:
    """The patterns of names in rules."""
    if isinstance(compression, dict):
        yield from compression
    elif isinstance(compression, (list, tuple)):
        yield from (rule.name for rule in compression)
