"""The GPU path's targets, and which of them a run's figures meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Figure = dict[str, object]


@dataclass(frozen=True)
class Target:
    """One row. The worst figure that `read` finds decides."""

    what: str
    figure: str  # its name in the JSON lines
    read: Callable[[Figure], float]
    bound: float
    at_least: bool
    unit: str = ""

    def asked(self) -> str:
        """The bound in words."""
        return f"{'>=' if self.at_least else '<='} {self.bound:g}{self.unit}"

    def worst(self, figures: Sequence[Figure]) -> float | None:
        """The worst figure; None where nothing was measured."""
        found = [self.read(figure) for figure in figures if figure["figure"] == self.figure]
        if not found or not all(math.isfinite(value) for value in found):
            return None
        return min(found) if self.at_least else max(found)

    def met(self, value: float) -> bool:
        """True where a figure meets the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


def number(figure: Figure, *keys: str) -> float:
    """The least of some numbers of a figure; NaN where it lacks one."""
    values = [figure.get(key) for key in keys]
    numbers = [float(value) for value in values if isinstance(value, (int, float))]
    return min(numbers) if len(numbers) == len(keys) else math.nan


TARGETS = (
    Target(
        "pack and unpack of 161 ResNet-50 gradients, against a device-to-device copy",
        "pack of 161 gradients",
        lambda figure: 100 * number(figure, "pack_share", "unpack_share"),
        85,
        at_least=True,
        unit=" %",
    ),
    Target(
        "fused allreduce through the engine against raw ncclAllReduce, from 16 MB, in time",
        "fused allreduce",
        lambda figure: number(figure, "ronde_ms") / number(figure, "nccl_ms"),
        1.03,
        at_least=False,
        unit=" x",
    ),
    Target(
        "host CPU time of a fused collective of 161 tensors",
        "host time of a fused collective",
        lambda figure: number(figure, "cpu_us"),
        20,
        at_least=False,
        unit=" us",
    ),
    Target(
        "top-k 1 % of 25 M elements against torch.topk, in speed",
        "top-k",
        lambda figure: number(figure, "times_faster"),
        5,
        at_least=True,
        unit=" x",
    ),
    Target(
        "int8 with error feedback, of the device's memory bandwidth (a copy's)",
        "int8 encode with error feedback",
        lambda figure: 100 * number(figure, "share"),
        70,
        at_least=True,
        unit=" %",
    ),
)


def table(figures: Sequence[Figure]) -> list[str]:
    """A row of Markdown for each target."""
    lines = ["| what | target | measured | |", "|---|---|---|---|"]
    for target in TARGETS:
        value = target.worst(figures)
        if value is None:
            cells = "NOT RUN |"
        else:
            cells = f"{value:.3g}{target.unit} | {'met' if target.met(value) else 'MISSED'}"
        lines.append(f"| {target.what} | {target.asked()} | {cells} |")
    return lines
