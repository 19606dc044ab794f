"""Gives the shared collectives torch's tensors by address, without a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ronde import _core
from ronde._calls.argument_checks import check
from ronde._calls.reduce_ops import Average, Sum
from ronde._calls.targets import Layout
from ronde._collectives.calls import Call, Collectives, Profiler, set_id
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import global_process_set
from ronde.torch._collectives import profiler

# The core's element type codes. PyTorch has the 8-bit floating types from 2.1 on.
CODES = {
    getattr(torch, name): code for name, code in _core.dtypes().items() if hasattr(torch, name)
}
_FLOATING = {dtype: code for dtype, code in CODES.items() if dtype.is_floating_point}
_STRIDED = torch.strided
_USUAL = {torch.Tensor, torch.nn.Parameter}
# The memory that a tensor lies in, which lives as long as the result.
storage_of: Callable[[torch.Tensor], Any] = (
    torch.Tensor.untyped_storage
    if hasattr(torch.Tensor, "untyped_storage")  # torch >= 2.0
    else torch.Tensor.storage
)
# The core's results have pairs of numbers instead: the last dimension is (real, imaginary).
_PAIRS = {getattr(torch, name): code for name, code in _core.complex_types().items()}


def _check_place(tensor: torch.Tensor) -> None:
    """Raises InvalidArgumentError unless the tensor is dense, and in host or CUDA memory."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(
            f"expected a torch.Tensor, not {type(tensor).__name__}; torch.tensor(...) makes one"
        )
    if tensor.layout is not torch.strided:
        raise InvalidArgumentError(
            f"a dense tensor is needed here, not one of {tensor.layout}; {_remedy(tensor.layout)}"
        )
    if tensor.is_nested:
        raise InvalidArgumentError("a dense tensor is needed here, not a nested one")
    if tensor.device.type not in ("cpu", "cuda"):
        raise InvalidArgumentError(
            f"the tensor is on {tensor.device}, which no data plane of this build serves; "
            "move it to the CPU"
        )


def _remedy(layout: torch.layout) -> str:
    """The remedy for a tensor of another layout."""
    if layout is not torch.sparse_coo:
        return "tensor.to_dense() makes one"
    return (
        "sparse_allreduce_async(), DistributedOptimizer and torch.distributed's all_reduce() add "
        "sparse COO tensors; tensor.to_dense() makes a dense one"
    )


def _stream(device: torch.device) -> Any:
    """Torch's current stream of `device`."""
    return torch.cuda.current_stream(device)


def _check(tensor: torch.Tensor) -> None:
    """Raises InvalidArgumentError unless this build can move the tensor."""
    _check_place(tensor)
    if tensor.dtype not in CODES and tensor.dtype not in _PAIRS:
        allowed = ", ".join(str(dtype)[6:] for dtype in [*CODES, *_PAIRS])
        raise InvalidArgumentError(f"{tensor.dtype} is not supported; allowed: {allowed}")


def can_move(tensor: torch.Tensor) -> bool:
    """True if this build can move the tensor."""
    try:
        _check(tensor)
    except InvalidArgumentError:
        return False
    return True


def check_tensors(tensors: Iterable[torch.Tensor]) -> None:
    """Raises InvalidArgumentError unless this build can move all of them."""
    for tensor in tensors:
        _check(tensor)


def check_op(tensors: Iterable[torch.Tensor], op: int) -> None:
    """Raises InvalidArgumentError for operations that complex numbers do not have."""
    if not isinstance(op, int):
        check(op=op)
    if op in (Sum, Average):
        return
    for tensor in tensors:
        if tensor.is_complex():
            raise InvalidArgumentError(f"{tensor.dtype} can be summed and averaged only")


def check_in_place(tensors: Iterable[torch.Tensor]) -> None:
    """Raises InvalidArgumentError for tensors that torch does not allow to change in place."""
    for tensor in tensors:
        _check(tensor)
        if tensor.requires_grad and torch.is_grad_enabled():
            raise InvalidArgumentError(
                "a tensor that requires grad cannot be changed in place: autograd would not know; "
                "pass tensor.detach(), or call within torch.no_grad()"
            )
        if repeats(tensor):
            raise InvalidArgumentError(
                f"an expanded tensor cannot be written to: several of its elements are one place "
                f"in memory (shape {list(tensor.shape)}, strides {list(tensor.stride())}); pass a "
                "copy (tensor.clone())"
            )


