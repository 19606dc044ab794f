"""Refuses steps of a DDP model that was converted after it was wrapped.

Model.double(), half() or bfloat16() then give its parameters new gradient accumulators. DDP's hooks
are at the old ones, so it averages nothing, and each rank trains a model of its own. Torch is
silent, with any backend.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.parallel import DistributedDataParallel

from ronde._errors import InvalidArgumentError

_EACH_STEP = 8  # parameters that one forward looks at: about 10 us
# Of each model: its parameters with the accumulators that DDP knows, again and again.
_watched: WeakKeyDictionary[Any, Iterator[tuple[str, torch.Tensor, Any]]] = WeakKeyDictionary()


@functools.cache
def install(group_type: type) -> None:
    """Makes models that are wrapped from now on, over groups of this type, check themselves."""
    original = DistributedDataParallel.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        # Torch's own mixed precision converts parameters in each step, and hooks them itself.
        if isinstance(self.process_group, group_type) and self.mixed_precision is None:
            _watch(self)

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]


def _watch(model: DistributedDataParallel) -> None:
    ignored = model.parameters_to_ignore
    found = [
        (name, parameter, _accumulator(parameter))
        for name, parameter in model.module.named_parameters()
        if parameter.requires_grad and name not in ignored
    ]
    _watched[model] = itertools.cycle(found)
    model.register_forward_pre_hook(_check)


def _accumulator(parameter: torch.Tensor) -> Any:
    with torch.enable_grad():
        return torch.autograd.graph.get_gradient_edge(parameter).node


def _check(model: Any, _: Any) -> None:
    """Raises InvalidArgumentError if a parameter's accumulator is not the one that DDP hooked."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or model not in _watched:
        return
    for name, parameter, known in itertools.islice(_watched[model], _EACH_STEP):
        if parameter.requires_grad and _accumulator(parameter) is not known:
            raise InvalidArgumentError(
                "the model was converted after it was wrapped: DistributedDataParallel is not told "
                f'of the gradient of "{name}" ({parameter.dtype}) any more, and each rank would '
                "train a model of its own; convert it before it is wrapped"
            )
