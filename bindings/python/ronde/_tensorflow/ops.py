"""The operations as TensorFlow sees them, with gradients: compiled kernels or the Python path.

Every function takes a list of tensors and a list of names: one for each tensor, or one for all as a
single operation. Operations of the name "" match by their order.

Gradients: data-parallel training averages the ranks' losses. So the gradient of allgather and
broadcast is the average of the ranks' gradients, as in Horovod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ronde._calls.argument_checks import check
from ronde._calls.reduce_ops import Average, Sum
from ronde._errors import InvalidArgumentError
from ronde._job.runtime import rank, runtime
from ronde._tensorflow import names as _names
from ronde._tensorflow import program as _program
from ronde._tensorflow import python_path
from ronde._tensorflow.library import library
from ronde._tensorflow.tracing import call_site
from ronde._tensorflow.types import scalar

Tensors = Sequence[Any]
# Names in the core of graph ops that have another.
_IN_CORE = {"reducescatter": "reduce_scatter", "weighted_allreduce": "allreduce"}


def _members(set_id: int) -> list[int]:
    return list(runtime().process_set_ranks(set_id))


def _with_gradient(
    run: Callable[[Tensors], Any], tensors: Tensors, backward: Callable[[Tensors], Tensors]
) -> list[Any]:
    """The Python path's results; compiled ops have their gradients registered."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def call(*inputs: Any) -> Any:
        return tuple(run(inputs)), lambda *gradients: list(backward(gradients))

    return list(call(*tensors))


def _attributes(
    kernels: Any, kind: str, names: Sequence[str], set: int, program: str = ""
) -> dict[str, Any]:
    """The attributes of all operations. program: its program's number in eager mode."""
    if kernels is not None:
        kernels.threads.look()
    texts = python_path.programs if kernels is None else kernels.programs
    number = _program.note(texts, kind, names, set, program)
    return {"names": names, "set": set, "program": number, "site": call_site()}


def _reduction(op: int, scale: tuple[float, float]) -> dict[str, Any]:
    """The attributes of all operations that combine elements."""
    check(op=op, prescale_factor=scale[0], postscale_factor=scale[1])
    before, after = map(float, scale)
    return {"op": op, "prescale": repr(before), "postscale": repr(after)}


def _run(
    kind: str,
    tensors: Tensors,
    backward: Callable[[Tensors], Tensors],
    names: Sequence[str],
    set: int,
    program: str = "",
    **attributes: Any,
) -> list[Any]:
    """Runs operations of one kind by kernels, or by the Python path with `backward`.

    kind: the graph op's.
    """
    _names.check_compilable()
    kernels = library()
    attributes |= _attributes(kernels, kind, names, set, program)
    if kernels is not None:
        return list(getattr(kernels, f"ronde_{kind}")(tensors=list(tensors), **attributes))

    def run(given: Tensors) -> list[Any]:
        return python_path.on_each(_IN_CORE.get(kind, kind), given, **attributes)

    return _with_gradient(run, tensors, backward)


def allreduce(
    tensors: Tensors,
    names: Sequence[str],
    op: int,
    scale: tuple[float, float],
    set: int,
    wire: str = "",
    priorities: Sequence[int] = (),
    program: str = "",
    weight: Any = None,
) -> list[Any]:
    """Combines each tensor over all ranks.

    wire: a codec of the core. priorities: one for each name; of operations that are ready together
    the highest runs first. program: a text on which ranks must agree too, in eager mode. weight: of
    this rank in an average, a number or a tensor of one.
    """

    def backward(gradients: Tensors) -> list[Any]:
        return _allreduce_back(gradients, names, op, scale, set, wire)

    attributes = {"compression": wire, "priorities": list(priorities), **_reduction(op, scale)}
    if weight is None:
        return _run("allreduce", tensors, backward, names, set, program, **attributes)
    if op != Average:
        raise InvalidArgumentError("a weight needs op=Average")
    weight = scalar(weight)

    def weighted_back(gradients: Tensors) -> list[Any]:
        return _weighted_back(gradients, weight, names, scale, set)

    return _run(
        "weighted_allreduce",
        tensors,
        weighted_back,
        names,
        set,
        program,
        weight=weight,
        **attributes,
    )


