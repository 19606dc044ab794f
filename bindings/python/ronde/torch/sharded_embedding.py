"""ShardedEmbedding: a table of embeddings whose rows are dealt over the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from ronde._calls.reduce_ops import Average, Sum
from ronde._errors import InvalidArgumentError, MismatchError, UnsupportedError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._membership import epochs
from ronde.torch._collectives.exchange import allgather, alltoall

__all__ = ["ShardedEmbedding"]

_SHARD = "ronde_shard"
_made: Counter[int | None] = Counter()  # by process set, for names


def is_shard(value: Any) -> bool:
    """True for values of a state_dict, and parameters, that each rank has a part of."""
    return getattr(value, _SHARD, False) or (isinstance(value, dict) and _SHARD in value)


class _ShardParameter(nn.Parameter):
    """Stays a shard in copies and in pickles."""

    ronde_shard = True

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _ShardParameter, (self.data, self.requires_grad)


class _Route(NamedTuple):
    """The way of one lookup's rows."""

    name: str
    process_set: ProcessSet
    asked: torch.Tensor  # the rows of this rank that the ranks ask for, by rank
    asked_counts: torch.Tensor
    wanted_counts: torch.Tensor  # the rows that this rank asks each rank for
    places: torch.Tensor  # of each index among the answers
    trained: torch.Tensor  # false for `asked` that is padding
    factor: float  # of the gradient
    sparse: bool


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, route: _Route) -> torch.Tensor:
        ctx.route, ctx.shape = route, weight.shape
        rows = weight.detach()[route.asked]
        answers, _ = alltoall(
            rows, route.asked_counts, f"{route.name}.rows", process_set=route.process_set
        )
        return answers[route.places]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        route: _Route = ctx.route
        width = ctx.shape[1]
        sums = gradient.new_zeros((int(route.wanted_counts.sum()), width))
        sums.index_add_(0, route.places, gradient)
        received, _ = alltoall(
            sums, route.wanted_counts, f"{route.name}.gradients", process_set=route.process_set
        )
        rows, values = route.asked[route.trained], received[route.trained] * route.factor
        if route.sparse:
            return torch.sparse_coo_tensor(rows[None], values, ctx.shape).coalesce(), None
        return gradient.new_zeros(ctx.shape).index_add_(0, rows, values), None


