"""Optimizers that keep the state of this rank's variables alone, and update these."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from ronde._calls.argument_checks import shown
from ronde._collectives import on_arrays
from ronde._errors import InvalidArgumentError, UnsupportedError
from ronde._job.process_sets import ProcessSet
from ronde._membership import epochs
from ronde._training.mixing import mixed
from ronde._training.owners import owners
from ronde.keras import _backend

Variables = Sequence[Any]

_REFUSED = {
    "Adafactor": "its state has other shapes than the variables",
    "LossScaleOptimizer": "it decides about steps of another optimizer; use mixed_bfloat16",
    "MultiOptimizer": "its optimizers have the state",
}
# Attributes that exclude_from_weight_decay() sets.
_NOT_IN_CONFIG = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")


class _Elsewhere(NamedTuple):
    """A variable of the plain optimizer that another rank has."""

    owner: int
    shape: tuple[int, ...]
    dtype: Any
    behind: int  # so many of this rank's state variables


class _Shards:
    """The variables' owners, and this rank's part of the state. No attribute that Keras tracks."""

    def __init__(self, process_set: ProcessSet) -> None:
        """process_set: the ranks that share the variables."""
        self.process_set = process_set
        included = process_set.included()
        self.ranks = list(process_set.ranks)
        self.shared = bool(included) and len(self.ranks) > 1  # with other ranks
        self.place = (process_set.rank() or 0) if self.shared else 0
        self.owner_of: dict[Any, int] = {}
        self.own: set[int] = set()  # ids of state variables that this rank alone has
        self.elsewhere: list[_Elsewhere] = []
        self.before = self.count = 0  # variables before the state, and of the state
        self.gathered: dict[str, Any] | None = None  # the whole state, while the writer saves


class Sharded:
    """Mixed into the class of an optimizer, which each rank has a part of.

    A variable has one owner. It keeps the state and makes the update; then all get its values.
    Gradients must be alike on all ranks. Others' state variables are None in the lists of Keras.
    """

    _shards: _Shards

    def build(self: Any, variables: Variables) -> None:
        """Deals the variables to ranks, balanced by size, and makes the state of this rank's."""
        if self.built:
            return
        shards = self.__dict__["_shards"] = _Shards(self._shards.process_set)
        parts = len(shards.ranks) if shards.shared else 1
        chosen = owners([math.prod(v.shape) for v in variables], parts)
        shards.owner_of = dict(zip(map(self._var_key, variables), chosen))
        shards.before = len(self._variables)
        super().build(variables)  # type: ignore[misc]
        shards.count = len(self._variables) - shards.before
        for one in self._variables[shards.before :]:
            is_known = id(one) in shards.own or _is_accumulator(self, one)
            if not is_known and math.prod(one.shape) > 1:
                raise UnsupportedError(
                    f"{type(self).__name__} cannot be sharded: its variable {one.path} does not "
                    "belong to one variable of the model; leave out shard= for it"
                )

    def add_variable_from_reference(
        self: Any, reference_variable: Any, name: Any = None, initializer: Any = "zeros"
    ) -> Any:
        """As the optimizer's for variables of this rank; None for others."""
        shards = self._shards
        owner = shards.owner_of.get(self._var_key(reference_variable), shards.place)
        if owner == shards.place or name == _ACCUMULATOR:
            made = super().add_variable_from_reference(  # type: ignore[misc]
                reference_variable, name=name, initializer=initializer
            )
            if name != _ACCUMULATOR:
                shards.own.add(id(made))
                made.is_of_one_rank = shards.shared
            return made
        shape, dtype = tuple(reference_variable.shape), reference_variable.dtype
        behind = len(self._variables) - shards.before
        shards.elsewhere.append(_Elsewhere(owner, shape, dtype, behind))
        return None

    def _own(self: Any, variables: Variables) -> list[bool]:
        """For each variable, if it is this rank's."""
        shards = self._shards
        return [shards.owner_of[self._var_key(v)] == shards.place for v in variables]

    def _apply_weight_decay(self: Any, variables: Variables) -> None:
        mine = [v for v, own in zip(variables, self._own(variables)) if own]
        if any(self._use_weight_decay(v) for v in mine):  # torch refuses an empty list
            super()._apply_weight_decay(mine)  # type: ignore[misc]

    def _backend_update_step(self: Any, grads: Any, variables: Variables, rate: Any) -> None:
        pairs = [p for *p, own in zip(grads, variables, self._own(variables)) if own]
        if pairs:
            mine = map(list, zip(*pairs))
            super()._backend_update_step(*mine, rate)  # type: ignore[misc]
        self._return(variables)

    def _overwrite_model_variables_with_average_value(self: Any, variables: Variables) -> None:
        averages = self._model_variables_moving_average
        for variable, average, own in zip(variables, averages, self._own(variables)):
            if own:
                variable.assign(average)
        self._return(variables)

    def _return(self: Any, variables: Variables) -> None:
        """Gives all ranks the owners' values."""
        shards = self._shards
        if not shards.shared:
            return
        for owner, rank in enumerate(shards.ranks):
            theirs = [v for v in variables if shards.owner_of[self._var_key(v)] == owner]
            if theirs:
                _backend.return_variables(theirs, rank, shards.process_set)

    def _whole(self: Any) -> list[Any]:
        """The variables of the plain optimizer, in its order: this rank's, and _Elsewhere."""
        shards, variables = self._shards, list(self._variables)
        begin = len(variables) - shards.count
        whole = variables[:begin]
        for number in range(shards.count + 1):
            whole += [one for one in shards.elsewhere if one.behind == number]
            whole += variables[begin + number : begin + number + 1]
        return whole

    def save_own_variables(self: Any, store: MutableMapping[str, Any]) -> None:
        """Stores the whole state, as the plain optimizer does. Collective, unless gathered."""
        gathered = self._shards.gathered
        for place, array in (self._gather() if gathered is None else gathered).items():
            store[place] = array

    def _gather(self: Any) -> dict[str, Any]:
        """The whole state by the names of the plain optimizer. Collective."""
        shards, gathered = self._shards, dict[str, Any]()
        under_way: list[tuple[int, Any, Any]] = []
        for place, one in enumerate(self._whole()):
            elsewhere = isinstance(one, _Elsewhere)
            array = np.empty(one.shape, one.dtype) if elsewhere else _array(one)
            if not shards.shared or not (elsewhere or id(one) in shards.own):
                gathered[str(place)] = array
                continue
            owner = one.owner if elsewhere else shards.place
            name = f"part {place} of an optimizer's sharded state, which all ranks must ask for"
            handle = on_arrays.broadcast_async(
                np.ascontiguousarray(array).reshape(-1).view(np.uint8),
                shards.ranks[owner],
                name,
                process_set=shards.process_set,
            )
            under_way.append((place, handle, array))
        for place, handle, like in under_way:
            gathered[str(place)] = handle.wait().view(like.dtype).reshape(like.shape)
        return gathered

    def load_own_variables(self: Any, store: MutableMapping[str, Any]) -> None:
        """Takes this rank's part of the state that the plain optimizer has, or any number of ranks.

        Raises InvalidArgumentError for a state with another number of variables.
        """
        whole = self._whole()
        if len(store.keys()) != len(whole):
            raise InvalidArgumentError(
                f"the state of {self.name} has {len(store.keys())} variables; the sharded "
                f"optimizer needs {len(whole)}, as many as the plain one has"
            )
        for place, one in enumerate(whole):
            if not isinstance(one, _Elsewhere):
                one.assign(store[str(place)])

    def memory_bytes(self: Any) -> dict[str, int]:
        """The memory of this rank: "parameters" and "state"."""
        return {
            "parameters": sum(map(_bytes, self._trainable_variables if self.built else [])),
            "state": sum(_bytes(v) for v in self._variables),
        }

    def _trackable_children(self: Any, save_type: str = "checkpoint", **named: Any) -> Any:
        """Raises UnsupportedError: a checkpoint of TensorFlow would have one rank's part."""
        if save_type == "checkpoint" and self._shards.shared:
            raise UnsupportedError(
                "tf.train.Checkpoint would save one rank's part of a sharded optimizer; "
                "hvd.save_model(model, path) saves the whole"
            )
        return super()._trackable_children(save_type, **named)  # type: ignore[misc]


