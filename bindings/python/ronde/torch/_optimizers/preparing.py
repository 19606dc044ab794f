"""Makes the tensors that DistributedOptimizer sends from gradients."""

from __future__ import annotations

from typing import Any

import torch

from ronde import _core
from ronde._calls.reduce_ops import Average, Max, Min
from ronde._errors import InvalidArgumentError
from ronde.torch._collectives.adapter import check_tensors, collectives, repeats, storage_of
from ronde.torch._collectives.sparse import nothing
from ronde.torch._optimizers.gradients import Bucket, Gradient


class Preparing:
    """DistributedOptimizer's base that makes tensors to send from gradients."""

    _buckets: list[Bucket]
    _in_flight: _core.Owners  # the buckets of gradients, by their addresses
    _op: int
    _sparse_as_dense: bool
    _submit: Any

    def _prepared(self, bucket: Bucket) -> tuple[list[torch.Tensor], list[Any]]:
        """The tensors to send, and their views for the core: each as it is now."""
        tensors, views = [], []
        in_flight = self._in_flight
        for gradient in list(bucket.gradients):
            tensor = gradient.parameter.grad
            if (
                tensor is None
                or tensor.is_sparse
                or tensor.dtype is not gradient.dtype
                or (code := gradient.code) is None  # of complex numbers
                or not tensor.is_cpu
                or not tensor.is_contiguous()
                or tensor.is_neg()
                or in_flight.get(address := tensor.data_ptr()) is not None
            ):
                tensor = self._made_ready(gradient)
                if tensor is not None:
                    tensors.append(tensor)
                    views.append(None if tensor.is_sparse else collectives.view(tensor))
                continue
            in_flight.set(address, bucket)
            gradient.version, gradient.address = tensor._version, address
            tensors.append(tensor)
            views.append((address, tensor.shape, code, storage_of(tensor)))
        return tensors, views

    def _made_ready(self, gradient: Gradient) -> torch.Tensor | None:
        """The tensor to send: the gradient, zeros where this rank did not use the parameter.

        None if it is sparse and has left the bucket.
        """
        gradient.look()  # the next step is fast again
        parameter = gradient.parameter
        tensor = parameter.grad
        if tensor is None:
            return self._absent(gradient)
        if tensor.is_sparse:
            if not self._sparse_as_dense:
                return self._sparse(gradient, tensor)
            parameter.grad = tensor = tensor.to_dense()
        elif tensor.is_conj() or tensor.is_neg():
            parameter.grad = tensor = tensor.resolve_conj().resolve_neg()
        if repeats(tensor):
            parameter.grad = tensor = tensor.contiguous()
        check_gradient(gradient, tensor)
        address = tensor.data_ptr()
        other = self._in_flight.get(address) if address else None
        if other is not None:
            parameter.grad = tensor = self._own_copy(gradient, other)
            address = tensor.data_ptr()
        self._in_flight.set(address, gradient.bucket)
        gradient.version, gradient.address = tensor._version, address
        # The average is copied back: fused optimizers need the parameter's layout (channels_last).
        return tensor.contiguous()

    def _absent(self, gradient: Gradient) -> torch.Tensor:
        """An empty gradient, dense or sparse as on other ranks."""
        parameter = gradient.parameter
        if gradient.sparse_dims:
            return nothing(parameter, gradient.sparse_dims)
        zeros = torch.zeros_like(parameter)
        check_gradient(gradient, zeros)
        gradient.version, gradient.address = zeros._version, zeros.data_ptr()
        if parameter.requires_grad:  # other ranks may have used it; a frozen one gets no gradient
            parameter.grad = zeros
        return zeros.contiguous()

    def _sparse(self, gradient: Gradient, tensor: torch.Tensor) -> torch.Tensor | None:
        """The sparse gradient; from now on the parameter's gradients are sent as sparse."""
        bucket = gradient.bucket
        if len(bucket.gradients) > 1 and bucket.automatic:
            bucket.gradients.remove(gradient)
            self._buckets.append(bucket.part([gradient]))
            self._submit(gradient.bucket)
            return None
        if len(bucket.gradients) > 1:
            raise InvalidArgumentError(
                f"the gradient of {gradient.name} is sparse, which groups do not support; "
                "pass sparse_as_dense=True"
            )
        if gradient.sparse_dims and tensor._nnz() == 0:  # zero_() makes all dimensions sparse
            return nothing(tensor, gradient.sparse_dims)
        gradient.sparse_dims = tensor.sparse_dim()
        return tensor

    def _own_copy(self, gradient: Gradient, other: Bucket) -> torch.Tensor:
        """A copy of a gradient that shares memory with a gradient in flight."""
        assert gradient.parameter.grad is not None
        if other.handle is not None:
            if self._op not in (Average, Min, Max):
                raise InvalidArgumentError(
                    f"the gradients of {other.name} and {gradient.name} are the same memory; "
                    "clone one of them, or use op=Average"
                )
            other.handle.wait()  # averaging its result once more does not change it
        return gradient.parameter.grad.clone()


def check_gradient(gradient: Gradient, tensor: torch.Tensor) -> None:
    """Raises InvalidArgumentError, with the name, for what this build cannot move."""
    try:
        check_tensors([tensor])
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"the gradient of {gradient.name}: {error}") from None


def check_optimizer(optimizer: Any, distributed: tuple[type, ...]) -> None:
    """Raises InvalidArgumentError unless DistributedOptimizer supports the optimizer."""
    if isinstance(optimizer, distributed):
        raise InvalidArgumentError("this optimizer is a DistributedOptimizer already")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidArgumentError(
            f"expected a torch.optim.Optimizer, not {type(optimizer).__name__}; for a model: "
            "DistributedOptimizer(torch.optim.SGD(model.parameters(), ...), "
            "model.named_parameters())"
        )


def refuse_copies(_optimizer: Any, _protocol: Any) -> Any:
    """Raises TypeError: hooks on this process's parameters cannot be copied."""
    raise TypeError(
        "a DistributedOptimizer cannot be pickled or copied: its hooks are on this process's "
        "parameters. Save optimizer.state_dict(), wrap a new optimizer, and load_state_dict() there"
    )
