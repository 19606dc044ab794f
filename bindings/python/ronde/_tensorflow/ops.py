"""The operations as TensorFlow sees them, with gradients: compiled kernels or the Python path.

Most functions take a list of tensors and a list of names: one for each tensor, or one for all as a
single operation. Operations of the name "" match by their order.

Gradients: data-parallel training averages the ranks' losses. So the gradient of allgather and
broadcast is the average of the ranks' gradients, as in Horovod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from ronde._calls.argument_checks import check
from ronde._calls.reduce_ops import Average, Sum
from ronde._errors import InvalidArgumentError
from ronde._job.runtime import rank, runtime
from ronde._tensorflow import names as _names
from ronde._tensorflow import program as _program
from ronde._tensorflow.library import library
from ronde._tensorflow.tracing import call_site
from ronde._tensorflow.types import scalar

Tensors = Sequence[Any]


def _members(set_id: int) -> list[int]:
    return list(runtime().process_set_ranks(set_id))


def _differentiable(
    kind: str, run: Callable[..., list[Any]], inputs: dict[str, Any], attributes: dict[str, Any]
) -> list[Any]:
    """The Python path's results, with the gradient that is registered for the compiled op."""
    parts = list(inputs.values())

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def call(*given: Any) -> Any:
        packed = tf.nest.pack_sequence_as(parts, given)
        outputs = run(**dict(zip(inputs, packed)), **attributes)
        done = SimpleNamespace(inputs=given, outputs=outputs, get_attr=attributes.__getitem__)
        return tuple(outputs), lambda *gradients: list(_GRADIENTS[kind](done, *gradients))

    return list(call(*tf.nest.flatten(parts)))


def _reduction(op: int, scale: tuple[float, float]) -> dict[str, Any]:
    """The attributes of all operations that combine elements."""
    check(op=op, prescale_factor=scale[0], postscale_factor=scale[1])
    before, after = map(float, scale)
    return {"op": op, "prescale": repr(before), "postscale": repr(after)}


def _run(
    kind: str,
    inputs: dict[str, Any],
    names: Sequence[str],
    set: int,
    program: str = "",
    **attributes: Any,
) -> Any:
    """Runs operations of one kind, by the graph op's name, inputs and attributes.

    program: its program's number in eager mode.
    """
    _names.check_compilable()
    kernels = library()
    kernels.threads.look()
    number = _program.note(kernels.programs, kind, names, set, program)
    attributes |= {"names": names, "set": set, "program": number, "site": call_site()}
    run = getattr(kernels, f"ronde_{kind}")
    if kernels.is_compiled or kind not in _GRADIENTS:
        return run(**inputs, **attributes)
    return _differentiable(kind, run, inputs, attributes)


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
    inputs: dict[str, Any] = {"tensors": list(tensors)}
    attributes = {"compression": wire, "priorities": list(priorities), **_reduction(op, scale)}
    if weight is None:
        return list(_run("allreduce", inputs, names, set, program, **attributes))
    if op != Average:
        raise InvalidArgumentError("a weight needs op=Average")
    inputs["weight"] = scalar(weight)
    return list(_run("weighted_allreduce", inputs, names, set, program, **attributes))


def allgather(tensors: Tensors, names: Sequence[str], set: int) -> list[Any]:
    """Joins each tensor of all ranks along the first dimension."""
    return list(_run("allgather", {"tensors": list(tensors)}, names, set))


def broadcast(tensors: Tensors, names: Sequence[str], root: int, set: int) -> list[Any]:
    """Gives every rank the root's tensors."""
    check(root_rank=root)
    return list(_run("broadcast", {"tensors": list(tensors)}, names, set, root=root))


def reducescatter(
    tensors: Tensors, names: Sequence[str], op: int, scale: tuple[float, float], set: int
) -> list[Any]:
    """Combines each tensor over all ranks; this rank gets its chunk of the rows."""
    inputs = {"tensors": list(tensors)}
    return list(_run("reducescatter", inputs, names, set, **_reduction(op, scale)))


def alltoall(tensor: Any, splits: Any, name: str, set: int) -> tuple[Any, Any]:
    """Sends splits[r] (int64; none: equal chunks) rows to member r; returns (rows, counts)."""
    rows, counts = _run("alltoall", {"tensor": tensor, "splits": splits}, [name], set)
    return rows, counts


def sparse_allreduce(
    values: Any, indices: Any, rows: Any, name: str, op: int, scale: tuple[float, float], set: int
) -> tuple[Any, Any]:
    """Adds up rows by their int64 indices, which are below `rows` (-1: any); (sums, indices)."""
    inputs = {"values": values, "indices": indices, "rows": rows}
    sums, places = _run("sparse_allreduce", inputs, [name], set, **_reduction(op, scale))
    return sums, places


