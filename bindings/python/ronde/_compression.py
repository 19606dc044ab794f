"""Gradient compression, for tensors of any framework: what ronde.torch and ronde.tensorflow share.

A codec of Ronde works in the allreduce, and its class carries only its text (`wire`, _codecs). The
casts, which allgathers and plain tensors can use too, say per framework how a tensor is cast.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from ronde import _codecs, _core
from ronde._codecs import wire_of
from ronde._errors import InvalidArgumentError
from ronde._job import runtime


class Compressor:
    """Two functions: compress(tensor) -> (tensor, context), decompress(tensor, context)."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor to send, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the tensor in the form it had before compress()."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the tensor itself."""
        return tensor


class CastCompressor(Compressor):
    """Sixteen bits for each element; elsewhere than in an allreduce, a cast."""

    dtype: Any = None

    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """A copy of another type, as the framework makes it."""
        raise NotImplementedError

    @staticmethod
    def rounds(tensor: Any) -> bool:
        """Whether the tensor is of floating-point numbers; others stay as they are."""
        raise NotImplementedError

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Returns a copy of 16 bits, and the type to go back to; integers stay as they are."""
        if not cls.rounds(tensor):
            return tensor, None
        return cls.cast(tensor, cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """Returns the tensor in its type before compress()."""
        return tensor if ctx is None else cls.cast(tensor, ctx)


class AllreduceCompressor(Compressor):
    """A codec that only allreduces know."""

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Raises InvalidArgumentError: this codec has no tensor of its own."""
        raise InvalidArgumentError(
            f"Compression.{wire_of(cls)} works in allreduce and DistributedOptimizer; "
            "allowed here: Compression.none, Compression.fp16, Compression.bf16"
        )


class Int8Compressor(_codecs.Int8, AllreduceCompressor):
    """Eight bits for each element and a scale for each block of 512: a quarter of the bytes."""


class Int4Compressor(_codecs.Int4, AllreduceCompressor):
    """Four bits for each element and a scale for each block of 256: an eighth of the bytes."""


class OnebitCompressor(_codecs.Onebit, AllreduceCompressor):
    """The signs, and their means in each block of 64: a sixteenth of the bytes."""


class TopKCompressor(_codecs.TopK, AllreduceCompressor):
    """The hundredth (`ratio`) of the elements that are largest; the rest waits for its turn."""


class PowerSGDCompressor(_codecs.PowerSGD, AllreduceCompressor):
    """Matrices as products of two thin ones; tensors of one dimension and small ones in fp32."""


class RandomKCompressor(_codecs.RandomK, AllreduceCompressor):
    """A hundredth (`ratio`) of the elements, the same ones on all ranks, so without indices."""


class AutoCompressor(_codecs.Auto, AllreduceCompressor):
    """Whatever is predicted to be fastest, or nothing, by measuring links and codecs."""


class NamedCompressor(AllreduceCompressor):
    """A codec by its text, as `ronde run --compression` takes it."""

    def __init__(self, wire: str) -> None:
        """wire: "auto", "int8:block=128", ...; errors in it arise where it is used."""
        self.wire = wire


@cache
def named(compression: str) -> Any:
    """The compressor of a text: "none", "auto", "int8:block=128", ..."""
    return NoneCompressor if compression == "none" else NamedCompressor(compression)


def checked(compression: Any) -> Any:
    """The compression that DistributedOptimizer was given, or its dict of them by patterns.

    Raises InvalidArgumentError for what gradients cannot travel as.
    """
    for one in compression.values() if isinstance(compression, dict) else [compression]:
        wire = wire_of(one)
        if wire:
            _core.check_compression(wire)
        elif one != "none" and not all(hasattr(one, f) for f in ("compress", "decompress")):
            raise InvalidArgumentError(
                'compression must be one of Compression, its name (such as "int8"), or an object '
                f"with compress() and decompress(), not {one!r}"
            )
    return compression


def warn_of_idle(compression: Any, names: Iterable[str]) -> None:
    """Warns of patterns of names in a dict of compressions that no gradient has."""
    if not isinstance(compression, dict):
        return
    known = list(names)
    idle = [one for one in compression if not any(fnmatchcase(name, one) for name in known)]
    if idle:
        warnings.warn(
            f"compression: no parameter fits {', '.join(map(repr, idle))}; "
            f"there are {', '.join(known[:3])}{', ...' if len(known) > 3 else ''}",
            stacklevel=4,
        )


def resolved(compression: Any) -> Any:
    """A compressor; texts become one."""
    return named(compression) if isinstance(compression, str) else compression


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


def for_gradient(
    name: str,
    dimensions: int,
    is_floating: bool,
    compression: Any,
    elements: int | None = None,
    warm_up: bool = True,
) -> Any:
    """What one gradient travels as, by DistributedOptimizer's rules.

    A dict says by patterns of names; codecs leave vectors, scalars and integers alone, and those
    that send little of a tensor leave small ones alone (`elements`; None means many): most of a
    model's bytes are elsewhere, and what waits costs a small tensor the most. What sends little
    begins with a warm-up, unless its `warmup` is given, or the caller has one (`warm_up`).
    """
    if isinstance(compression, dict):
        fits = (one for pattern, one in compression.items() if fnmatchcase(name, pattern))
        return resolved(next(fits, NoneCompressor))
    compression = resolved(compression)
    wire = wire_of(compression)
    if not wire:
        return compression
    fewest, training_wire = _in_training(wire)
    if dimensions < 2 or not is_floating or (elements is not None and elements < fewest):
        return NoneCompressor
    return named(training_wire) if warm_up and training_wire != wire else compression


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


class AnyCompression:
    """The compressors that are the same for all frameworks, and what error feedback keeps."""

    none = NoneCompressor
    int8 = Int8Compressor
    int4 = Int4Compressor
    onebit = OnebitCompressor
    topk = TopKCompressor
    randomk = RandomKCompressor
    powersgd = PowerSGDCompressor
    auto = AutoCompressor

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
