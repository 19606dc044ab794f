"""Gradient compression, for tensors of any framework: what ronde.torch and ronde.tensorflow share.

A codec of Ronde works in the allreduce; its class carries only its text (`wire`). Casts work in
allgathers and on plain tensors too; each framework says how it casts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeVar

from ronde import _core
from ronde._calls.handle import Handle
from ronde._codec_classes import Codecs
from ronde._codecs import (
    CastCompressor,
    NamedCompressor,
    NoneCompressor,
    casts,
    class_named,
    type_name,
    warn_of_integers,
    wire_of,
)
from ronde._compression.rules import (
    Trained,
    by_rules,
    checked_one,
    is_ruled,
    make_rule,
    patterns,
)
from ronde._errors import InvalidArgumentError
from ronde._job.runtime import runtime

T = TypeVar("T")
C = TypeVar("C", bound=Any)


@cache
def named(compression: str) -> Any:
    """The compressor of a text: "none", "auto", "int8:block=128", ..."""
    return NoneCompressor if compression == "none" else NamedCompressor(compression)


def warn_of_idle(compression: Any, names: Iterable[str]) -> None:
    """Warns of patterns of names in rules of compression that no gradient has."""
    looked_for = dict.fromkeys(patterns(compression))
    if not looked_for:
        return
    known = list(names)
    idle = [one for one in looked_for if not any(fnmatchcase(name, one) for name in known)]
    if idle:
        warnings.warn(
            f"compression: no parameter fits {', '.join(map(repr, idle))}; "
            f"there are {', '.join(known[:3])}{', ...' if len(known) > 3 else ''}",
            stacklevel=4,
        )


def resolved(compression: Any) -> Any:
    """A compressor; texts become one, and none() becomes none, which is looked for."""
    if isinstance(compression, str):
        return named(compression)
    return NoneCompressor if type(compression) is NoneCompressor else compression


def is_cast(compression: Any) -> bool:
    """True for the casts, which allgathers can use too."""
    kind = compression if isinstance(compression, type) else type(compression)
    return issubclass(kind, CastCompressor)


@cache
def _is_cast_text(wire: str) -> bool:
    return any(row["cast"] and wire.partition(":")[0] == row["name"] for row in _core.codecs())


def wire_for(compression: Any, is_floating: bool, dtype: Any) -> str:
    """As wire_of(). A cast leaves other than floating types alone, with a warning: "none"."""
    wire = wire_of(compression)
    if not wire or is_floating or not _is_cast_text(wire):
        return wire
    warn_of_integers(wire, type_name(dtype))
    return "none"


def compressed(
    tensors: Sequence[T], compression: Any, start: Callable[[Sequence[T]], Handle[list[T]]]
) -> Handle[list[T]]:
    """Compresses the tensors, calls `start` with them, and decompresses the result."""
    if compression is NoneCompressor:
        return start(tensors)
    pairs = [compression.compress(tensor) for tensor in tensors]
    contexts = [context for _, context in pairs]
    return start([tensor for tensor, _ in pairs]).then(
        lambda results: list(map(compression.decompress, results, contexts))
    )


def started(
    tensors: Sequence[T],
    compression: Any,
    call: C,
    wire_for: Callable[[Any, T], str],
    start: Callable[[Sequence[T], C], Handle[list[T]]],
) -> Handle[list[T]]:
    """Calls `start`: with the core's codec in the call, or with tensors compressed before.

    call: as calls.Call. wire_for: the codec's text for a tensor; empty if the compressor has none.
    """
    if compression is NoneCompressor:
        return start(tensors, call)
    wires = {wire_for(checked_one(compression), tensor) for tensor in tensors}
    wire = wires.pop() if len(wires) == 1 else ""
    if wire:
        return start(tensors, call._replace(compression=wire))
    return compressed(tensors, resolved(compression), lambda sent: start(sent, call))


def for_values(compression: Any) -> Any:
    """The compression of values that an allgather sends: a cast, or none."""
    compression = resolved(compression)
    return compression if not wire_of(compression) or is_cast(compression) else NoneCompressor


@cache
def _in_training(wire: str) -> tuple[int, str]:
    """(the fewest elements that training compresses, the codec of tensors with more)."""
    return _core.fewest_sent_as_little(wire), _core.training_compression(wire)


def for_gradient(one: Trained, compression: Any, is_momentum: bool = False) -> Any:
    """The compressor of one gradient, by DistributedOptimizer's rules.

    Rules of the user's decide alone. Else codecs leave vectors, scalars and integers alone, and
    those that send little of a tensor leave small ones alone: most of a model's bytes are
    elsewhere, and what waits costs a small tensor the most. What sends little begins with a
    warm-up, unless its `warmup` is given. Neither is so of momenta (`is_momentum`), whose optimizer
    has a warm-up of its own.
    """
    if is_ruled(compression):
        found = by_rules(one, compression)
        return NoneCompressor if found is None else resolved(found)
    compression = resolved(compression)
    wire = wire_of(compression)
    if not wire:
        return compression
    fewest, training_wire = _in_training(wire)
    if one.dims < 2 or not one.is_floating:
        return NoneCompressor
    if is_momentum:
        return compression
    if one.elements is not None and one.elements < fewest:
        return NoneCompressor
    return named(training_wire) if training_wire != wire else compression


def save_state(to_tensor: Callable[[Any], Any]) -> dict[str, Any]:
    """The residuals of all tensors on this rank; arrays become tensors."""
    residuals = {
        (process_set, name): (steps, to_tensor(values))
        for process_set, name, steps, values in runtime().save_residuals()
    }
    return {"version": 1, "residuals": residuals}


def load_state(state: dict[str, Any]) -> None:
    """Replaces all residuals by those of state_dict(). No operation may be under way.

    A tensor that has another size by then begins anew, with a warning. Raises InvalidArgumentError
    for any other object.
    """
    if (
        not isinstance(state, Mapping)
        or state.get("version") != 1
        or not isinstance(state.get("residuals"), dict)
    ):
        raise InvalidArgumentError("not a state of Compression.state_dict()")
    runtime().load_residuals(
        [
            (process_set, name, steps, values.numpy() if hasattr(values, "numpy") else values)
            for (process_set, name), (steps, values) in state["residuals"].items()
        ]
    )


class AnyCompression(Codecs):
    """The compressors that all frameworks share, and the residuals of error feedback."""

    none = NoneCompressor
    rule = staticmethod(make_rule)
    load_state_dict = staticmethod(load_state)

    _to_tensor: Callable[[Any], Any]  # makes a framework's tensor of an array

    @classmethod
    def state_dict(cls) -> dict[str, Any]:
        """The residuals of all tensors on this rank, for a checkpoint.

        Each rank has its own. No operation may be under way.
        """
        return save_state(cls._to_tensor)

    @staticmethod
    def errors() -> dict[tuple[int, str], tuple[float, float]]:
        """By (process set, tensor): the norms of the residual and of the result on this rank.

        They are of the last measured step. RONDE_COMPRESSION_ERROR=N measures every N steps of a
        tensor; without it there are none.
        """
        losses: dict[tuple[int, str], tuple[float, float]] = runtime().compression_losses()
        return losses

    @staticmethod
    def memory() -> int:
        """Bytes of all residuals on this rank; RONDE_RESIDUAL_LIMIT bounds them."""
        return runtime().residual_bytes()


def add_casts(compression: type, cast: type[CastCompressor], types: Any) -> Callable[[str], Any]:
    """Adds the casts of a framework to its Compression. types: its types by name.

    Returns the __getattr__ of its module: codecs' classes by their own names, "FP16Compressor".
    """
    for name, kind in casts(cast, types).items():
        setattr(compression, name, kind)
    return lambda name: class_named(name, compression)
