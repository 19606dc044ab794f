"""Gradient compression: what tensors travel as.

Codecs of Ronde (`Compression.fp16`, `.bf16`, `.int8`, `.int4`, `.onebit`, `.topk`,
`.randomk`, `.powersgd`) work in the allreduce:
values are added in fp32; what a lossy one leaves over is kept by the name of the tensor and added
to its next gradient. All work with and without parentheses. The others are classes with Horovod's
interface: compress(tensor) -> (tensor, context), decompress(tensor, context).
"""

from __future__ import annotations

from typing import Any

import torch

from ronde import _codecs
from ronde._codecs import wire_of
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


class _CastCompressor(Compressor):
    """Sixteen bits for each element; elsewhere than in an allreduce, a cast."""

    dtype = torch.float16

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


class FP16Compressor(_codecs.Fp16, _CastCompressor):
    """float16 to nearest even, added in fp32; finite values beyond its range stay at its ends."""


class BF16Compressor(_codecs.Bf16, _CastCompressor):
    """bfloat16 to nearest even, added in fp32."""

    dtype = torch.bfloat16


class _AllreduceCompressor(Compressor):
    """A codec that only allreduces know."""

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Raises InvalidArgumentError: this codec has no tensor of its own."""
        raise InvalidArgumentError(
            f"Compression.{wire_of(cls)} works in allreduce and DistributedOptimizer; "
            "allowed here: Compression.none, Compression.fp16, Compression.bf16"
        )


class Int8Compressor(_codecs.Int8, _AllreduceCompressor):
    """Eight bits for each element and a scale for each block of 512: a quarter of the bytes."""


class Int4Compressor(_codecs.Int4, _AllreduceCompressor):
    """Four bits for each element and a scale for each block of 256: an eighth of the bytes."""


class OnebitCompressor(_codecs.Onebit, _AllreduceCompressor):
    """The signs, and their means in each block of 1024: a thirtieth of the bytes."""


class TopKCompressor(_codecs.TopK, _AllreduceCompressor):
    """The hundredth (`ratio`) of the elements that are largest; the rest waits for its turn."""


class PowerSGDCompressor(_codecs.PowerSGD, _AllreduceCompressor):
    """Matrices as products of two thin ones; tensors of one dimension and small ones in fp32."""


class RandomKCompressor(_codecs.RandomK, _AllreduceCompressor):
    """A hundredth (`ratio`) of the elements, the same ones on all ranks, so without indices."""


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
    topk = TopKCompressor
    randomk = RandomKCompressor
    powersgd = PowerSGDCompressor

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
