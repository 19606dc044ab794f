"""The collectives of a process group, by the names that torch.distributed and its C++ code use.

Arguments are torch's: lists of tensors, and an options object with root (a rank of the group),
reduce operation, timeout and a flag for asynchronous calls. Tensors must be dense and in host
memory; those that are not contiguous are copied and copied back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

from ronde import _core
from ronde._calls import reduce_ops
from ronde._collectives import calls as kinds
from ronde._collectives.calls import Call
from ronde._errors import InvalidArgumentError, MismatchError, UnsupportedError
from ronde._job.process_sets import global_process_set
from ronde.torch._collectives.adapter import plain_view
from ronde.torch.distributed import _converted, _membership, _shrink, _sparse
from ronde.torch.distributed._messages import MessageGroup
from ronde.torch.distributed._tensors import (
    Tensor,
    adopt,
    check_apart,
    check_like,
    dense,
    elements,
    packed,
    restoring,
    rows,
    space_for,
    summable,
    unpack,
    unpacking,
    view,
)
from ronde.torch.distributed._work import Tensors, Work

_RedOp: Any = dist.ReduceOp.RedOpType
_SCALED_SUM = -1
_OPS = {
    _RedOp.SUM: reduce_ops.Sum,
    _RedOp.AVG: reduce_ops.Average,
    _RedOp.MIN: reduce_ops.Min,
    _RedOp.MAX: reduce_ops.Max,
    _RedOp.PRODUCT: reduce_ops.Product,
    _RedOp.BAND: reduce_ops.BitAnd,
    _RedOp.BOR: reduce_ops.BitOr,
    _RedOp.BXOR: reduce_ops.BitXor,
    _RedOp.PREMUL_SUM: _SCALED_SUM,
}

_ALLREDUCE = c10d.AllreduceOptions()
_ALLGATHER = c10d.AllgatherOptions()
_ALL_TO_ALL = c10d.AllToAllOptions()
_BARRIER = c10d.BarrierOptions()
_BROADCAST = c10d.BroadcastOptions()
_GATHER = c10d.GatherOptions()
_REDUCE = c10d.ReduceOptions()
_REDUCE_SCATTER = c10d.ReduceScatterOptions()
_SCATTER = c10d.ScatterOptions()


class RondeProcessGroup(MessageGroup):
    """A torch.distributed process group over Ronde."""

    supports_shrinking = True

    def shrink(
        self, ranks_to_exclude: list[int], shrink_flags: int = 0, opts_override: Any = None
    ) -> RondeProcessGroup:
        """A group of the other ranks, which all call it: what dist.shrink_group() needs.

        Its operations in flight end or fail first, with any flags. Raises InvalidArgumentError for
        options, and as _shrink.shrunk().
        """
        _check_no_options(opts_override)
        made = _shrink.shrunk(self, ranks_to_exclude, _made)
        assert isinstance(made, RondeProcessGroup)
        return made

    def allreduce(self, tensors: Tensors, opts: Any = _ALLREDUCE) -> Work:
        """Combines each tensor over the ranks, in place; several are one operation."""
        op, prescale = reduction_of(opts.reduceOp)
        plain = [plain_view(tensor) for tensor in tensors]
        if None not in plain:
            finish = restoring(tensors, tensors)
            return self._start(
                kinds.ALLREDUCE, plain, plain, tensors, tensors, opts, finish, op, prescale
            )
        if any(tensor.is_sparse for tensor in tensors):
            return _sparse.allreduce(self, tensors, opts, op)
        used = [dense(tensor) for tensor in tensors]
        views = [view(summable(tensor, _is_sum(op))) for tensor in used]
        finish = restoring(tensors, used)
        return self._start(kinds.ALLREDUCE, views, views, used, tensors, opts, finish, op, prescale)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any = _REDUCE) -> Work:
        """As allreduce(), but only the root's tensors are changed."""
        op, prescale = reduction_of(opts.reduceOp)
        used = [dense(tensor) for tensor in tensors]
        views: list[Any] = [view(summable(tensor, _is_sum(op))) for tensor in used]
        outputs = views if opts.rootRank == self._rank else [None] * len(views)
        finish = restoring(tensors, used)
        return self._start(
            kinds.REDUCE, views, outputs, used, tensors, opts, finish, op, prescale, opts.rootRank
        )

    def broadcast(self, tensors: Tensors, opts: Any = _BROADCAST) -> Work:
        """Gives every rank the root's tensors, in place."""
        used = [dense(tensor) for tensor in tensors]
        views = [view(elements(tensor)) for tensor in used]
        finish = restoring(tensors, used)
        return self._start(
            kinds.BROADCAST, views, views, used, tensors, opts, finish, root=opts.rootRank
        )

    def allgather(
        self, output_tensors: list[Tensors], input_tensors: Tensors, opts: Any = _ALLGATHER
    ) -> Work:
        """Copies rank r's input_tensors[i] to `output_tensors[i][r]`; shapes are alike on all."""
        used = [dense(tensor) for tensor in input_tensors]
        spaces = self._spaces("allgather", used, output_tensors)
        return self._gather_parts(used, output_tensors, spaces, opts)

    def allgather_coalesced(
        self, output_lists: list[Tensors], input_list: Tensors, opts: Any = _ALLGATHER
    ) -> Work:
        """As allgather(), but with rank r's tensors in output_lists[r]."""
        return self.allgather([list(parts) for parts in zip(*output_lists)], input_list, opts)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = _ALLGATHER) -> Work:
        """Fills `output` with the ranks' inputs, concatenated."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = _ALLGATHER
    ) -> Work:
        """all_gather_single() of several tensors as one operation."""
        for output, tensor in zip(outputs, inputs):
            check_like("the output", output, tensor, self._size)
        used = [dense(tensor) for tensor in inputs]
        filled = [dense(tensor) for tensor in outputs]
        return self._gather(used, filled, outputs, opts, restoring(outputs, filled))

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(
        self, output_tensors: list[Tensors], input_tensors: Tensors, opts: Any = _GATHER
    ) -> Work:
        """As allgather(), but only the root gets the result; the others pass no outputs."""
        used = [dense(tensor) for tensor in input_tensors]
        if opts.rootRank != self._rank:
            return self._gather(used, None, input_tensors, opts, None, opts.rootRank)
        with self._telling_of_refusal("gather", opts):
            spaces = self._spaces("gather", used, output_tensors)
        return self._gather_parts(used, output_tensors, spaces, opts, opts.rootRank)

    def scatter(
        self, output_tensors: Tensors, input_tensors: list[Tensors], opts: Any = _SCATTER
    ) -> Work:
        """Fills output_tensors[i] with this rank's chunk of the root's input_tensors[i]."""
        filled = [dense(tensor) for tensor in output_tensors]
        inputs: list[Any] = [None] * len(filled)
        sources: Tensors = []
        if opts.rootRank == self._rank:
            with self._telling_of_refusal("scatter", opts):
                for parts, output in zip(input_tensors, filled):
                    self._check_parts(parts, output)
                sources = [elements(packed(parts)) for parts in input_tensors]
            inputs = [view(source) for source in sources]
        outputs = [view(elements(output)) for output in filled]
        return self._start(
            kinds.SCATTER,
            inputs,
            outputs,
            (sources, filled),
            output_tensors,
            opts,
            restoring(output_tensors, filled),
            root=opts.rootRank,
        )

    def reduce_scatter(
        self, output_tensors: Tensors, input_tensors: list[Tensors], opts: Any = _REDUCE_SCATTER
    ) -> Work:
        """Combines input_tensors[i] over the ranks; rank r gets the chunk `[i][r]`."""
        for parts, output in zip(input_tensors, output_tensors):
            self._check_parts(parts, output)
        sources = [packed(parts) for parts in input_tensors]
        return self._reduce_scatter(output_tensors, sources, opts)

    def reduce_scatter_single(
        self, output: Tensor, input: Tensor, opts: Any = _REDUCE_SCATTER
    ) -> Work:
        """Combines `input`, one chunk for each rank; each rank gets its chunk."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = _REDUCE_SCATTER
    ) -> Work:
        """reduce_scatter_single() of several tensors as one operation."""
        for output, tensor in zip(outputs, inputs):
            check_like("the input", tensor, output, self._size)
        return self._reduce_scatter(outputs, [dense(tensor) for tensor in inputs], opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(
        self, output_tensors: Tensors, input_tensors: Tensors, opts: Any = _ALL_TO_ALL
    ) -> Work:
        """Sends input_tensors[r] to rank r, fills output_tensors[r] from it; sizes may differ."""
        sent = packed(input_tensors)
        send_counts = [tensor.numel() for tensor in input_tensors]
        counts = [tensor.numel() for tensor in output_tensors]
        check_apart("alltoall", output_tensors)

        def store(received: Tensor) -> None:
            unpack(received, output_tensors)

        return self._exchange(sent, send_counts, counts, output_tensors, store, opts)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = _ALL_TO_ALL,
    ) -> Work:
        """Sends rows of `input` to the ranks, and fills `output` with their rows.

        Without sizes all chunks are equal.
        """
        send_counts = self._counts("input", input, input_split_sizes)
        counts = self._counts("output", output, output_split_sizes)

        def store(received: Tensor) -> None:
            with torch.no_grad():
                output.copy_(received.view(output.shape))

        return self._exchange(dense(input), send_counts, counts, [output], store, opts)

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = _BARRIER) -> Work:
        """Completes when all ranks have called it."""
        return self._start(kinds.BARRIER, [], [], None, [], opts)

    def _check_parts(self, parts: Tensors, like: Tensor) -> None:
        if len(parts) != self._size:
            raise InvalidArgumentError(
                f"{len(parts)} tensors were given, but the group has {self._size} ranks"
            )
        for rank, part in enumerate(parts):
            check_like(f"the tensor for rank {rank}", part, like)

    @contextmanager
    def _telling_of_refusal(self, call: str, opts: Any) -> Iterator[None]:
        """Makes the call fail on the other ranks, too, where the root refuses its own arguments.

        They would wait for the root, and its next call would meet this one of theirs.
        """
        try:
            yield
        except InvalidArgumentError as error:
            site = f"in place of {call}, whose tensors it refused: {error}"[:500]
            self._calls += 1
            call_of = Call("", global_process_set, site=site)
            limit_s = self._limit(opts.timeout)
            runtime, members = self._membership.runtime(), self._open_set()
            _core.submit(
                runtime, kinds.BARRIER, members, [], [], None, False, call_of, None, limit_s
            )
            raise

    def _spaces(self, call: str, used: Tensors, outputs: list[Tensors]) -> Tensors:
        """Memory for what is gathered of each of `used`. Raises unless the outputs fit."""
        for parts, tensor in zip(outputs, used):
            self._check_parts(parts, tensor)
        return [space_for(call, parts) for parts, _ in zip(outputs, used)]

    def _gather_parts(
        self, used: Tensors, outputs: list[Tensors], spaces: Tensors, opts: Any, root: int = -1
    ) -> Work:
        results = [part for parts in outputs for part in parts]
        return self._gather(used, spaces, results, opts, unpacking(spaces, outputs), root)

    def _gather(
        self,
        used: Tensors,
        spaces: Tensors | None,
        results: Tensors,
        opts: Any,
        finish: Callable[[Any], None] | None,
        root: int = -1,
    ) -> Work:
        """allgather, or gather if there is a root, of dense tensors."""
        inputs = [rows(elements(tensor), 1) for tensor in used]
        outputs: list[Any] = [None] * len(used)
        if spaces is not None:
            outputs = [view(elements(space)) for space in spaces]
        kind = kinds.ALLGATHER if root < 0 else kinds.GATHER
        return self._start(kind, inputs, outputs, (used, spaces), results, opts, finish, root=root)

    def _reduce_scatter(self, targets: Tensors, sources: Tensors, opts: Any) -> Work:
        op, prescale = reduction_of(opts.reduceOp)
        filled = [dense(tensor) for tensor in targets]
        inputs = [rows(summable(source, _is_sum(op)), self._size) for source in sources]
        outputs = [view(summable(tensor, _is_sum(op))) for tensor in filled]
        finish = restoring(targets, filled)
        keep = (sources, filled)
        return self._start(
            kinds.REDUCE_SCATTER, inputs, outputs, keep, targets, opts, finish, op, prescale
        )

    def _counts(self, what: str, tensor: Tensor, splits: Sequence[int]) -> list[int]:
        """Elements for each rank, by rows for each rank."""
        count = tensor.shape[0] if tensor.dim() > 0 else 1
        if not splits:
            if count % self._size != 0:
                raise InvalidArgumentError(
                    f"the {what}'s {count} rows do not divide among {self._size} ranks; give the "
                    "split sizes"
                )
            splits = [count // self._size] * self._size
        if len(splits) != self._size or sum(splits) != count or min(splits) < 0:
            raise InvalidArgumentError(
                f"{what} split sizes {list(splits)} do not divide {count} rows among {self._size} "
                "ranks"
            )
        row = tensor.numel() // count if count > 0 else 0
        return [rows_of_rank * row for rows_of_rank in splits]

    def _exchange(
        self,
        sent: Tensor,
        send_counts: list[int],
        counts: list[int],
        results: Tensors,
        store: Callable[[Tensor], None],
        opts: Any,
    ) -> Work:
        """alltoall of elements. `store` gets the received elements, which must be `counts`."""
        if len(send_counts) != self._size or len(counts) != self._size:
            raise InvalidArgumentError(f"one tensor for each of {self._size} ranks is needed")
        used = elements(sent).reshape(-1)
        scale = used.numel() // sent.numel() if sent.numel() > 0 else 1

        def finish(operation: Any) -> None:
            for rank, (came, count) in enumerate(zip(operation.recv_splits, counts)):
                if came != count * scale:
                    raise MismatchError(
                        f"alltoall: rank {rank} sent {came // scale} elements, but this rank "
                        f"expects {count} from it"
                    )
            store(adopt(operation, sent))

        splits = [count * scale for count in send_counts]
        return self._start(
            kinds.ALLTOALL, [view(used)], [None], used, results, opts, finish, splits=splits
        )


def reduction_of(reduce_op: Any) -> tuple[int, float]:
    """The core's number of a reduce operation, and the factor of inputs."""
    op = _OPS[getattr(reduce_op, "op", reduce_op)]
    if op == _SCALED_SUM:
        return reduce_ops.Sum, _factor(reduce_op)
    return op, 1.0


def _factor(reduce_op: Any) -> float:
    """The factor of a scaled sum; before torch 2.13 only its pickled state has it."""
    if hasattr(reduce_op, "factor"):
        return float(reduce_op.factor)
    return float(reduce_op.__getstate__()[1])


def _is_sum(op: int) -> bool:
    return op in (reduce_ops.Sum, reduce_ops.Average)


def create_group(options: Any, backend_options: Any) -> RondeProcessGroup:
    """Makes the process group that torch.distributed asks for; collective over its ranks."""
    _check_no_options(backend_options)
    _converted.install(RondeProcessGroup)
    ranks = list(options.global_ranks_in_group)
    if not ranks:  # the default group
        rank, ranks = options.group_rank, list(range(options.group_size))
    else:
        rank = dist.get_rank()
        if ranks != sorted(ranks):
            raise UnsupportedError(
                f"new_group: the ranks {ranks} are not ascending, which the backend ronde needs"
            )
    size = dist.get_world_size() if dist.is_initialized() else len(ranks)
    everyone = len(ranks) == size
    membership = _membership.enter(options.store, rank, size, options.timeout, everyone)
    return _made(options, ranks, membership)


def _check_no_options(options: Any) -> None:
    if options is not None:
        raise InvalidArgumentError("the backend ronde takes no pg_options")


def _made(options: Any, ranks: list[int], membership: _membership.Membership) -> RondeProcessGroup:
    """A group that takes over one use of `membership`."""
    try:
        return RondeProcessGroup(options, ranks, membership)
    except BaseException:
        membership.leave()
        raise
