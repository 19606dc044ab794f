"""Notices that an optimizer's parameters are others than those it was prepared for.

Users replace parameters in param_groups, add, remove and unfreeze them, and give them other data:
of another shape (pruning, growing vocabularies) or dtype (model.double()).
"""

from __future__ import annotations

import operator
from collections.abc import Container
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ronde._errors import InvalidArgumentError

Parameter = torch.Tensor


def is_trained(parameter: Parameter) -> bool:
    """True if backward can make a gradient for it."""
    return parameter.requires_grad and not is_lazy(parameter)


def lazy_error(name: str) -> InvalidArgumentError:
    """For a parameter of a lazy module that has no shape yet, where one is needed."""
    return InvalidArgumentError(
        f"{name} is not initialized yet, as its module is lazy: call the model once, with a batch, "
        "before this"
    )


class Watched:
    """The parameters of an optimizer, as they were when it was prepared for them.

    Each step asks it for thousands of parameters.
    """

    def __init__(self, groups: list[dict[str, Any]], trained: Container[Parameter]) -> None:
        """groups: the optimizer's. trained: the parameters whose gradients are sent."""
        self._groups = [list(group["params"]) for group in groups]
        self.parameters = [p for group in self._groups for p in group]
        self._trained = [p for p in self.parameters if p in trained]
        self._others = [p for p in self.parameters if p not in trained]
        self._shapes = [p.shape for p in self._trained]
        self._dtypes = [p.dtype for p in self._trained]
        self._laid_out = [p for p in self._trained if p.dim() > 1]
        self._strides = [p.stride() for p in self._laid_out]

    def are(self, groups: list[dict[str, Any]]) -> bool:
        """True if the groups hold the same parameters, and no more of them are trained."""
        return (
            len(groups) == len(self._groups)
            and all(
                len(group["params"]) == len(before)
                and all(map(operator.is_, group["params"], before))
                for group, before in zip(groups, self._groups)
            )
            and not any(map(is_trained, self._others))
        )

    def are_unchanged(self) -> bool:
        """True if all that are trained have the same shapes, dtypes and layouts."""
        return (
            [p.shape for p in self._trained] == self._shapes
            and [p.dtype for p in self._trained] == self._dtypes
            and [p.stride() for p in self._laid_out] == self._strides
        )