class ShardedEmbedding(nn.Module):
    """torch.nn.Embedding whose row i lies on member i % N alone, of N members of a process set.

    A lookup asks each owner once for each different index; the backward pass sends it the sum of
    the gradients. All members call it equally often in the same order, with any numbers of indices,
    none too. `weight` is this rank's part: an ordinary parameter, with a sparse gradient unless
    sparse=False. Give it an optimizer of its own (SparseAdam, Adagrad, SGD), not a
    DistributedOptimizer. op: Average, as data-parallel training averages losses, or Sum.
    state_dict() has this rank's part as the module's extra state, which broadcast_parameters()
    leaves alone. Without gradients for row padding_idx. In host memory.
    Clip the shared parameters alone: ranks would scale them by different norms with the table's.
    Compute in bfloat16: a GradScaler needs its flag of this rank's part allreduced (Max).
    Raises UnsupportedError in elastic jobs, where a rank's rows would be lost with it.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = True,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws this rank's rows from the normal distribution; that of padding_idx is zero."""
        super().__init__()
        if epochs.available():
            raise UnsupportedError(
                "ShardedEmbedding: an elastic job would lose the rows of a rank that leaves; use "
                "torch.nn.Embedding(sparse=True) there"
            )
        if num_embeddings < 1 or embedding_dim < 1:
            raise InvalidArgumentError(
                f"num_embeddings={num_embeddings}, embedding_dim={embedding_dim}; allowed: 1 and "
                "more"
            )
        if op not in (Average, Sum):
            raise InvalidArgumentError(f"op={op}; allowed: Average, Sum")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = self._row_of_padding(padding_idx)
        self.sparse, self.op, self.process_set = sparse, op, process_set
        self._size, self._place = process_set.size() or 1, process_set.rank() or 0
        set_id = process_set.process_set_id
        _made[set_id] += 1
        self._name = f"sharded_embedding.{_made[set_id]}"
        weight = torch.empty((self._rows_of(self._place), embedding_dim), dtype=dtype)
        self.weight = _ShardParameter(weight)
        self.reset_parameters()

    def _row_of_padding(self, padding_idx: int | None) -> int | None:
        rows = self.num_embeddings
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise InvalidArgumentError(
                f"padding_idx={padding_idx}; allowed: {-rows} to {rows - 1}, or None"
            )
        return None if padding_idx is None else padding_idx % rows

    def _rows_of(self, member: int) -> int:
        return len(range(member, self.num_embeddings, self._size))

    def reset_parameters(self) -> None:
        """Draws the rows anew, others on each rank, from torch's random numbers."""
        seed = int(torch.randint(2**62, ())) + self._place
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.weight.normal_(generator=generator)
            padding = self.padding_idx
            if padding is not None and padding % self._size == self._place:
                self.weight[padding // self._size] = 0

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        """The rows of these indices: shape (*indices.shape, embedding_dim). Collective.

        Raises InvalidArgumentError on all ranks where one gives an index out of range.
        """
        route = self._route(indices.reshape(-1).long())
        rows = _Lookup.apply(self.weight, route)  # type: ignore[no-untyped-call]
        return rows.reshape(*indices.shape, self.embedding_dim)  # type: ignore[no-any-return]

    def _route(self, indices: torch.Tensor) -> _Route:
        self._check_members()
        different, inverse = torch.unique(indices, return_inverse=True)
        owners = different.remainder(self._size)
        order = torch.sort(owners, stable=True)[1]
        counts = torch.bincount(owners, minlength=self._size)
        sent = different[order].div(self._size, rounding_mode="floor")
        wrong = indices[(indices < 0) | (indices >= self.num_embeddings)]
        if len(wrong):  # tells all ranks: no row is negative
            counts = torch.full((self._size,), 2)
            sent = torch.tensor([-1, int(wrong[0])]).repeat(self._size)
        asked, asked_counts = alltoall(
            sent, counts, f"{self._name}.indices", process_set=self.process_set
        )
        self._check_asked(asked, asked_counts)
        padding = -1 if self.padding_idx is None else self.padding_idx
        trained = asked * self._size + self._place != padding
        return _Route(
            self._name,
            self.process_set,
            asked,
            asked_counts,
            counts,
            torch.argsort(order)[inverse],
            trained,
            1 / self._size if self.op == Average else 1.0,
            self.sparse,
        )

    def _check_members(self) -> None:
        if (self.process_set.size() or 1) != self._size:
            raise UnsupportedError(
                f"ShardedEmbedding: the table lies on {self._size} ranks, but {self.process_set} "
                f"has {self.process_set.size()}; make it again and load_table()"
            )

    def _check_asked(self, asked: torch.Tensor, counts: torch.Tensor) -> None:
        wrong = (asked < 0).nonzero()
        if not len(wrong):
            return
        place = int(wrong[0])
        member = int((counts.cumsum(0) <= place).sum())
        raise InvalidArgumentError(
            f"ShardedEmbedding: member {member} gave index {int(asked[place + 1])}; allowed: 0 to "
            f"{self.num_embeddings - 1}"
        )

    def table(self) -> torch.Tensor:
        """The whole table, on every rank. Collective."""
        rows = allgather(self.weight.detach(), f"{self._name}.table", process_set=self.process_set)
        counts = [self._rows_of(member) for member in range(self._size)]
        return self._interleaved(rows.split(counts))  # type: ignore[no-untyped-call]

    def load_table(self, table: torch.Tensor) -> None:
        """Takes this rank's rows of a whole table, which table() or joined() gives."""
        if table.shape != (self.num_embeddings, self.embedding_dim):
            raise InvalidArgumentError(
                f"load_table(): a table of shape {list(table.shape)}; allowed: "
                f"[{self.num_embeddings}, {self.embedding_dim}]"
            )
        with torch.no_grad():
            self.weight.copy_(table[self._place :: self._size])

    @staticmethod
    def joined(states: Sequence[dict[str, Any]]) -> torch.Tensor:
        """The whole table, of all ranks' extra states (get_extra_state()) in any order."""
        by_place = {state[_SHARD][0]: state for state in states}
        sizes = {state[_SHARD][1] for state in states}
        if len(sizes) != 1 or sorted(by_place) != list(range(min(sizes))):
            raise InvalidArgumentError(
                f"ShardedEmbedding.joined(): parts {sorted(by_place)} of {sorted(sizes)} ranks; "
                "needed: one of each rank of one job"
            )
        return ShardedEmbedding._interleaved(
            [by_place[place]["rows"] for place in range(len(by_place))]
        )

    @staticmethod
    def _interleaved(parts: Sequence[torch.Tensor]) -> torch.Tensor:
        rows = sum(len(part) for part in parts)
        table = parts[0].new_empty((rows, *parts[0].shape[1:]))
        for place, part in enumerate(parts):
            table[place :: len(parts)] = part
        return table

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        del destination[f"{prefix}weight"]

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, *rest: Any
    ) -> None:
        """Loads this rank's part; or, under "weight", a whole table such as nn.Embedding's."""
        whole = state_dict.get(f"{prefix}weight")
        if whole is not None:
            self.load_table(whole)
        mine = [f"{prefix}weight", f"{prefix}_extra_state"]
        others = {key: value for key, value in state_dict.items() if key not in mine}
        found: list[str] = []
        super()._load_from_state_dict(others, prefix, metadata, strict, found, *rest)
        part = state_dict.get(f"{prefix}_extra_state")
        if part is not None:
            self.set_extra_state(part)
        elif whole is None:
            missing.append(f"{prefix}_extra_state")
        missing += [key for key in found if key not in mine]

    def get_extra_state(self) -> dict[str, Any]:
        """This rank's rows, and whose they are."""
        return {_SHARD: (self._place, self._size), "rows": self.weight.detach()}

    def set_extra_state(self, state: Any) -> None:
        """Takes the rows that the same rank of as many saved.

        Raises MismatchError for those of another.
        """
        place, size = state[_SHARD]
        if (place, size) != (self._place, self._size):
            raise MismatchError(
                f"ShardedEmbedding: the state is part {place} of {size}, but this rank has part "
                f"{self._place} of {self._size}; ShardedEmbedding.joined() makes the whole of all "
                "parts, for load_table()"
            )
        with torch.no_grad():
            self.weight.copy_(state["rows"])

    def extra_repr(self) -> str:
        """As torch shows modules."""
        return f"{self.num_embeddings}, {self.embedding_dim}, ranks={self._size}"
