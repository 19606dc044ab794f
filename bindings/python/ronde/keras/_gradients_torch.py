"""Averages gradients over ranks where Keras runs on PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ronde._collectives import AVERAGE, SUM
from ronde._errors import InvalidArgumentError, UnsupportedError
from ronde._job import ProcessSet, global_process_set
from ronde.torch.compression import Compression, for_values
from ronde.torch.mpi_ops import allreduce_async


@dataclasses.dataclass
class Options:
    """How gradients travel; as ronde.tensorflow._gradients.Options."""

    compression: Any = Compression.none
    sparse_as_dense: bool = False
    op: int = AVERAGE
    gradient_predivide_factor: float = 1.0
    num_groups: int = 0
    groups: int | Sequence[Any] | None = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True
    local: set[Any] = dataclasses.field(default_factory=set)

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError and UnsupportedError for values that are not allowed."""
        if self.gradient_predivide_factor != 1.0 and self.op != AVERAGE:
            raise InvalidArgumentError(
                "gradient_predivide_factor not supported with op other than Average"
            )
        if self.groups or self.num_groups:
            raise UnsupportedError("groups of gradients need Keras's TensorFlow backend")
        if for_values(self.compression) is not self.compression:
            raise UnsupportedError("Keras on torch compresses by none, fp16 and bf16 only")

    def add_local(self, source: Any) -> None:
        """Leaves the gradients of these variables (or of a layer's) on this rank."""
        parts = source if isinstance(source, (list, tuple, set)) else [source]
        for part in parts:
            self.local.update(id(v) for v in getattr(part, "trainable_variables", [part]))

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients, averaged (or as `op` says) over ranks; None stays None."""
        size = self.process_set.size() or 1
        results = list(gradients)
        if size == 1:
            return results
        op, scale = self.op, (1.0, 1.0)
        if self.gradient_predivide_factor != 1.0:
            factor = self.gradient_predivide_factor
            op, scale = SUM, (1.0 / factor, factor / size)
        under_way: list[tuple[int, Any, Any]] = []
        for i, gradient in enumerate(gradients):
            if gradient is None:
                continue
            if id(variables[i]) in self.local:
                results[i] = gradient / size if self.scale_local_gradients else gradient
                continue
            sent, context = self.compression.compress(gradient.detach())
            handle = allreduce_async(
                sent, None, f"gradient.{i}", op, *scale, process_set=self.process_set
            )
            under_way.append((i, handle, context))
        for i, handle, context in under_way:
            results[i] = self.compression.decompress(handle.wait(), context)
        return results
