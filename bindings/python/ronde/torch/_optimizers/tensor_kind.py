"""Makes copies of states, and values that are set in place, know torch's tensors."""

from __future__ import annotations

from typing import Any

import torch

from ronde._snapshots.array_kinds import register_kind


class TensorKind:
    """Dense tensors on any device; their copies are on the host."""

    def is_plain(self, array: Any) -> bool:
        return array.layout is torch.strided and not array.is_quantized

    def is_writeable(self, array: Any) -> bool:
        expanded = (n > 1 and stride == 0 for n, stride in zip(array.shape, array.stride()))
        return not any(expanded)

    def form(self, array: Any) -> tuple[Any, ...]:
        return "torch", array.dtype, tuple(array.shape)

    def size_bytes(self, array: Any) -> int:
        return int(array.numel() * array.element_size())

    def view(self, memory: memoryview, form: tuple[Any, ...]) -> Any:
        _, dtype, shape = form
        if not memory:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(memory, dtype=dtype).reshape(shape)

    def copy(self, target: Any, array: Any) -> None:
        with torch.no_grad():
            target.copy_(array)

    def clone(self, array: Any) -> Any:
        return array.detach().clone()


_kind = TensorKind()
for _tensor_class in (torch.Tensor, torch.nn.Parameter):
    register_kind("torch", _tensor_class, _kind)
