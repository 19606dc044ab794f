"""How optimizers can be sharded: by elements, by whole tensors, or not at all."""

from __future__ import annotations

from typing import Any

import torch

from ronde._calls.argument_checks import shown
from ronde._errors import InvalidArgumentError, UnsupportedError

# They compute each element from the same element of gradient and state.
_ELEMENTWISE = (
    "ASGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
)
_REFUSED = {
    "LBFGS": "its step combines all parameters",
    "SparseAdam": "it takes sparse gradients",
    "OneBitAdam": "it averages over ranks by itself",
}


def way_to_shard(optimizer: Any, wanted: str | None) -> str:
    """Returns "elements" or "tensors". Raises UnsupportedError for optimizers that allow neither.

    An optimizer that is unknown here has whole tensors, which any but a few work on.
    """
    for kind in type(optimizer).__mro__:
        why = _REFUSED.get(kind.__name__)
        if why:
            raise UnsupportedError(
                f"{kind.__name__} cannot be sharded: {why}; leave out shard= for it"
            )
    if wanted not in (None, "elements", "tensors"):
        raise InvalidArgumentError(
            f'shard_by={shown(wanted)}; allowed: "elements", "tensors", or None for the way that '
            "the optimizer needs"
        )
    kind = type(optimizer)
    known = getattr(torch.optim, kind.__name__, None) is kind
    if wanted == "elements" and known and kind.__name__ not in _ELEMENTWISE:
        raise UnsupportedError(
            f"{kind.__name__} needs whole tensors, so shard_by={wanted!r} would change its "
            'result; allowed: "tensors"'
        )
    return wanted or ("elements" if known and kind.__name__ in _ELEMENTWISE else "tensors")


def costs(optimizer: Any, parameters: list[torch.Tensor]) -> list[int]:
    """The work of updating each tensor, in multiplications. An optimizer may have costs() itself.

    Muon multiplies matrices 15 times a step; others use each element a few times.
    """
    if hasattr(optimizer, "costs"):
        return list(optimizer.costs(parameters))
    if any(kind.__name__ == "Muon" for kind in type(optimizer).__mro__):
        return [cost_of_muon(parameter) for parameter in parameters]
    return [cost_of_elements(parameter) for parameter in parameters]


def cost_of_muon(matrix: torch.Tensor) -> int:
    """That of five steps of three products of matrices."""
    return 15 * matrix.numel() * min(matrix.shape, default=1)


def cost_of_elements(parameter: torch.Tensor) -> int:
    """That of an update like Adam's."""
    return 10 * parameter.numel()