def _back_names(names: Sequence[str], set: int) -> list[str]:
    return [_names.in_graph(f"gradient.{name}", set) if name else "" for name in names]


def _allreduce_back(
    gradients: Tensors,
    names: Sequence[str],
    op: int,
    scale: tuple[float, float],
    set: int,
    wire: str = "",
) -> list[Any]:
    if op not in (Sum, Average):
        raise LookupError("allreduce has a gradient for Sum and Average only")
    return allreduce(gradients, _back_names(names, set), op, scale, set, wire)


def _weighted_back(
    gradients: Tensors, weight: Any, names: Sequence[str], scale: tuple[float, float], set: int
) -> list[Any]:
    """The sums of all ranks' gradients times this rank's share of the weights."""
    sums = allreduce(gradients, _back_names(names, set), Sum, scale, set)
    (total,) = allreduce([weight], _back_names([_weight_of(names)], set), Sum, (1.0, 1.0), set)
    return [one * tf.cast(weight / total, one.dtype) for one in sums]


def _weight_of(names: Sequence[str]) -> str:
    return names[0] and f"weight.{names[0]}"


def allgather(tensors: Tensors, names: Sequence[str], set: int) -> list[Any]:
    """Joins each tensor of all ranks along the first dimension."""

    def backward(gradients: Tensors) -> list[Any]:
        return _allgather_back(tensors, gradients, names, set)

    return _run("allgather", tensors, backward, names, set)


def _allgather_back(
    tensors: Tensors, gradients: Tensors, names: Sequence[str], set: int
) -> list[Any]:
    averaged = allreduce(gradients, _back_names(names, set), Average, (1.0, 1.0), set)
    rows = tf.stack([tf.shape(t, tf.int64)[0] if t.shape.rank else 1 for t in tensors])
    count_name = f"{names[0]}.rows" if names[0] else ""
    counts = allgather([rows[tf.newaxis]], _back_names([count_name], set), set)[0]
    before = tf.reduce_sum(counts[: _members(set).index(rank())], axis=0)
    mine = [g[before[i] : before[i] + rows[i]] for i, g in enumerate(averaged)]
    return [tf.reshape(m, tf.shape(t)) for m, t in zip(mine, tensors)]


def broadcast(tensors: Tensors, names: Sequence[str], root: int, set: int) -> list[Any]:
    """Gives every rank the root's tensors."""

    def backward(gradients: Tensors) -> list[Any]:
        return _broadcast_back(gradients, names, root, set)

    check(root_rank=root)
    return _run("broadcast", tensors, backward, names, set, root=root)


def _broadcast_back(gradients: Tensors, names: Sequence[str], root: int, set: int) -> list[Any]:
    averaged = allreduce(gradients, _back_names(names, set), Average, (1.0, 1.0), set)
    if rank() == root:
        return averaged
    with tf.control_dependencies(averaged):  # a session would leave them out, and others wait
        return [tf.identity(tf.zeros_like(gradient)) for gradient in averaged]


def reducescatter(
    tensors: Tensors, names: Sequence[str], op: int, scale: tuple[float, float], set: int
) -> list[Any]:
    """Combines each tensor over all ranks; this rank gets its chunk of the rows."""

    def backward(gradients: Tensors) -> list[Any]:
        return _reducescatter_back(gradients, names, op, scale, set)

    return _run("reducescatter", tensors, backward, names, set, **_reduction(op, scale))


