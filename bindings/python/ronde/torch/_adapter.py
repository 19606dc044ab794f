"""How the shared collectives handle torch tensors: by address, without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ronde._collectives import Collectives
from ronde._errors import InvalidArgumentError

# The core's element type codes.
_CODES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.bfloat16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.bool: 9,
}


def _check(tensor: torch.Tensor) -> None:
    """Raises InvalidArgumentError unless this build can move the tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(f"expected a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise InvalidArgumentError(f"a dense tensor is needed here, not one of {tensor.layout}")
    if tensor.device.type != "cpu":
        raise InvalidArgumentError(
            f"the tensor is on {tensor.device}, which no data plane of this build serves; "
            "move it to the CPU"
        )
    if tensor.dtype not in _CODES:
        allowed = ", ".join(str(dtype)[6:] for dtype in _CODES)
        raise InvalidArgumentError(f"{tensor.dtype} is not supported; allowed: {allowed}")


class _TorchAdapter:
    def contiguous(self, tensor: torch.Tensor) -> torch.Tensor:
        _check(tensor)
        return tensor if tensor.is_contiguous() else tensor.detach().contiguous()

    def view(self, tensor: torch.Tensor) -> Any:
        return tensor.data_ptr(), tuple(tensor.shape), _CODES[tensor.dtype]

    def memory(self, tensor: torch.Tensor) -> tuple[int, int]:
        return tensor.data_ptr(), tensor.numel() * tensor.element_size()

    def empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype)

    def adopt(self, buffer: Any, shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
        if buffer is None:
            return torch.empty(tuple(shape), dtype=like.dtype)
        return torch.frombuffer(buffer, dtype=like.dtype).reshape(tuple(shape))

    def assign(self, target: torch.Tensor, source: torch.Tensor) -> None:
        with torch.no_grad():
            target.copy_(source)


collectives = Collectives[torch.Tensor](_TorchAdapter())
