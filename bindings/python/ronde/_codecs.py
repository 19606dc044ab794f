"""Codecs as the core reads them: what allreduces travel as, whatever the framework.

A codec is used as a class (all defaults) or as an instance; both have `wire`, the text that is
negotiated. Errors in parameters arise where a codec is used, and name the value. `residual` says
what error feedback keeps its elements in: "fp32", the default, or "bf16", half the memory.
"""

from __future__ import annotations

import inspect
from typing import Any


def text(name: str, **parameters: Any) -> str:
    """A codec as the core reads it; parameters that are None are left out."""
    given = ",".join(f"{key}={value}" for key, value in parameters.items() if value is not None)
    return f"{name}:{given}" if given else name


def on(flag: bool | None) -> str | None:
    """A switch as the core reads it."""
    return None if flag is None else "on" if flag else "off"


def feedback(error_feedback: bool) -> str | None:
    """The switch of codecs that keep by default what they lose."""
    return None if error_feedback else "off"


def wire_of(compression: Any) -> str:
    """What the core is to compress with; empty for compressors that work by themselves."""
    if isinstance(compression, str):
        return "" if compression == "none" else compression
    return str(getattr(compression, "wire", ""))


class Codec:
    """One way of compressing, with its parameters."""

    wire = ""

    def __new__(cls, *arguments: Any, **parameters: Any) -> Any:
        """Raises TypeError naming a parameter that the codec does not have, and those it has."""
        try:
            inspect.signature(cls).bind(*arguments, **parameters)
        except TypeError as error:
            allowed = ", ".join(inspect.signature(cls).parameters)
            raise TypeError(f"Compression.{cls.wire}: {error}; allowed: {allowed}") from None
        return super().__new__(cls)


class Cast(Codec):
    """Sixteen bits for each element."""

    def __init__(self, error_feedback: bool = False, residual: str | None = None) -> None:
        """error_feedback: keeps what rounding leaves over, in `residual`: see the module."""
        self.wire = text(type(self).wire, ef=on(error_feedback or None), residual=residual)


class Fp16(Cast):
    """float16 to nearest even, added in fp32; finite values beyond its range stay at its ends."""

    wire = "fp16"


class Bf16(Cast):
    """bfloat16 to nearest even, added in fp32."""

    wire = "bf16"


class Integer(Codec):
    """Whole multiples of a scale for each block."""

    def __init__(
        self,
        block: int | None = None,
        stochastic: bool = False,
        seed: int | None = None,
        error_feedback: bool = True,
        residual: str | None = None,
    ) -> None:
        """Elements that share a scale (a multiple of 64 up to 4096); how to round; see the class.

        stochastic: up or down at random, right on average, with bits that depend on `seed`, the
        tensor's name, its step and the rank. error_feedback: keeps what rounding leaves over.
        """
        self.wire = text(
            type(self).wire,
            block=block,
            rounding="stochastic" if stochastic else None,
            seed=seed,
            ef=feedback(error_feedback),
            residual=residual,
        )


class Int8(Integer):
    """Eight bits for each element and a scale for each block of 512: a quarter of the bytes."""

    wire = "int8"


class Int4(Integer):
    """Four bits for each element and a scale for each block of 256: an eighth of the bytes."""

    wire = "int4"


class Onebit(Codec):
    """The signs, and their means in each block of 64: a sixteenth of the bytes."""

    wire = "onebit"

    def __init__(
        self,
        block: int | None = None,
        error_feedback: bool = True,
        residual: str | None = None,
        warmup: int | None = None,
    ) -> None:
        """Elements that share two means (a multiple of 64 up to 4096); whether to keep the rest.

        warmup: steps in which a tensor travels dense before.
        """
        kept = {"ef": feedback(error_feedback), "residual": residual}
        self.wire = text("onebit", block=block, warmup=warmup, **kept)


class TopK(Codec):
    """The hundredth (`ratio`) of the elements that are largest; the rest waits for its turn."""

    wire = "topk"

    def __init__(
        self,
        ratio: float | None = None,
        sampled: bool = False,
        momentum: float | None = None,
        nesterov: bool = False,
        masking: bool = True,
        warmup: int | None = None,
        clip: float | None = None,
        error_feedback: bool = True,
        residual: str | None = None,
    ) -> None:
        """Which elements are sent, and the options of Deep Gradient Compression.

        ratio: above 0, up to 1. sampled: about so many, by a threshold taken from a sample.
        momentum: of momentum correction, to be used instead of the optimizer's; nesterov; masking:
        elements that were sent begin with no momentum. warmup: steps in which more is sent: all in
        the first sixteenth of them, a quarter until their eighth, and less. clip: the largest norm
        of a tensor's result, kept to by clipping each rank's part to clip / sqrt(ranks).
        """
        self.wire = text(
            "topk",
            ratio=ratio,
            select="sampled" if sampled else None,
            momentum=momentum,
            nesterov=on(nesterov or None),
            masking=feedback(masking),
            warmup=warmup,
            clip=clip,
            ef=feedback(error_feedback),
            residual=residual,
        )


class PowerSGD(Codec):
    """Matrices as products of two thin ones; tensors of one dimension and small ones in fp32."""

    wire = "powersgd"

    def __init__(
        self,
        rank: int | None = None,
        seed: int | None = None,
        error_feedback: bool = True,
        residual: str | None = None,
        warmup: int | None = None,
    ) -> None:
        """rank: columns of each factor, from 1 to 64, 4 by default. seed: of the first step's.

        warmup: steps in which a tensor travels dense before.
        """
        kept = {"ef": feedback(error_feedback), "residual": residual}
        self.wire = text("powersgd", warmup=warmup, rank=rank, seed=seed, **kept)


class RandomK(Codec):
    """A hundredth (`ratio`) of the elements, the same ones on all ranks, so without indices."""

    wire = "randomk"

    def __init__(
        self,
        ratio: float | None = None,
        seed: int | None = None,
        error_feedback: bool = True,
        residual: str | None = None,
        warmup: int | None = None,
    ) -> None:
        """ratio: above 0, up to 1. Without error_feedback the result is right on average.

        warmup: steps in which a tensor travels dense before.
        """
        kept = {"ef": feedback(error_feedback), "residual": residual}
        self.wire = text("randomk", ratio=ratio, warmup=warmup, seed=seed, **kept)


class Auto(Codec):
    """Whatever is predicted to be fastest, or nothing, by measuring links and codecs."""

    wire = "auto"

    def __init__(self, accuracy: str | None = None, residual: str | None = None) -> None:
        """accuracy: what it may choose. "lossless": nothing; "safe", the default: fp16 and bf16;
        "aggressive": also int8, int4, onebit, topk and powersgd, with error feedback."""
        self.wire = text("auto", accuracy=accuracy, residual=residual)
