"""The options for sending gradients, of the optimizers and tapes of all frameworks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ronde._calls.argument_checks import check, is_number, shown
from ronde._calls.reduce_ops import Average
from ronde._codecs import NoneCompressor
from ronde._compression.choice import warn_of_idle
from ronde._compression.rules import checked
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._job.runtime import is_initialized, runtime
from ronde._membership import epochs
from ronde._training.first_step import FirstStep
from ronde._training.replica_check import ReplicaCheck

T = TypeVar("T")

_BROADCAST = (
    "call hvd.broadcast_variables(model.variables, root_rank=0), or give fit() "
    "hvd.callbacks.BroadcastGlobalVariablesCallback(0),"
)

# A small gradient's operation costs more than its transfer, so neighbours are fused up to these
# bytes and numbers. A few gradients are not worth it, and errors then name the one gradient.
_RUN_BYTES = 1 << 20
_RUN = 32
_FEW = 16


def in_runs(
    items: Sequence[T], size_of: Callable[[T], tuple[Any, float]], most: int = _RUN
) -> list[list[T]]:
    """Cuts the items, in order, into runs that are fused; one item a run if there are few.

    size_of: an item's dtype, which a run shares, and its bytes. most: the limit of a run's items.
    """
    if len(items) <= _FEW:
        return [[item] for item in items]
    runs: list[list[T]] = []
    dtype, left = None, 0.0
    for item in items:
        kind, size = size_of(item)
        if not runs or size > left or len(runs[-1]) == most or kind != dtype:
            runs.append([])
            dtype, left = kind, float(_RUN_BYTES)
        runs[-1].append(item)
        left -= size
    return runs


def trainable(source: Any) -> list[Any]:
    """The variables of a layer, of nested lists of layers and variables, or the variable itself."""
    if hasattr(source, "trainable_variables"):
        return list(source.trainable_variables)
    if isinstance(source, (list, tuple, set)):
        return [variable for part in source for variable in trainable(part)]
    return [source]


def check_passes(passes: int) -> None:
    """Raises InvalidArgumentError for a number of backward passes that is not allowed."""
    check(backward_passes_per_step=passes)
    if passes < 1:
        raise InvalidArgumentError(f"backward_passes_per_step={passes}; allowed: from 1")


def checked_weight(weight: Any) -> float:
    """The weight of a rank. Raises InvalidArgumentError unless it is finite and not negative."""
    number = float(weight) if is_number(weight) else math.nan
    if not (math.isfinite(number) and number >= 0):
        raise InvalidArgumentError(f"weight={shown(weight)}; allowed: a finite number, 0 or more")
    return number


@dataclasses.dataclass
class GradientOptions:
    """The options for sending gradients: DistributedOptimizer's arguments of these names."""

    compression: Any = NoneCompressor
    sparse_as_dense: bool = False
    op: int = Average
    gradient_predivide_factor: float = 1.0
    num_groups: int = 0
    groups: int | Sequence[Any] | None = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True
    weight: Any = None  # of this rank in the average; None: all ranks count alike
    # Variables that are not averaged, by key. They are kept: a later one could get the same id.
    local: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises for values that are invalid or exclude each other."""
        self._looked = False
        check(process_set=self.process_set)
        check(gradient_predivide_factor=self.gradient_predivide_factor, num_groups=self.num_groups)
        self.watched = False  # fit() makes the check
        self.first_step = FirstStep(self.process_set, _BROADCAST, calls=2)
        self.replicas = ReplicaCheck(self.process_set, "keras")
        check(op=self.op)
        checked(self.compression)
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise InvalidArgumentError(
                "gradient_predivide_factor not supported with op other than Average"
            )
        factor = self.gradient_predivide_factor
        if not (factor and math.isfinite(factor)):
            raise InvalidArgumentError(
                f"gradient_predivide_factor={factor}; allowed: finite numbers other than 0"
            )
        if self.weight is not None:
            self.check_weighted()
        self.wanted_groups = self.num_groups if self.groups is None else self.groups
        if self.num_groups < 0 or (isinstance(self.groups, int) and self.groups < 0):
            raise InvalidArgumentError("groups and num_groups must not be negative")
        if not isinstance(self.wanted_groups, (int, list, tuple)):
            raise InvalidArgumentError(
                "groups: a non-negative whole number or lists of parameters are needed, not "
                f"{shown(self.wanted_groups)}"
            )

    @property
    def alone(self) -> bool:
        """True if this rank keeps its gradients: alone in the process set, or outside of it.

        An elastic job may grow when its graphs are traced already: there no rank is alone.
        """
        alone = (self.process_set.size() or 1) == 1 and not epochs.available()
        return alone or self.process_set.included() is False

    def skips_nonfinite(self) -> bool:
        """True if all ranks leave out steps whose averages are not finite."""
        setting = runtime().setting("RONDE_CHECK_NONFINITE") if is_initialized() else ""
        return setting == "skip" and not self.alone

    @staticmethod
    def key(variable: Any) -> Any:
        """The variable's key: equal for the same variable only."""
        return id(variable)

    def check_weighted(self) -> None:
        """Raises InvalidArgumentError if gradients are not averaged."""
        if self.op != Average:
            raise InvalidArgumentError("a weight needs op=Average")

    def set_weight(self, weight: float) -> None:
        """Gives this rank's gradients a weight in the average from now on."""
        self.check_weighted()
        self.weight = checked_weight(weight)

    def add_local(self, source: Any) -> None:
        """Excludes these variables (or a layer's) from averaging."""
        self.local.update({self.key(one): one for one in trainable(source)})

    def look_at_rules(self, names: Iterable[str]) -> None:
        """Warns at the first call of compression rules that match no variable's name."""
        if not self._looked:
            self._looked = True
            warn_of_idle(self.compression, names)

    def op_and_scale(self) -> tuple[int, tuple[float, float]]:
        """The operation and scale factors for `op` and the predivide factor."""
        factor = self.gradient_predivide_factor
        return self.op, (1.0 / factor, factor)
