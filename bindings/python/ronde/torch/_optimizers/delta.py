"""DistributedOptimizer(op=Adasum): ranks combine the changes of parameters, not gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._calls.handle import Handle
from ronde._calls.reduce_ops import Adasum
from ronde._codecs import NoneCompressor, wire_of
from ronde._collectives.calls import Call, set_id
from ronde._compression.choice import is_cast, resolved
from ronde._compression.rules import is_ruled
from ronde._errors import InvalidArgumentError
from ronde._job.marks import mark_step
from ronde._training.gradients import GradientOptions, check_passes, in_runs
from ronde.torch._collectives.adapter import collectives
from ronde.torch._optimizers.facts import Comparing, facts, first_step, replica_check
from ronde.torch._optimizers.gradients import Parameter, name_new_ones, parameter_names
from ronde.torch._optimizers.preparing import refuse_copies
from ronde.torch._optimizers.watching import is_trained, lazy_error


class DeltaOptimizer(Comparing, torch.optim.Optimizer):
    """Mixed into the class of the user's optimizer; see DistributedOptimizer()."""

    _compares_state = False  # each rank steps by its own gradients

    def _distribute(
        self,
        named_parameters: Iterable[tuple[str, Parameter]] | None,
        _backward_passes_per_step: int,
        flat_gradients: bool,
        options: GradientOptions,
        weight: float | None,
    ) -> None:
        if flat_gradients:
            raise InvalidArgumentError("flat_gradients=True is for gradients; op=Adasum sends none")
        if weight is not None:
            self.set_weight(weight)
        self._known = [p for group in self.param_groups for p in group["params"]]
        self._parameter_names = parameter_names(self._known, named_parameters)
        self._numbers = itertools.count(1)  # of names for parameters that come later
        self._compression = _compressor(options.compression)
        self.process_set = options.process_set
        self._call_site = _core.call_site()
        self._first_step = first_step(self.process_set)
        self._replicas = replica_check(self.process_set, self._parameter_names)
        set_id(self.process_set)
        self._check_types([p for p in self._known if p.requires_grad])

    __reduce_ex__ = refuse_copies

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Accepted: gradients of any number of backward passes accumulate until step()."""
        check_passes(passes)

    def set_weight(self, weight: float) -> None:
        """Raises InvalidArgumentError: Adasum has no weights."""
        raise InvalidArgumentError(f"weight={weight}: a weight needs op=Average")

    def synchronize(self) -> None:
        """Does nothing: step() exchanges the changes that it makes."""

    def skip_synchronize(self) -> AbstractContextManager[None]:
        """Raises AssertionError, as in Horovod."""
        raise AssertionError(
            "Skipping synchronization is not supported when using Adasum optimizer."
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Steps as the wrapped optimizer does, then combines the parameters' changes over ranks.

        Returns what the wrapped optimizer returns.
        """
        if not self.process_set.included() or (self.process_set.size() or 1) == 1:
            return super().step(closure)
        parameters = self._trained()
        if closure is not None:
            self._refuse_lazy()
        self._check_types(parameters)
        if self._first_step.pending:
            self._first_step.check(lambda: facts(parameters, self._parameter_names))
        self._replicas.before_step(self._replica_facts)
        before = [p.detach().clone() for p in parameters]
        result = super().step(closure)
        with torch.no_grad():
            changes = self._combined(parameters, before)
            for parameter, start, change in zip(parameters, before, changes):
                parameter.copy_(start.add_(change))
        mark_step()
        self._replicas.after_step(self._replica_facts)
        return result

    # torch wraps step() of each class in its hooks: the wrapped optimizer's own has them already.
    step.hooked = True  # type: ignore[attr-defined]

    def _trained(self) -> list[Parameter]:
        """The parameters that this step changes; those that are new have names."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        name_new_ones(self._parameter_names, parameters, self._known, self._numbers)
        self._known = parameters
        return [p for p in parameters if is_trained(p)]

    def _refuse_lazy(self) -> None:
        """Raises for parameters that a closure would give a shape: there is no copy before it."""
        for parameter in filter(is_lazy, self._known):
            raise lazy_error(self._parameter_names[parameter])

    def _check_types(self, parameters: list[Parameter]) -> None:
        """Raises InvalidArgumentError for types that Adasum is not defined on."""
        for parameter in parameters:
            dtype = parameter.dtype
            if not dtype.is_floating_point or torch.finfo(dtype).bits < 16:
                raise InvalidArgumentError(
                    f"{self._parameter_names[parameter]}: op=Adasum is not defined on {dtype}; "
                    "allowed: floating types of 16 to 64 bits"
                )

    def _combined(
        self, parameters: list[Parameter], before: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The Adasum of all ranks' changes of each parameter."""
        pairs = [self._compression.compress(p - b) for p, b in zip(parameters, before)]
        sent = [(self._parameter_names[p], c) for p, (c, _) in zip(parameters, pairs)]
        runs = in_runs(sent, lambda item: (item[1].dtype, item[1].numel() * item[1].element_size()))
        handles = [self._submit(run) for run in runs]
        awaited = _core.Together(handles)
        results = [change for handle in handles for change in handle.wait(together=awaited)]
        return [self._compression.decompress(c, context) for c, (_, context) in zip(results, pairs)]

    def _submit(self, run: list[tuple[str, torch.Tensor]]) -> Handle[list[torch.Tensor]]:
        name = run[0][0] if len(run) == 1 else f"{run[0][0]} and {len(run) - 1} more"
        call = Call(name, self.process_set, Adasum, site=self._call_site, compression="none")
        changes = [change for _, change in run]
        return collectives.allreduce(False, changes, changes, call)


def _compressor(compression: Any) -> Any:
    """The compressor of changes; it casts, or is the user's own."""
    one = NoneCompressor if is_ruled(compression) else resolved(compression)
    if is_ruled(compression) or (wire_of(one) and not is_cast(one)):
        raise InvalidArgumentError(
            f"compression={shown(compression)} with op=Adasum; allowed: Compression.none, "
            "Compression.fp16, Compression.bf16 and compressors of your own"
        )
    return one