_ACCUMULATOR = "gradient_accumulator"


def _is_accumulator(optimizer: Any, variable: Any) -> bool:
    return any(variable is one for one in getattr(optimizer, "_accumulated_gradients", None) or [])


def _array(variable: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(variable.value))


def _bytes(variable: Any) -> int:
    return int(math.prod(variable.shape) * np.dtype(variable.dtype).itemsize)


def is_sharded(optimizer: Any) -> bool:
    """True if DistributedOptimizer(shard=...) made it."""
    return isinstance(optimizer, Sharded)


def writer(optimizer: Any) -> int:
    """The rank that saves models with this optimizer: the first that has a part of it."""
    return int(optimizer._shards.ranks[0]) if is_sharded(optimizer) else 0


def gather(optimizer: Any, wanted: bool = True) -> None:
    """Gathers a sharded optimizer's whole state for its save_own_variables(), until forget().

    Does nothing if the writer does not want it. Collective.
    """
    if not is_sharded(optimizer):
        return
    shards = optimizer._shards
    if shards.shared:
        name = "the decision to save a sharded optimizer, which all ranks must ask for"
        mine = np.array([wanted], np.uint8)
        wanted = on_arrays.broadcast(mine, shards.ranks[0], name, shards.process_set)[0]
    if wanted:
        shards.gathered = optimizer._gather()


