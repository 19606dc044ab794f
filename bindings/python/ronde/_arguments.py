"""Explains why the core refused arguments, for functions that know the job."""

from __future__ import annotations

from ronde._argument_checks import OP_NAMES, OPS, is_process_set
from ronde._errors import ArgumentTypeError, InvalidArgumentError
from ronde._job import ProcessSet, rank


def check_reduce_op(op: object) -> None:
    """Raises ArgumentTypeError or InvalidArgumentError if `op` is no reduce operation."""
    if not isinstance(op, int) or isinstance(op, bool):
        raise ArgumentTypeError(f"op must be {OP_NAMES}, not {op!r}")
    if op not in OPS.values():
        raise InvalidArgumentError(f"op={op}; allowed: {OP_NAMES}")


def refused(error: InvalidArgumentError, process_set: ProcessSet, op: int) -> InvalidArgumentError:
    """The core's error, or one in the caller's terms.

    For an operation that is none, and for a rank that is outside of the set.
    """
    if op not in OPS.values():
        return InvalidArgumentError(f"op={op}; allowed: {OP_NAMES}")
    if not is_process_set(process_set) or process_set.included() is not False:
        return error
    return InvalidArgumentError(
        f"rank {rank()} is not in {process_set}: its collectives are for its members alone; see "
        "included()"
    )
