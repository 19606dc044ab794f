"""Gradient compression, for tensors of any framework: what ronde.torch and ronde.tensorflow share.

A codec of Ronde works in the allreduce; its class carries only its text (`wire`). Casts work in
allgathers and on plain tensors too; each framework says how it casts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from ronde import _core
from ronde._codec_classes import Codecs
from ronde._codecs import CastCompressor, NamedCompressor, NoneCompressor, wire_of
from ronde._errors import InvalidArgumentError
from ronde._job import runtime
from ronde._rules import Rule, Trained, by_rules, is_ruled, make_rule, patterns


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
    """Whether it is one of the casts, which allgathers can use too."""
    kind = compression if isinstance(compression, type) else type(compression)
    return issubclass(kind, CastCompressor)


def wire_for(compression: Any, is_floating: bool) -> str:
    """As wire_of(); empty too for casts of tensors that they leave as they are."""
    wire = wire_of(compression)
    return "" if wire and not is_floating and is_cast(compression) else wire


def for_values(compression: Any) -> Any:
    """What is done to values that travel by allgather: casts, no codecs of allreduces."""
    compression = resolved(compression)
    return compression if not wire_of(compression) or is_cast(compression) else NoneCompressor


@cache
def _in_training(wire: str) -> tuple[int, str]:
    """Below how many elements training leaves a tensor dense, and what others travel as."""
    return _core.fewest_sent_as_little(wire), _core.training_compression(wire)


def for_gradient(one: Trained, compression: Any, is_momentum: bool = False) -> Any:
    """What one gradient travels as, by DistributedOptimizer's rules.

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
    """What compression has left over of every tensor on this rank; arrays become tensors."""
    residuals = {
        (process_set, name): (steps, to_tensor(values))
        for process_set, name, steps, values in runtime().save_residuals()
    }
    return {"version": 1, "residuals": residuals}


def load_state(state: dict[str, Any]) -> None:
    """Takes save_state() back. Raises InvalidArgumentError for what is no such state."""
    if state.get("version") != 1 or not isinstance(state.get("residuals"), dict):
        raise InvalidArgumentError("not a state of Compression.state_dict()")
    runtime().load_residuals(
        [
            (process_set, name, steps, values.numpy())
            for (process_set, name), (steps, values) in state["residuals"].items()
        ]
    )


class AnyCompression(Codecs):
    """The compressors that are the same for all frameworks, and what error feedback keeps."""

    none = NoneCompressor

    @staticmethod
    def rule(
        name: str = "*",
        *,
        use: Any,
        min_elements: int = 0,
        max_elements: int | None = None,
        dtype: Any = None,
        dims: int | Iterable[int] | None = None,
    ) -> Rule:
        """One of a list of rules that `compression` can be: the first that fits a tensor counts.

        name: a pattern of its name, as of fnmatch. min_elements, max_elements: how many it has,
        both included. dtype: float16, bfloat16, float32 or float64, as the framework's type or by
        name, or several. dims: how many dimensions it has, or several such numbers. use: what it
        travels as, whatever its dimensions and size, and with no warm-up but the one that is given.
        Raises InvalidArgumentError for values that are not allowed.
        """
        return make_rule(
            name,
            use=use,
            min_elements=min_elements,
            max_elements=max_elements,
            dtype=dtype,
            dims=dims,
        )

    @staticmethod
    def load_state_dict(state: dict[str, Any]) -> None:
        """Takes state_dict() back, in place of all that is kept. No operation may be under way.

        Raises InvalidArgumentError for what is no such state. A tensor that has another size by
        then begins anew, with a warning.
        """
        load_state(state)

    @staticmethod
    def errors() -> dict[tuple[int, str], tuple[float, float]]:
        """By (process set, tensor): the norm of what compression left over, and of the result.

        Of this rank, and of the last step that was measured: RONDE_COMPRESSION_ERROR says each how
        many steps of a tensor, and without it nothing is.
        """
        losses: dict[tuple[int, str], tuple[float, float]] = runtime().compression_losses()
        return losses

    @staticmethod
    def memory() -> int:
        """Bytes that error feedback takes on this rank; RONDE_RESIDUAL_LIMIT bounds them."""
        return runtime().residual_bytes()