def _reducescatter_back(
    gradients: Tensors, names: Sequence[str], op: int, scale: tuple[float, float], set: int
) -> list[Any]:
    if op not in (Sum, Average):
        raise LookupError("reducescatter has a gradient for Sum and Average only")
    factor = scale[0] * scale[1] * (len(_members(set)) if op == Sum else 1)
    scaled = [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
    return allgather(scaled, _back_names(names, set), set)


def alltoall(tensor: Any, splits: Any, name: str, set: int) -> tuple[Any, Any]:
    """Sends splits[r] (int64; none: equal chunks) rows to member r; returns (rows, counts)."""
    _names.check_compilable()
    kernels = library()
    attributes = _attributes(kernels, "alltoall", [name], set)
    if kernels is not None:
        result = kernels.ronde_alltoall(tensor=tensor, splits=splits, **attributes)
        return result.result, result.received_splits
    found: list[Any] = []

    def run(given: Tensors) -> list[Any]:
        found[:] = python_path.alltoall(given[0], splits, **attributes)
        return found

    rows, received = _with_gradient(
        run, [tensor], lambda gradients: [_alltoall_back(gradients[0], found[1], name, set)]
    )
    return rows, received


def _alltoall_back(gradient: Any, received: Any, name: str, set: int) -> Any:
    return alltoall(gradient, received, _back_names([name], set)[0], set)[0]


def barrier(set: int) -> None:
    """Completes when all ranks of the set have reached it."""
    _names.check_compilable()
    name = "" if tf.executing_eagerly() else _names.in_graph("barrier", set)
    kernels = library()
    barrier_of = python_path.barrier if kernels is None else kernels.ronde_barrier
    barrier_of(**_attributes(kernels, "barrier", [name], set))


def join(set: int) -> Any:
    """Joins: this rank has no more data. Returns the rank that joined last, an int32 scalar."""
    _names.check_compilable()
    function = getattr(library(), "ronde_join", python_path.join)
    return function(names=[""], set=set, site=call_site())


def query(what: str, set: int, name: str | None) -> Any:
    """ "rank", "size", "local_rank", "local_size" or "included" (0, 1), when the graph runs."""
    kernels = library()
    if kernels is None:
        return python_path.query(what, set)
    return kernels.ronde_query(what=what, set=set, name=name)


def _decoded(value: Any) -> Any:
    """An attribute of a graph's operation. Its texts are bytes."""
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value


def _of(op: Any, *names: str) -> list[Any]:
    """The attributes of these names. "scale" stands for both factors."""
    scale = ("prescale", "postscale")
    return [
        tuple(float(op.get_attr(factor)) for factor in scale)
        if name == "scale"
        else _decoded(op.get_attr(name))
        for name in names
    ]


def _allreduce_gradient(op: Any, *gradients: Any) -> Any:
    return _allreduce_back(gradients, *_of(op, "names", "op", "scale", "set", "compression"))


def _weighted_allreduce_gradient(op: Any, *gradients: Any) -> Any:
    names, scale, set = _of(op, "names", "scale", "set")
    return [*_weighted_back(gradients, op.inputs[-1], names, scale, set), None]


def _allgather_gradient(op: Any, *gradients: Any) -> Any:
    return _allgather_back(op.inputs, gradients, *_of(op, "names", "set"))


def _broadcast_gradient(op: Any, *gradients: Any) -> Any:
    return _broadcast_back(gradients, *_of(op, "names", "root", "set"))


def _reducescatter_gradient(op: Any, *gradients: Any) -> Any:
    return _reducescatter_back(gradients, *_of(op, "names", "op", "scale", "set"))


def _alltoall_gradient(op: Any, gradient: Any, _received: Any) -> Any:
    (name,), members = _of(op, "names", "set")
    return _alltoall_back(gradient, op.outputs[1], name, members), None


tf.RegisterGradient("RondeAllreduce")(_allreduce_gradient)
tf.RegisterGradient("RondeWeightedAllreduce")(_weighted_allreduce_gradient)
tf.RegisterGradient("RondeAllgather")(_allgather_gradient)
tf.RegisterGradient("RondeBroadcast")(_broadcast_gradient)
tf.RegisterGradient("RondeReducescatter")(_reducescatter_gradient)
tf.RegisterGradient("RondeAlltoall")(_alltoall_gradient)
