"""The state of training with PyTorch, and the handlers of its parts, with Horovod's names."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ronde._calls.argument_checks import check_has
from ronde._errors import InvalidArgumentError
from ronde._job.runtime import rank
from ronde._samplers import ExactSampler
from ronde._snapshots.copies import Copies, Part
from ronde._snapshots.nested import Keep, copied
from ronde.common.elastic import ObjectState
from ronde.torch._optimizers.optimizer_state import put_state
from ronde.torch._optimizers.watching import lazy_error
from ronde.torch._sharded.optimizer import ShardedOptimizer
from ronde.torch.elastic import _dcp
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters

__all__ = [
    "ModelStateHandler",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "ShardedStateHandler",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "set_handler_registry",
]


class StateHandler:
    """Saves, restores and sends one attribute of a TorchState. Derive for other types."""

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


class _TwoHandlers:
    """Two handlers of one value by a class of the user's, so that two copies of it are kept."""

    def __init__(self, handler: StateHandler) -> None:
        """handler: has no copy yet, or one; its class makes the other."""
        self.newest, self._other = handler, type(handler)(handler.value)
        self._older: StateHandler | None = None

    def fill(self) -> None:
        """Writes the next copy in place of the older one. It counts after turn()."""
        self._older = None
        self._other.save()

    def turn(self) -> None:
        """Makes what fill() wrote the newest copy."""
        self._older = self.newest
        self.newest, self._other = self._other, self.newest

    def restore_older(self) -> None:
        """Goes back to the copy before the newest, if there is one."""
        if self._older is not None:
            self.turn()
            self._older = None
        self.newest.restore()

    def set_value(self, value: Any) -> None:
        """Handles another object from now on."""
        self._other.value, self._older = value, None
        self.newest.set_value(value)


class _CopyingHandler(StateHandler):
    """A handler of objects with state_dict() and load_state_dict()."""

    root = 0  # the rank that sync() starts from

    def __init__(self, value: Any) -> None:
        """Copies the value as it is."""
        super().__init__(value)
        self.part = Part("value", self._take, self._put)
        self.copies = Copies([self.part])
        self.copies.save()

    def join(self, name: str, own: bool) -> Part:
        """From now on the value is a part of a state, which gives its copies to join_copies()."""
        self.part = self.part._replace(name=f"handler {name}", own=own)
        return self.part

    def join_copies(self, copies: Copies) -> None:
        """These copies replace those of this handler."""
        self.copies = copies

    def _take(self, keep: Keep) -> Any:
        return copied(self.value.state_dict(), keep)

    def _put(self, saved: Any) -> None:
        self.value.load_state_dict(saved)

    def before_save(self) -> None:
        """Called on all ranks before a commit copies the value."""

    def save(self) -> None:
        """Copies the value; in a state, over the newest copy."""
        if len(self.copies.parts) == 1 and self.copies.parts[0] is self.part:
            self.copies.save()
        else:
            self.copies.replace(self.part)

    def restore(self) -> None:
        """Goes back to the newest copy."""
        self.copies.restore(self.part)

    def set_value(self, value: Any) -> None:
        """Handles another object from now on, and forgets the copies of the one before."""
        self.value = value
        self.copies.replace(self.part)


class ModelStateHandler(_CopyingHandler):
    """Parameters and buffers of a module."""

    def _take(self, keep: Keep) -> Any:
        for name, value in self.value.state_dict(keep_vars=True).items():
            if is_lazy(value):
                raise lazy_error(f"the model's {name}")
        return super()._take(keep)

    def _put(self, saved: Any) -> None:
        """Gives back their shapes to parameters that were resized since the copy."""
        for name, value in self.value.state_dict(keep_vars=True).items():
            before = saved.get(name)
            if isinstance(before, torch.Tensor) and value.shape != before.shape:
                value.data = value.data.new_empty(before.shape)
                value.grad = None
        super()._put(saved)

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
        put_state(self.value, saved)

    def sync(self) -> None:
        """Broadcasts the state's tensors and the options."""
        broadcast_optimizer_state(self.value, root_rank=self.root)


class ShardedStateHandler(OptimizerStateHandler):
    """The whole state of a sharded optimizer, which each rank keeps of the last commit."""

    def __init__(self, value: Any) -> None:
        """Ranks that join make one while the others do not: so nothing is gathered here."""
        self._held: Any = None
        super().__init__(value)

    def before_save(self) -> None:
        """Gathers the state. Collective."""
        self._held = self.value.hold_whole()

    def _take(self, keep: Keep) -> Any:
        return copied(self._held, keep)

    def _put(self, saved: Any) -> None:
        if saved is not None:
            self._held = copied(saved)
            self.value.put_whole(self._held)

    def sync(self) -> None:
        """Gives all ranks the first one's last commit, if there is one."""
        held = broadcast_object(self._held if rank() == self.root else None, self.root)
        if held is not None:
            self._put(held)