def barrier(set: int) -> None:
    """Completes when all ranks of the set have reached it."""
    name = "" if tf.executing_eagerly() else _names.in_graph("barrier", set)
    _run("barrier", {}, [name], set)


def join(set: int) -> Any:
    """Joins: this rank has no more data. Returns the rank that joined last, an int32 scalar."""
    _names.check_compilable()
    return library().ronde_join(names=[""], set=set, site=call_site())


def query(what: str, set: int, name: str | None) -> Any:
    """ "rank", "size", "local_rank", "local_size" or "included" (0, 1), when the graph runs."""
    return library().ronde_query(what=what, set=set, name=name)


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


def _back_names(names: Sequence[str], set: int) -> list[str]:
    return [_names.in_graph(f"gradient.{name}", set) if name else "" for name in names]


def _averaged(gradients: Tensors, names: Sequence[str], set: int) -> list[Any]:
    return allreduce(gradients, _back_names(names, set), Average, (1.0, 1.0), set)


def _allreduce_back(done: Any, *gradients: Any) -> Any:
    names, op, scale, set, wire = _of(done, "names", "op", "scale", "set", "compression")
    if op not in (Sum, Average):
        raise LookupError("allreduce has a gradient for Sum and Average only")
    return allreduce(gradients, _back_names(names, set), op, scale, set, wire)


def _weighted_allreduce_back(done: Any, *gradients: Any) -> Any:
    """The sums of all ranks' gradients times this rank's share of the weights."""
    (names, scale, set), weight = _of(done, "names", "scale", "set"), done.inputs[-1]
    sums = allreduce(gradients, _back_names(names, set), Sum, scale, set)
    total_names = _back_names([names[0] and f"weight.{names[0]}"], set)
    (total,) = allreduce([weight], total_names, Sum, (1.0, 1.0), set)
    return [*(one * tf.cast(weight / total, one.dtype) for one in sums), None]


def _allgather_back(done: Any, *gradients: Any) -> Any:
    (names, set), tensors = _of(done, "names", "set"), done.inputs
    averaged = _averaged(gradients, names, set)
    rows = tf.stack([tf.shape(t, tf.int64)[0] if t.shape.rank else 1 for t in tensors])
    count_name = f"{names[0]}.rows" if names[0] else ""
    counts = allgather([rows[tf.newaxis]], _back_names([count_name], set), set)[0]
    before = tf.reduce_sum(counts[: _members(set).index(rank())], axis=0)
    mine = [g[before[i] : before[i] + rows[i]] for i, g in enumerate(averaged)]
    return [tf.reshape(m, tf.shape(t)) for m, t in zip(mine, tensors)]


def _broadcast_back(done: Any, *gradients: Any) -> Any:
    names, root, set = _of(done, "names", "root", "set")
    averaged = _averaged(gradients, names, set)
    if rank() == root:
        return averaged
    with tf.control_dependencies(averaged):  # a session would leave them out, and others wait
        return [tf.identity(tf.zeros_like(gradient)) for gradient in averaged]


def _reducescatter_back(done: Any, *gradients: Any) -> Any:
    names, op, scale, set = _of(done, "names", "op", "scale", "set")
    if op not in (Sum, Average):
        raise LookupError("reducescatter has a gradient for Sum and Average only")
    factor = scale[0] * scale[1] * (len(_members(set)) if op == Sum else 1)
    scaled = [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
    return allgather(scaled, _back_names(names, set), set)


def _sparse_allreduce_back(done: Any, gradient: Any, _places: Any) -> Any:
    """The reduced gradient of each row that this rank gave. All ranks have the same rows."""
    names, op, scale, set = _of(done, "names", "op", "scale", "set")
    (reduced,) = allreduce([gradient], _back_names(names, set), op, scale, set)
    places = tf.searchsorted(done.outputs[1], done.inputs[1])
    return tf.gather(reduced, places), None, None


def _alltoall_back(done: Any, gradient: Any, _received: Any) -> Any:
    names, set = _of(done, "names", "set")
    return alltoall(gradient, done.outputs[1], _back_names(names, set)[0], set)[0], None


# By the graph op's kind. Each takes the operation, with its inputs, outputs and attributes.
_GRADIENTS: dict[str, Callable[..., Any]] = {
    "allreduce": _allreduce_back,
    "weighted_allreduce": _weighted_allreduce_back,
    "allgather": _allgather_back,
    "broadcast": _broadcast_back,
    "reducescatter": _reducescatter_back,
    "alltoall": _alltoall_back,
    "sparse_allreduce": _sparse_allreduce_back,
}
for _kind, _back in _GRADIENTS.items():
    tf.RegisterGradient(f"Ronde{_kind.title().replace('_', '')}")(_back)