def repeats(tensor: torch.Tensor) -> bool:
    """True if several of a dense tensor's elements are one place in memory."""
    return not tensor.is_contiguous() and _layout(tensor).repeats()


def _layout(tensor: torch.Tensor) -> Layout:
    size = tensor.element_size()
    strides = tuple(stride * size for stride in tensor.stride())
    return Layout(tensor.data_ptr(), tuple(tensor.shape), strides, size)


def plain_view(tensor: torch.Tensor) -> Any:
    """The memory of a tensor that can be used in place; None if all checks are needed.

    A shortcut for the common floating-point tensors.
    """
    code = _FLOATING.get(tensor.dtype) if type(tensor) in _USUAL else None
    if code is None or tensor.layout is not _STRIDED or not tensor.is_cpu:
        return None
    if not tensor.is_contiguous() or tensor.is_neg():
        return None
    return tensor.data_ptr(), tensor.shape, code, storage_of(tensor)


def check_unmoved(tensor: torch.Tensor, address: int) -> None:
    """Raises InvalidArgumentError for a result that is not in the tensor's memory any more."""
    if tensor.data_ptr() != address:
        raise InvalidArgumentError(
            f"a tensor of shape {list(tensor.shape)} was given other memory (tensor.data = ..., "
            "set_(), resize_()) while an operation was writing to it; wait for the operation first"
        )


class _TorchAdapter:
    def contiguous(self, tensor: torch.Tensor) -> torch.Tensor:
        _check(tensor)
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.detach().resolve_conj().resolve_neg()
        return tensor if tensor.is_contiguous() else tensor.detach().contiguous()

    def view(self, tensor: torch.Tensor) -> Any:
        code = CODES.get(tensor.dtype)
        if code is None:
            code = _PAIRS[tensor.dtype]
        view = (tensor.data_ptr(), tuple(tensor.shape), code)
        if not tensor.is_cuda:
            return (*view, storage_of(tensor))
        return (*view, tensor.device.index, _stream(tensor.device).cuda_stream)

    def memory(self, tensor: torch.Tensor) -> tuple[int, int]:
        return tensor.data_ptr(), tensor.numel() * tensor.element_size()

    def watch(self, tensors: Sequence[torch.Tensor]) -> Callable[[], None]:
        addresses = [tensor.data_ptr() for tensor in tensors]

        def check() -> None:
            for tensor, address in zip(tensors, addresses):
                check_unmoved(tensor, address)

        return check

    def layout(self, tensor: torch.Tensor) -> Layout:
        return _layout(tensor)

    def empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)

    def adopt(self, buffer: Any, shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
        shape = tuple(shape[:-1] if like.dtype in _PAIRS else shape)
        if buffer is None:
            return torch.empty(shape, dtype=like.dtype, device=like.device)
        if like.is_cuda:
            return torch.as_tensor(buffer, device=like.device).view(like.dtype).reshape(shape)
        return torch.frombuffer(buffer, dtype=like.dtype).reshape(shape)

    def assign(self, target: torch.Tensor, source: torch.Tensor) -> None:
        with torch.no_grad():
            target.copy_(source)

    def settle(self, tensors: Sequence[torch.Tensor | None]) -> Callable[[Any], None] | None:
        on_device = [tensor for tensor in tensors if tensor is not None and tensor.is_cuda]
        if not on_device:
            return None

        def settle(operation: Any) -> None:
            stream = _stream(on_device[0].device)
            operation.order_after(stream.cuda_stream)
            # The allocator returns memory to the stream that made it, which would wait for nothing.
            for tensor in on_device:
                tensor.record_stream(stream)

        return settle


def _begin_event(
    kind: int,
    inputs: Sequence[torch.Tensor | None],
    outputs: Sequence[torch.Tensor | None],
    call: Call,
) -> Any:
    """Begins an operation's event in the trace of torch.profiler."""
    ranks, group = call.process_set.ranks, f"process set {call.process_set.process_set_id}"
    return profiler.begin(kind, inputs, outputs, ranks, call.name or "", group, call.op, call.root)


collectives = Collectives[torch.Tensor](
    _TorchAdapter(), profiler=Profiler(profiler.switch, _begin_event)
)

# Common calls then need little of Python, which takes longer than a small tensor to send.
_core.read_torch(
    [torch.Tensor, torch.nn.Parameter], check_unmoved, profiler.switch, global_process_set, set_id
)
