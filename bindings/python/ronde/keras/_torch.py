"""Averages gradients and broadcasts variables, for Keras on PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ronde._calls.argument_checks import MODEL_VARIABLES, several
from ronde._codecs import wire_of
from ronde._collectives.calls import Call
from ronde._compression.choice import for_gradient
from ronde._compression.rules import Trained
from ronde._errors import UnsupportedError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._training.gradients import GradientOptions
from ronde._training.owners import of_one_rank
from ronde.torch._collectives.adapter import collectives
from ronde.torch.functions import broadcast_tensors


class Options(GradientOptions):
    """The options for sending gradients; as ronde._tensorflow.gradients.Options."""

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError and UnsupportedError for values that are not allowed."""
        super().__post_init__()
        if self.wanted_groups:
            raise UnsupportedError("groups of gradients need Keras's TensorFlow backend")

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients, averaged (or combined by `op`) over ranks; None stays None.

        A rank outside of the process set keeps its own.
        """
        size = self.process_set.size() or 1
        results = list(gradients)
        if self.alone:
            return results
        self.look_at_rules(variable.path for variable in variables)
        under_way: list[tuple[int, Any, Callable[[Any], Any]]] = []
        for i, gradient in enumerate(gradients):
            if gradient is None:
                continue
            if self.key(variables[i]) in self.local:
                results[i] = gradient / size if self.scale_local_gradients else gradient
                continue
            under_way.append((i, *self._start(i, gradient.detach(), variables[i])))
        for i, handle, finish in under_way:
            results[i] = finish(handle.wait())
        return results

    def _start(self, place: int, gradient: Any, variable: Any) -> tuple[Any, Callable[[Any], Any]]:
        """(the operation's handle, a function from its result to the gradient)."""
        name, floating = f"gradient.{place}", gradient.is_floating_point()
        one = Trained(
            variable.path, gradient.dim(), gradient.numel(), gradient.dtype, floating, variable
        )
        compression = for_gradient(one, self.compression)
        wire = wire_of(compression)
        sent, context = (gradient, None) if wire else compression.compress(gradient)
        op, scale = self.op_and_scale()
        call = Call(name, self.process_set, op, scale, -1, -place, "", wire, self.weight)
        handle = collectives.allreduce(False, [sent], None, call)
        if wire:
            return handle, lambda results: results[0]
        return handle, lambda results: compression.decompress(results[0], context)


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives every rank the root's values, in place. Leaves out the state of sharded optimizers."""
    given = [v for v in several(variables, MODEL_VARIABLES) if not of_one_rank(v)]
    named = [(f"keras.{i}", variable.value.data) for i, variable in enumerate(given)]
    broadcast_tensors(named, root_rank, process_set)
