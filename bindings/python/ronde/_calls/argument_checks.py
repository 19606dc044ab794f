"""Checks values that users pass to public functions, and says what an argument takes.

Hot paths call the core first and check only once it has refused: a check costs as much as a call.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ronde import _core
from ronde._errors import ArgumentTypeError, InvalidArgumentError

_MOST_SHOWN = 80
_MOST_ELEMENTS = 2**58


def public_name(op: str) -> str:
    """The package's name of the core's reduce operation: "Sum", "BitAnd"."""
    return "Bit" + op[3:].capitalize() if op.startswith("bit") else op.capitalize()


def _listed(names: list[str]) -> str:
    """The names as errors list them, the default first."""
    names.sort(key=lambda name: name != "Average")
    return " or ".join([", ".join(names[:-1]), names[-1]])


OPS = _core.reduce_ops()
MODEL_VARIABLES = "a list of variables, such as model.variables, is needed"
OP_NAMES = _listed([public_name(name) for name in OPS])


def shown(value: object) -> str:
    """The value as an error shows it; its type if that says more."""
    text = repr(value)
    fits = len(text) <= _MOST_SHOWN and "\n" not in text and " at 0x" not in text
    return text if fits else type(value).__name__


def is_whole(value: Any) -> bool:
    """True for what the core takes as a whole number, such as NumPy's."""
    try:
        operator.index(value)
    except (TypeError, AttributeError):  # the second from TensorFlow's texts
        return False
    return True


def is_number(value: Any) -> bool:
    """True for what the core takes as a number, such as a tensor of one."""
    if isinstance(value, (str, bytes)):
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_listed(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _are_functions(value: Any) -> bool:
    return _is_listed(value) and all(callable(one) for one in value)


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _is_flag(value: Any) -> bool:
    return is_number(value) and float(value) in (0, 1)


def is_process_set(value: Any) -> bool:
    """True for a ProcessSet, also for Horovod's."""
    return hasattr(value, "process_set_id") and hasattr(value, "ranks")


_WHOLE = (is_whole, "an int")
_NUMBER = (is_number, "a number")
_TEXT = (_is_text, "a str")
# By the public name of an argument: the values that it takes, and how errors call them.
_TAKEN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_or_none(_is_text), "a str"),
    "mark": _TEXT,
    "average": (_is_flag, "True or False"),
    "op": (is_whole, OP_NAMES),
    **dict.fromkeys(("root_rank", "to", "source", "tag", "step", "process_set_id"), _WHOLE),
    **dict.fromkeys(("backward_passes_per_step", "num_groups"), _WHOLE),
    **dict.fromkeys(("prescale_factor", "postscale_factor"), _NUMBER),
    **dict.fromkeys(("gradient_predivide_factor", "lr", "eps", "weight_decay"), _NUMBER),
    **dict.fromkeys(("initial_lr", "multiplier", "start_epoch", "warmup_epochs"), _NUMBER),
    "warmup_steps": _WHOLE,
    "seed": _WHOLE,
    **dict.fromkeys(("path", "file_path"), (_is_path, "a path")),
    **dict.fromkeys(("hostfile", "executable"), (_or_none(_is_path), "a path")),
    "hosts": (_or_none(_is_text), 'a str such as "a:2,b:2"'),
    **dict.fromkeys(("network_interface", "mpi_args"), (_or_none(_is_text), "a str")),
    **dict.fromkeys(("ssh_port",), (_or_none(is_whole), "an int")),
    **dict.fromkeys(("end_epoch", "steps_per_epoch"), (_or_none(is_number), "a number")),
    **dict.fromkeys(("env", "kwargs"), (_or_none(_is_mapping), "a dict")),
    **dict.fromkeys(("args", "ssh_options"), (_is_listed, "a list")),
    "func": (callable, "a function"),
    "callbacks": (_are_functions, "a list of functions"),
    "weight": (_or_none(is_number), "a number or None"),
    "timeout": (_or_none(is_number), "seconds, or None for no limit"),
    "process_set": (is_process_set, "a ProcessSet, as add_process_set() returns it"),
}
_RANKS = ("root_rank", "to", "source")
_MOST = {**dict.fromkeys(_RANKS, 2**31), "tag": 2**63, "step": 2**63}  # the core's limits


