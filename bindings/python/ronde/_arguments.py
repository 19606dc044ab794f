"""Explains why the core refused arguments."""

from __future__ import annotations

from ronde import _core
from ronde._errors import InvalidArgumentError
from ronde._job import ProcessSet, rank


def _public(name: str) -> str:
    """The package's name of the core's reduce operation: "Sum", "BitAnd"."""
    return "Bit" + name[3:].capitalize() if name.startswith("bit") else name.capitalize()


def _listed(names: list[str]) -> str:
    """The names as errors list them, the default first."""
    names.sort(key=lambda name: name != "Average")
    return " or ".join([", ".join(names[:-1]), names[-1]])


_OPS = _core.reduce_ops()
_NAMES = _listed([_public(name) for name in _OPS])


def check_reduce_op(op: object) -> None:
    """Raises TypeError or InvalidArgumentError if `op` is no reduce operation."""
    if not isinstance(op, int) or isinstance(op, bool):
        raise TypeError(f"op must be {_NAMES}, not {op!r}")
    if op not in _OPS.values():
        raise InvalidArgumentError(f"op={op}; allowed: {_NAMES}")


def left_out(error: InvalidArgumentError, process_set: ProcessSet) -> InvalidArgumentError:
    """The error; if this rank is outside of the set, an error that says so."""
    if process_set.included() is not False:
        return error
    return InvalidArgumentError(
        f"rank {rank()} is not in {process_set}: its collectives are for its members alone; see "
        "included()"
    )


def explained(
    error: TypeError,
    name: object,
    op: object,
    root: object,
    scale: tuple[object, object],
    weight: object = None,
) -> TypeError:
    """The error of the core's submit(), in the caller's terms."""
    if name is not None and not isinstance(name, str):
        return TypeError(f"name must be a str, not {name!r}")
    if not isinstance(op, int):
        return TypeError(f"op must be {_NAMES}, not {op!r}")
    if not isinstance(root, int):
        return TypeError(f"root_rank must be an int, not {root!r}")
    for factor, value in zip(("prescale_factor", "postscale_factor"), scale):
        if not isinstance(value, (int, float)):
            return TypeError(f"{factor} must be a number, not {value!r}")
    if weight is not None and not isinstance(weight, (int, float)):
        return TypeError(f"weight must be a number or None, not {weight!r}")
    return error
