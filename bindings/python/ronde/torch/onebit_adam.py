"""1-bit Adam: Adam that sends its momentum as signs once its variance is frozen.

Source: Tang et al., "1-bit Adam", ICML 2021. Ranks send the momentum divided by the root of the
frozen variance. The elements of a block then have similar magnitudes, so signs lose least.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ronde import _core
from ronde._calls.argument_checks import check as check_types
from ronde._calls.argument_checks import is_number, shown
from ronde._codecs import wire_of
from ronde._collectives.calls import Call
from ronde._compression.choice import for_gradient, warn_of_idle
from ronde._compression.rules import checked
from ronde._errors import ArgumentTypeError, InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde.torch._collectives.adapter import collectives
from ronde.torch._optimizers.facts import Comparing, facts, first_step, replica_check
from ronde.torch._optimizers.gradients import described, name_new_ones, named_pairs, trained
from ronde.torch._optimizers.watching import is_trained
from ronde.torch.compression import Compression
from ronde.torch.mpi_ops import Average

__all__ = ["OneBitAdam"]

Parameter = torch.nn.Parameter


class OneBitAdam(Comparing, torch.optim.Optimizer):
    """An optimizer that averages over ranks by itself; do not wrap it in DistributedOptimizer.

    In the first `warmup_steps` steps gradients are averaged in full precision, and it is Adam, as
    torch.optim.Adam. Then the variance is frozen, and each rank's momentum is averaged with
    `compression` and error feedback. step() is a collective: all ranks call it, with gradients that
    are not averaged yet. All ranks skip a step whose average is not finite, and keep their
    residuals.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, Parameter]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        warmup_steps: int = 100,
        compression: Any = Compression.onebit,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """named_parameters: (name, parameter) pairs, usually model.named_parameters().

        betas, eps, weight_decay: as torch.optim.Adam's. warmup_steps: until the variance is
        frozen; the paper takes 15 to 25 % of all steps. compression: as DistributedOptimizer's, so
        biases and norms are not compressed.
        Raises InvalidArgumentError (a ValueError) for values out of range.
        """
        check_types(lr=lr, eps=eps, weight_decay=weight_decay, warmup_steps=warmup_steps)
        check("lr", lr, lr >= 0, "from 0")
        check("eps", eps, eps >= 0, "from 0")
        check("weight_decay", weight_decay, weight_decay >= 0, "from 0")
        check("warmup_steps", warmup_steps, warmup_steps >= 1, "from 1")
        if (
            not isinstance(betas, (tuple, list))
            or len(betas) != 2
            or not all(map(is_number, betas))
        ):
            raise ArgumentTypeError(f"betas must be two numbers, not {shown(betas)}")
        for beta in betas:
            check("betas", betas, 0 <= beta < 1, "from 0 to below 1")
        pairs = named_pairs(named_parameters)
        self._parameter_names = {parameter: name for name, parameter in pairs}
        self._known = list(self._parameter_names)
        self._numbers = itertools.count(1)  # of names for parameters that come later
        self._compression = checked(compression)
        warn_of_idle(compression, self._parameter_names.values())
        self._wires: dict[Parameter, str] = {}  # steps since the variance is frozen
        self._process_set = process_set
        self._first_step = first_step(process_set)
        self._replicas = replica_check(process_set, self._parameter_names)
        self._call_site = _core.call_site()
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "warmup_steps": warmup_steps,
            "steps": 0,
        }
        super().__init__([parameter for _, parameter in pairs], defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Averages over ranks and updates the parameters. Returns the closure's result."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        parameters = [p for group in self.param_groups for p in group["params"]]
        name_new_ones(self._parameter_names, parameters, self._known, self._numbers)
        self._known = parameters
        if self._first_step.pending:
            self._first_step.check(lambda: facts(parameters, self._parameter_names))
        self._replicas.before_step(self._replica_facts)
        for group in self.param_groups:
            self._step_group(group)
        self._replicas.after_step(self._replica_facts)
        return loss

    @property
    def frozen(self) -> bool:
        """True if the variance is frozen, and the momentum compressed."""
        return any(group["steps"] >= group["warmup_steps"] for group in self.param_groups)

    def _step_group(self, group: dict[str, Any]) -> None:
        frozen = group["steps"] >= group["warmup_steps"]
        make = self._momentum if frozen else self._gradient
        handles = []
        for parameter in filter(is_trained, group["params"]):
            self._refuse_unfit(parameter, frozen)
        for place, parameter in enumerate(group["params"]):
            if is_trained(parameter):
                given = make(group, parameter)
                handles.append((parameter, self._average(parameter, given, frozen, -place)))
        averages = [(parameter, handle.wait()[0]) for parameter, handle in handles]
        if not all(torch.isfinite(average).all() for _, average in averages):
            return
        group["steps"] += 1
        update = self._update_frozen if frozen else self._update_adam
        for parameter, average in averages:
            update(group, parameter, average)

    def _refuse_unfit(self, parameter: Parameter, frozen: bool) -> None:
        """Raises InvalidArgumentError for a parameter that is another than its state is for."""
        name, state = self._parameter_names[parameter], self.state.get(parameter)
        if not state:
            if frozen:
                raise InvalidArgumentError(
                    f"{name} came when the variance was frozen, so it has none and would never "
                    "change; make a new OneBitAdam, which warms up again"
                )
            return
        now, before = described(parameter), described(state["exp_avg"])
        if now != before:
            raise InvalidArgumentError(
                f"{name} is {now}, but its state is {before}; make a new OneBitAdam, or delete "
                "optimizer.state[parameter] while it warms up"
            )

    def _average(self, parameter: Parameter, given: Any, frozen: bool, priority: int) -> Any:
        """Starts averaging over ranks. The momentum has its own name."""
        name, wire = self._parameter_names[parameter], ""
        if frozen:
            if parameter not in self._wires:
                one = trained(name, parameter)
                chosen = for_gradient(one, self._compression, is_momentum=True)
                self._wires[parameter] = wire_of(chosen)
            name, wire = f"{name}.momentum", self._wires[parameter]
        call = Call(
            name,
            self._process_set,
            Average,
            priority=priority,
            site=self._call_site,
            compression=wire,
        )
        return collectives.reduce_in_place([given], call)

    def _state_of(self, parameter: Parameter) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
            state["exp_avg_sq"] = torch.zeros_like(state["exp_avg"])
        return state

    def _gradient(self, group: dict[str, Any], parameter: Parameter) -> torch.Tensor:
        """This rank's gradient, with weight decay; zeros if backward made none."""
        if parameter.grad is None:
            gradient = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        else:
            gradient = parameter.grad.clone(memory_format=torch.contiguous_format)
        return gradient.add_(parameter, alpha=group["weight_decay"])

    def _momentum(self, group: dict[str, Any], parameter: Parameter) -> torch.Tensor:
        """This rank's momentum, in units of the frozen variance's root."""
        state, beta = self._state_of(parameter), group["betas"][0]
        momentum = self._gradient(group, parameter).lerp_(state["exp_avg"], beta)
        return momentum.div_(self._scale(group, state))

    def _scale(self, group: dict[str, Any], state: dict[str, Any]) -> torch.Tensor:
        """The frozen variance's root; infinite for elements without any gradient: they stay."""
        variance: torch.Tensor = state["exp_avg_sq"]
        correction: float = 1 - group["betas"][1] ** group["warmup_steps"]
        unbiased = variance / correction
        return unbiased.sqrt_().add_(group["eps"]).masked_fill_(variance == 0, float("inf"))

    def _update_adam(self, group: dict[str, Any], parameter: Parameter, mean: torch.Tensor) -> None:
        state, (beta1, beta2) = self._state_of(parameter), group["betas"]
        state["exp_avg"].lerp_(mean, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(mean, mean, value=1 - beta2)
        unbiased = state["exp_avg_sq"] / (1 - beta2 ** group["steps"])
        size = group["lr"] / (1 - beta1 ** group["steps"])
        parameter.addcdiv_(state["exp_avg"], unbiased.sqrt_().add_(group["eps"]), value=-size)

    def _update_frozen(
        self, group: dict[str, Any], parameter: Parameter, mean: torch.Tensor
    ) -> None:
        state, beta = self._state_of(parameter), group["betas"][0]
        scale = self._scale(group, state)
        still = scale.isinf()
        mean.masked_fill_(still, 0.0)
        state["exp_avg"].copy_(mean * scale.masked_fill_(still, 0.0))
        parameter.add_(mean, alpha=-group["lr"] / (1 - beta ** group["steps"]))


def check(name: str, value: Any, right: bool, allowed: str) -> None:
    """Raises InvalidArgumentError with the value and the allowed ones."""
    if not right:
        raise InvalidArgumentError(f"{name}={value}; allowed: {allowed}")