def check(**given: Any) -> None:
    """Raises ArgumentTypeError for the first value that its argument does not take.

    Raises InvalidArgumentError for texts that no encoding has, and for numbers out of range.
    """
    for name, value in given.items():
        fits, wanted = _TAKEN[name]
        shown_name = "name" if name == "mark" else name
        if not fits(value):
            raise ArgumentTypeError(f"{shown_name} must be {wanted}, not {shown(value)}")
        if isinstance(value, str) and wanted != "a path":
            check_text(shown_name, value)
        if wanted == "a path" and value in ("", b""):
            raise InvalidArgumentError(f"{shown_name} is empty; a path is needed")
        if name == "op" and value not in OPS.values():
            raise InvalidArgumentError(f"op={value}; allowed: {OP_NAMES}")
        if name in _MOST and abs(operator.index(value)) >= _MOST[name]:
            raise InvalidArgumentError(f"{name}={value} is out of range")


def check_text(argument: str, text: str) -> None:
    """Raises InvalidArgumentError for a text with a surrogate, which is half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        surrogate = text[error.start]
        raise InvalidArgumentError(
            f"{argument}={shown(text)} has the surrogate {surrogate!r}, which is no character "
            f"and cannot be sent; {argument}.encode(errors='replace').decode() has none"
        ) from None


def check_has(attribute: str, argument: str, value: Any, wanted: str, remedy: str = "") -> None:
    """Raises ArgumentTypeError unless the value has an attribute, as all of its kind have."""
    if not hasattr(value, attribute):
        raise ArgumentTypeError(f"{argument} must be {wanted}, not {shown(value)}{remedy}")


def whole_numbers(argument: str, values: Any, wanted: str) -> list[int]:
    """The values as a list of ints. Raises ArgumentTypeError for anything else than such."""
    try:
        if not isinstance(values, (str, bytes)):
            return [operator.index(value) for value in values]
    except TypeError:
        pass
    raise ArgumentTypeError(f"{argument} must be {wanted}, not {shown(values)}")


def checked_shape(shape: Any) -> tuple[int, ...]:
    """The extents of a shape, or of a single extent. Raises for anything else."""
    given = (shape,) if is_whole(shape) else shape
    extents = whole_numbers("shape", given, "a whole number, or several")
    if any(extent < 0 for extent in extents):
        raise InvalidArgumentError(f"shape={shown(shape)}; allowed: extents from 0")
    if math.prod(extents) >= _MOST_ELEMENTS:
        raise InvalidArgumentError(f"shape={shown(shape)} has too many elements for any memory")
    return tuple(extents)


def row_counts(splits: Any) -> list[int]:
    """The core's splits, from a tensor, an array or a sequence of whole numbers.

    Raises ArgumentTypeError for anything else.
    """
    try:
        values = splits.tolist() if hasattr(splits, "tolist") else splits
    except RuntimeError:  # a tensor without values
        values = splits
    counts = whole_numbers("splits", values, "whole numbers, the rows for each rank")
    if any(abs(count) >= 2**63 for count in counts):
        raise InvalidArgumentError(f"splits={shown(counts)} is out of range")
    return counts


def several(tensors: Any, what: str = "a list of tensors is needed") -> Sequence[Any]:
    """The tensors of a group. Raises ArgumentTypeError for a single one, and for no list at all."""
    if isinstance(tensors, (list, tuple)):
        return tensors
    is_one = hasattr(tensors, "shape") or isinstance(tensors, (str, bytes))
    if is_one or not isinstance(tensors, Iterable):
        raise ArgumentTypeError(f"{what}, not {type(tensors).__name__}")
    return list(tensors)


def explained(error: TypeError, **given: Any) -> Exception:
    """The error of the first argument that a call may not have; `error` if all are fine."""
    try:
        check(**given)
    except InvalidArgumentError as reason:
        return reason
    return error
