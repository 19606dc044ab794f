"""Gradient compression: what tensors travel as.

Codecs of Ronde (`Compression.fp16`, `.bf16`, `.int8`, `.int4`, `.onebit`) work in the allreduce:
values are added in fp32; what a lossy one leaves over is kept by the name of the tensor and added
to its next gradient. All work with and without parentheses. The others are classes with Horovod's
interface: compress(tensor) -> (tensor, context), decompress(tensor, context).
"""

from __future__ import annotations

from typing import Any

import torch

from ronde._errors import InvalidArgumentError
from ronde._job import runtime


class Compressor:
    """Two functions: compress(tensor) -> (tensor, context), decompress(tensor, context)."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns the tensor to send, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the tensor in the form it had before compress()."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the tensor itself."""
        return tensor


def _text(name: str, **parameters: Any) -> str:
    """A codec as the core reads it; parameters that are None are left out."""
    given = ",".join(f"{key}={value}" for key, value in parameters.items() if value is not None)
    return f"{name}:{given}" if given else name


def _on(flag: bool | None) -> str | None:
    return None if flag is None else "on" if flag else "off"


class _CastCompressor(Compressor):
    """Sixteen bits for each element; elsewhere than in an allreduce, a cast."""

    wire = ""
    dtype = torch.float16

    def __init__(self, error_feedback: bool = False) -> None:
        """error_feedback: keeps what rounding leaves over, at 4 bytes an element."""
        self.wire = _text(type(self).wire, ef=_on(error_feedback or None))

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns a copy of 16 bits, and the type to go back to; integers stay as they are."""
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(cls.dtype), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the tensor in its type before compress()."""
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_CastCompressor):
    """float16 to nearest even, added in fp32; finite values beyond its range stay at its ends."""

    wire = "fp16"
    dtype = torch.float16


class BF16Compressor(_CastCompressor):
    """bfloat16 to nearest even, added in fp32."""

    wire = "bf16"
    dtype = torch.bfloat16


class _AllreduceCompressor(Compressor):
    """A codec that only allreduces know."""

    wire = ""

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Raises InvalidArgumentError: this codec has no tensor of its own."""
        raise InvalidArgumentError(
            f"Compression.{cls.wire} works in allreduce and DistributedOptimizer; allowed here: "
            "Compression.none, Compression.fp16, Compression.bf16"
        )


class _IntegerCompressor(_AllreduceCompressor):
    def __init__(
        self,
        block: int | None = None,
        stochastic: bool = False,
        seed: int | None = None,
        error_feedback: bool = True,
    ) -> None:
        """Elements that share a scale (a multiple of 64 up to 4096); how to round; see the class.

        stochastic: up or down at random, right on average, with bits that depend on `seed`, the
        tensor's name, its step and the rank. error_feedback: keeps what rounding leaves over.
        Errors arise where it is used.
        """
        self.wire = _text(
            type(self).wire,
            block=block,
            rounding="stochastic" if stochastic else None,
            seed=seed,
            ef=_on(None if error_feedback else False),
        )


class Int8Compressor(_IntegerCompressor):
    """Eight bits for each element and a scale for each block of 512: a quarter of the bytes."""

    wire = "int8"


class Int4Compressor(_IntegerCompressor):
    """Four bits for each element and a scale for each block of 256: an eighth of the bytes."""

    wire = "int4"


class OnebitCompressor(_AllreduceCompressor):
    """The signs, and their means in each block of 1024: a thirtieth of the bytes."""

    wire = "onebit"

    def __init__(self, block: int | None = None, error_feedback: bool = True) -> None:
        """Elements that share two means (a multiple of 64 up to 4096); whether to keep the rest."""
        self.wire = _text("onebit", block=block, ef=_on(None if error_feedback else False))


def wire_of(compression: Any) -> str:
    """What the core is to compress with; empty for compressors that work by themselves."""
    return str(getattr(compression, "wire", ""))


def wire_for(compression: Any, tensor: torch.Tensor) -> str:
    """As wire_of(); empty too for casts of tensors that they leave as they are."""
    wire = wire_of(compression)
    whole = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    return "" if whole and wire and _is_cast(compression) else wire


def _is_cast(compression: Any) -> bool:
    kind = compression if isinstance(compression, type) else type(compression)
    return issubclass(kind, _CastCompressor)


def for_values(compression: Any) -> Any:
    """What is done to values that travel by allgather: casts, no codecs of allreduces."""
    return compression if not wire_of(compression) or _is_cast(compression) else NoneCompressor


class Compression:
    """The compressors there are, and what error feedback keeps."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
    int8 = Int8Compressor
    int4 = Int4Compressor
    onebit = OnebitCompressor

    @staticmethod
    def state_dict() -> dict[str, Any]:
        """What compression has left over of every tensor on this rank, for a checkpoint.

        Each rank has its own. No operation may be under way.
        """
        residuals = {
            (process_set, name): (steps, torch.from_numpy(values))
            for process_set, name, steps, values in runtime().save_residuals()
        }
        return {"version": 1, "residuals": residuals}

    @staticmethod
    def load_state_dict(state: dict[str, Any]) -> None:
        """Takes state_dict() back, in place of all that is kept. No operation may be under way.

        Raises InvalidArgumentError for what is no such state. A tensor that has another size by
        then begins anew, with a warning.
        """
        if state.get("version") != 1 or not isinstance(state.get("residuals"), dict):
            raise InvalidArgumentError("not a state of Compression.state_dict()")
        runtime().load_residuals(
            [
                (process_set, name, steps, values.numpy())
                for (process_set, name), (steps, values) in state["residuals"].items()
            ]
        )

    @staticmethod
    def memory() -> int:
        """Bytes that error feedback takes on this rank; RONDE_RESIDUAL_LIMIT bounds them."""
        return runtime().residual_bytes()
