"""Muon for hidden matrices and AdamW for the rest, each tensor updated by one rank of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from ronde._errors import InvalidArgumentError, UnsupportedError
from ronde.torch._optimizers.gradients import described, named_pairs
from ronde.torch._sharded.kinds import cost_of_elements, cost_of_muon
from ronde.torch.optimizer import DistributedOptimizer

_OUTER = ("head", "wte", "wpe", "output")


def is_hidden(name: str, parameter: torch.Tensor) -> bool:
    """True for matrices that are not part of an embedding or a head, by their names."""
    return parameter.dim() == 2 and not any(map(_is_outer, name.lower().split(".")))


def _is_outer(part: str) -> bool:
    return "emb" in part or part.startswith(_OUTER) or part.endswith(_OUTER)


class MuonAndAdamW(torch.optim.Optimizer):
    """An optimizer whose first group is updated by torch's Muon, and all others by AdamW."""

    def __init__(
        self,
        matrices: Sequence[torch.Tensor],
        others: Sequence[torch.Tensor],
        muon: Mapping[str, Any],
        adamw: Mapping[str, Any],
    ) -> None:
        """muon, adamw: options of torch.optim.Muon and AdamW. Raises as they do."""
        if not hasattr(torch.optim, "Muon"):
            raise UnsupportedError(f"Muon needs torch 2.9, not {torch.__version__}")
        # They need a parameter to begin with; step() gives them the groups.
        self._muon = torch.optim.Muon([torch.nn.Parameter(torch.zeros(1, 1))], **muon)
        self._adamw = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], **adamw)
        self._matrices = set(matrices)
        super().__init__([{"params": list(matrices)}, {"params": list(others)}], {})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group with the options of AdamW; the first one has Muon's."""
        defaults = self._updates(len(self.param_groups)).defaults
        super().add_param_group({**defaults, **param_group})

    def _updates(self, group: int) -> Any:
        return self._adamw if group else self._muon

    def costs(self, parameters: Sequence[torch.Tensor]) -> list[int]:
        """The work of updating each, from which the owners follow."""
        return [
            cost_of_muon(one) if one in self._matrices else cost_of_elements(one)
            for one in parameters
        ]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates all parameters. Returns the closure's result."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for number, group in enumerate(self.param_groups):
            one = self._updates(number)
            one.param_groups, one.state = [group], self.state
            one.step()
        return loss


def ShardedMuon(
    named_parameters: Iterable[tuple[str, torch.Tensor]],
    lr: float = 0.02,
    weight_decay: float = 0.1,
    momentum: float = 0.95,
    adamw: Mapping[str, Any] | None = None,
    is_hidden: Callable[[str, torch.Tensor], bool] = is_hidden,
    muon: Mapping[str, Any] | None = None,
    shard: str = "optimizer",
    **options: Any,
) -> Any:
    """A DistributedOptimizer whose ranks share the work of Muon: each matrix has one owner.

    named_parameters: model.named_parameters(). Hidden matrices, param_groups[0], are updated by
    torch.optim.Muon; the rest, param_groups[1], and groups added later by torch.optim.AdamW.
    adamw, muon: their further options, such as {"lr": 3e-4}. is_hidden: a function of (name,
    parameter); by default matrices, except those whose name has a part (between dots) with "emb" in
    it or "head", "wte", "wpe" or "output" at an end. options: DistributedOptimizer's. Raises
    InvalidArgumentError for hidden parameters that are no matrices.
    """
    pairs = [(name, p) for name, p in named_pairs(named_parameters) if p.requires_grad]
    hidden = [(name, p) for name, p in pairs if is_hidden(name, p)]
    for name, parameter in hidden:
        if parameter.dim() != 2:
            raise InvalidArgumentError(
                f"{name} has {parameter.dim()} dimensions ({described(parameter)}), but Muon needs "
                "matrices; give is_hidden= that leaves it to AdamW"
            )
    matrices = [p for _, p in hidden]
    known = set(matrices)
    inner = MuonAndAdamW(
        matrices,
        [p for _, p in pairs if p not in known],
        {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, **(muon or {})},
        adamw or {},
    )
    return DistributedOptimizer(
        inner, named_parameters=pairs, shard=shard, shard_by="tensors", **options
    )
