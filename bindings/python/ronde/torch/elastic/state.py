"""The state of training with PyTorch, and the handlers of its parts, with Horovod's names."""

from __future__ import annotations

import io
from typing import Any

import torch

from ronde._copies import TwoCopies, copied
from ronde._errors import InvalidArgumentError
from ronde._job import rank
from ronde._samplers import ExactSampler
from ronde.common.elastic import ObjectState
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.functions import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)

__all__ = [
    "ModelStateHandler",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "set_handler_registry",
]


def _copied_into(value: Any, older: Any) -> Any:
    """A copy of nested containers and tensors, in the memory of an older one where it fits."""
    if isinstance(value, torch.Tensor):
        given = value.detach()
        if (
            not isinstance(older, torch.Tensor)
            or (older.shape, older.dtype, older.device, older.layout)
            != (given.shape, given.dtype, given.device, given.layout)
            or given.layout is not torch.strided
        ):
            return given.clone()
        return older.copy_(given)
    if isinstance(value, dict):
        before = older if isinstance(older, dict) else {}
        return {key: _copied_into(item, before.get(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        rest = older if isinstance(older, (list, tuple)) and len(older) == len(value) else None
        items = [_copied_into(v, rest and rest[i]) for i, v in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    return copied(value)


class StateHandler:
    """How one attribute of a TorchState is saved, restored and sent. Derive for other types."""

    def __init__(self, value: Any) -> None:
        """Handles this object."""
        self.value = value

    def save(self) -> None:
        """Copies the value to memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the value of the first. Collective."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Handles another object from now on."""
        self.value = value
        self.save()


class _CopyingHandler(StateHandler):
    """A handler of objects with state_dict() and load_state_dict()."""

    root = 0  # the rank that sync() starts from

    def __init__(self, value: Any) -> None:
        """Copies the value as it is."""
        super().__init__(value)
        self.copies = TwoCopies(self._take, self._put)
        self.copies.save()

    def _take(self, older: Any) -> Any:
        return _copied_into(self.value.state_dict(), older)

    def _put(self, saved: Any) -> None:
        self.value.load_state_dict(saved)

    def save(self) -> None:
        """Copies the value over the older of two copies."""
        self.copies.save()

    def restore(self) -> None:
        """Goes back to the newest copy."""
        self.copies.restore()

    def set_value(self, value: Any) -> None:
        """Handles another object from now on, and forgets the copies of the one before."""
        self.value = value
        self.copies.restart()


class ModelStateHandler(_CopyingHandler):
    """Parameters and buffers of a module."""

    def sync(self) -> None:
        """Broadcasts all tensors, in place."""
        state = self.value.state_dict()
        tensors = {name: v for name, v in state.items() if isinstance(v, torch.Tensor)}
        broadcast_parameters(tensors, root_rank=self.root)
        if len(tensors) < len(state):
            others = {name: v for name, v in state.items() if name not in tensors}
            self.value.load_state_dict({**tensors, **broadcast_object(others, self.root)})


class OptimizerStateHandler(_CopyingHandler):
    """State and options of an optimizer."""

    def _put(self, saved: Any) -> None:
        # It would keep tensors of the copy as its own.
        self.value.load_state_dict(_copied_into(saved, None))

    def sync(self) -> None:
        """Broadcasts the state's tensors and the options."""
        broadcast_optimizer_state(self.value, root_rank=self.root)


class SamplerStateHandler(_CopyingHandler):
    """The position of a sampler."""

    def sync(self) -> None:
        """Broadcasts the position, and deals what remains."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), self.root))


_handler_registry: list[tuple[type, type]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
    (ExactSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, type]]:
    """The (type, handler class) pairs; the first that fits a value handles it."""
    return _handler_registry


def set_handler_registry(registry: list[tuple[type, type]]) -> None:
    """Replaces the pairs for states made from now on."""
    global _handler_registry
    _handler_registry = registry


def _handler_of(value: Any) -> Any:
    for kind, handler in _handler_registry:
        if isinstance(value, kind):
            return handler(value)
    return None


class TorchState(ObjectState):
    """A state of models, optimizers, samplers and Python objects.

    Each argument is an attribute of its name. Copies of tensors are made in place: commits
    allocate nothing after the second.
    """

    _handlers: dict[str, Any]

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        """Any further models, optimizers, samplers, and objects that can be pickled."""
        given = {**kwargs, "model": model, "optimizer": optimizer}
        handlers = {name: _handler_of(value) for name, value in given.items()}
        self._handlers = {name: handler for name, handler in handlers.items() if handler}
        for name, handler in self._handlers.items():
            super().__setattr__(name, handler.value)
        others = {name: value for name, value in given.items() if name not in self._handlers}
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **others)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; that of a handler is handled from then on."""
        handlers = self.__dict__.get("_handlers", {})
        if name in handlers:
            handlers[name].set_value(value)
        super().__setattr__(name, value)

    def _own_handlers(self) -> list[Any]:
        return [h for h in self._handlers.values() if isinstance(h, _CopyingHandler)]

    def _other_handlers(self) -> list[Any]:
        """Those of the user, which keep one copy."""
        return [h for h in self._handlers.values() if not isinstance(h, _CopyingHandler)]

    def _further_copies(self) -> list[TwoCopies]:
        return [handler.copies for handler in self._own_handlers()]

    def save(self) -> None:
        """Copies the state; the copy before this one is kept."""
        for handler in self._other_handlers():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Goes back to the newest copy."""
        super().restore()
        for handler in self._other_handlers():
            handler.restore()

    def reset(self) -> None:
        """Deals the samplers' remaining indices to the ranks that there are now."""
        for handler in self._handlers.values():
            if isinstance(handler.value, (ElasticSampler, ExactSampler)):
                handler.value.reset()

    def _broadcast(self, root: int) -> None:
        for handler in self._handlers.values():
            if isinstance(handler, _CopyingHandler):
                handler.root = root
            handler.sync()
        super()._broadcast(root)

    def _snapshot(self) -> Any:
        return [_copied_into(copies.newest, None) for copies in self._copies]

    def _pack(self, snapshot: Any) -> bytes | memoryview:
        file = io.BytesIO()
        torch.save(snapshot, file)
        return file.getbuffer()

    def _unpack(self, data: bytes) -> None:
        try:
            snapshot = torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)
        except TypeError:  # torch < 1.13 does not know weights_only
            snapshot = torch.load(io.BytesIO(data), map_location="cpu")
        except (RuntimeError, ValueError) as error:
            raise InvalidArgumentError(f"the checkpoint is not one of torch: {error}") from error
        self._put_snapshot(snapshot)