def forget(optimizer: Any) -> None:
    """Frees what gather() keeps."""
    if is_sharded(optimizer):
        optimizer._shards.gathered = None


def check_file(optimizer: Any, path: Any, allowed: str = ".keras") -> None:
    """Raises InvalidArgumentError for a file that would have one rank's part of the state."""
    if is_sharded(optimizer) and not str(path).endswith(allowed):
        raise InvalidArgumentError(
            f"{shown(str(path))} cannot keep a sharded optimizer; allowed: names that end in "
            f"{allowed}"
        )


def sharded(optimizer: Any, shard: str, process_set: ProcessSet) -> Any:
    """A sharded optimizer like `optimizer`, with its state.

    Raises InvalidArgumentError for other values of `shard`, UnsupportedError for optimizers that
    have no state of single variables, and in elastic jobs.
    """
    if shard != "optimizer":
        raise InvalidArgumentError(f'shard={shown(shard)}; allowed: "optimizer", or None')
    if epochs.available():
        raise UnsupportedError(
            'shard="optimizer": an elastic job would lose the state of a rank that leaves; leave '
            "out shard= there"
        )
    for kind in type(optimizer).__mro__:
        why = _REFUSED.get(kind.__name__)
        if why:
            raise UnsupportedError(
                f"{kind.__name__} cannot be sharded: {why}; leave out shard= for it"
            )
    if not optimizer.built:
        return mixed(Sharded, optimizer, _shards=_Shards(process_set))
    plain = type(optimizer).from_config(optimizer.get_config())
    for name in _NOT_IN_CONFIG:
        if hasattr(optimizer, name):
            setattr(plain, name, getattr(optimizer, name))
    made = mixed(Sharded, plain, _shards=_Shards(process_set))
    made.build(optimizer._trainable_variables)
    state: dict[str, Any] = {}
    optimizer.save_own_variables(state)
    made.load_own_variables(state)
    return made