class SamplerStateHandler(_CopyingHandler):
    """The position of a sampler."""

    def sync(self) -> None:
        """Broadcasts the position, and deals what remains."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), self.root))


_handler_registry: list[tuple[type, type]] = [
    (ShardedOptimizer, ShardedStateHandler),
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

    def __init__(
        self, model: Any = None, optimizer: Any = None, own: Iterable[str] = (), **kwargs: Any
    ) -> None:
        """Any further models, optimizers, samplers, and objects that can be pickled.

        own: names of arguments that belong to this rank alone: sync() does not send them.
        """
        remedy = "; give several as keyword arguments with names of their own"
        if model is not None:
            check_has("state_dict", "model", model, "a torch.nn.Module", remedy)
        if optimizer is not None:
            check_has("state_dict", "optimizer", optimizer, "a torch.optim.Optimizer", remedy)
        given = {**kwargs, "model": model, "optimizer": optimizer}
        self._set_own(own, given)
        handlers = {name: _handler_of(value) for name, value in given.items()}
        self._handlers = {name: handler for name, handler in handlers.items() if handler}
        for name, handler in self._handlers.items():
            super().__setattr__(name, handler.value)
        others = {name: value for name, value in given.items() if name not in self._handlers}
        self._others = {
            name: _TwoHandlers(handler)
            for name, handler in self._handlers.items()
            if not isinstance(handler, _CopyingHandler)
        }
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **others)
        for handler in self._copying_handlers():
            handler.join_copies(self._copies)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; that of a handler is handled from then on."""
        handlers = self.__dict__.get("_handlers", {})
        if name in handlers:
            self._others.get(name, handlers[name]).set_value(value)
        super().__setattr__(name, value)

    def _copying_handlers(self) -> list[Any]:
        return [h for h in self._handlers.values() if isinstance(h, _CopyingHandler)]

    def _further_parts(self) -> list[Part]:
        return [
            handler.join(name, name in self._own)
            for name, handler in self._handlers.items()
            if isinstance(handler, _CopyingHandler)
        ]

    def _shared_copies(self) -> Copies | None:
        return None if self._others else super()._shared_copies()

    def _alike_after_restore(self) -> bool:
        return not self._others and super()._alike_after_restore()

    def save(self) -> None:
        """Copies the state; the copy before this one is kept."""
        for handlers in self._others.values():
            handlers.fill()
        for handler in self._copying_handlers():
            handler.before_save()
        super().save()
        for handlers in self._others.values():
            handlers.turn()

    def restore(self) -> None:
        """Goes back to the newest copy."""
        super().restore()
        for handlers in self._others.values():
            handlers.newest.restore()

    def _restore_older(self) -> None:
        super()._restore_older()
        for handlers in self._others.values():
            handlers.restore_older()

    def reset(self) -> None:
        """Deals the samplers' remaining indices to the ranks that there are now."""
        for handler in self._handlers.values():
            if isinstance(handler.value, (ElasticSampler, ExactSampler)):
                handler.value.reset()

    def _broadcast(self, root: int) -> None:
        for name, handler in self._handlers.items():
            if name in self._own:
                continue
            if name in self._others:
                self._others[name].newest.sync()
            else:
                handler.root = root
                handler.sync()
        super()._broadcast(root)

    def _checkpoint_formats(self) -> list[str]:
        return ["dcp", "ronde"] if _dcp.available() else ["ronde"]

    def _save_folder(self, folder: Path, snapshot: Any) -> None:
        """Writes a snapshot with torch.distributed.checkpoint."""
        values: dict[str, Any] = {}
        for part, value in zip(self._common_parts(), snapshot):
            kind, _, name = part.name.partition(" ")
            values.update({name: value} if kind == "handler" else value)
        _dcp.save(folder, values)

    def _load_folder(self, folder: Path) -> None:
        values = _dcp.load(folder)
        parts = self._common_parts()
        handled = [part.name.partition(" ")[2] for part in parts]
        objects = {name: value for name, value in values.items() if name not in handled}
        missing = [name for name in handled if name and name not in values]
        if missing or set(objects) != set(self._names):
            raise InvalidArgumentError(
                f"the checkpoint {folder} has {', '.join(values)}: it was written by a state with "
                "other arguments"
            )
        self._put_snapshot([values[name] if name else objects for name in handled])

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
