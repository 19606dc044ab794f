"""The optimizer that reduces gradients to shards, updates its own, and returns parameters."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._calls.handle import Handle
from ronde._calls.reduce_ops import Average, Max, Sum
from ronde._codecs import wire_of
from ronde._collectives.calls import Call
from ronde._collectives.objects import allgather_object
from ronde._compression.choice import resolved
from ronde._compression.rules import is_ruled
from ronde._errors import DuplicateNameError, Error, InvalidArgumentError, UnsupportedError
from ronde._snapshots.nested import copied
from ronde._training.gradients import GradientOptions
from ronde._training.owners import owners
from ronde.torch._collectives.allreduce import allreduce_
from ronde.torch._optimizers.averaging import AveragingOptimizer, all_optimizers
from ronde.torch._optimizers.flat import flat_runs
from ronde.torch._optimizers.gradients import (
    Bucket,
    Gradient,
    Parameter,
    compression_of,
    end_leftovers,
    hook,
    make_buckets,
)
from ronde.torch._sharded import state as states
from ronde.torch._sharded.buckets import Members, OwnedBucket, Piece, ShardBucket, Spaces, by_owner
from ronde.torch._sharded.differences import Arriving
from ronde.torch._sharded.forward import Returning
from ronde.torch._sharded.gradient import ShardedGradient
from ronde.torch._sharded.kinds import costs
from ronde.torch.compression import Compression

_KINDS = ("optimizer", "gradients")


class ShardedOptimizer(AveragingOptimizer):
    """Mixed into the class of the user's optimizer; see DistributedOptimizer(shard=...).

    In its step the groups have this rank's pieces instead of the parameters, whose state is by
    pieces, too.
    """

    _buckets: list[ShardBucket]  # type: ignore[assignment]

    def _shard(self, shard: str, way: str, model: torch.nn.Module | None) -> None:
        """Called before _distribute(), with what check_sharded() allows. way: way_to_shard()."""
        self._way = way
        self._spaces = Spaces(few=shard == "gradients")
        self._returning = Returning(model)
        weakref.finalize(self, self._returning.end_quietly).atexit = False
        self._layout: list[states.Named] = []
        self._piece_of: dict[Parameter, Piece] = {}  # this rank's
        self._norms: dict[float, dict[Parameter, torch.Tensor]] = {}
        self._whole: Any = None  # the state of the last commit of an elastic job
        self._lost = ""  # why there is no state any more
        self._agreed = False  # on that, with all ranks of this epoch: those that are new lost none
        mine = set(self._parameters())
        for other in list(all_optimizers):
            if isinstance(other, ShardedOptimizer) and mine.intersection(other._parameters()):
                other.wait_for_parameters()

    def set_weight(self, weight: float) -> None:
        """Raises InvalidArgumentError: sharded gradients have no weights."""
        raise InvalidArgumentError(f"weight={weight}: sharded gradients have no weights")

    # Buckets.

    def _prepare(self, parameters: list[Parameter]) -> None:
        if self._layout:
            self._unshard()
        self._spaces = Spaces(self._spaces.few)
        self._members = self._members_now()
        super()._prepare(parameters)
        if self._communicates:
            self._note_buckets()

    def _bucketed(self, gradients: list[Gradient], groups: Any) -> list[Bucket]:
        if not self._communicates:
            return super()._bucketed(gradients, groups)
        changed = [g for g in gradients if g.look() or not g.hooks]
        buckets: list[Bucket] = [
            self._made(run, owner, wire)
            for owner, part in self._parts(gradients)
            for wire, alike in by_codec(part, self._compression)
            for run in flat_runs(make_buckets(alike, groups), bool(groups))
        ]
        for gradient in changed:
            gradient.release()
            gradient.hooks.append(
                hook(gradient, self, ShardedOptimizer._on_pass, ShardedOptimizer._on_count)
            )
        self._prioritize(buckets)
        return buckets

    def _parts(self, gradients: list[Gradient]) -> list[tuple[int | None, list[Gradient]]]:
        """The gradients by the places of their owners; None: each rank owns a part of all."""
        if self._way == "elements":
            return [(None, gradients)]
        work = costs(self, [gradient.parameter for gradient in gradients])
        chosen = owners(work, self.process_set.size() or 1)
        return list(by_owner(gradients, chosen).items())

    def _made(self, gradients: list[Gradient], owner: int | None, wire: str) -> ShardBucket:
        members = self._members
        assert members is not None
        if owner is None:
            return ShardBucket(gradients, members, self._spaces, self, wire)
        return OwnedBucket(gradients, members, self._spaces, self, owner)

    def _add_new_ones(self) -> None:
        before = len(self._buckets)
        super()._add_new_ones()
        if len(self._buckets) > before:
            self._note_buckets()

    def _begin_epoch(self) -> None:
        """Shards among the ranks that there are now, from the last commit's state."""
        before = self._members
        super()._begin_epoch()
        self._returning.forget()
        self._norms.clear()
        self._agreed = False
        self._drop_sharded()
        if self._taken_over_by or not self._communicates:
            return
        now = self._members_now()
        if self._whole is None and before in (None, now):
            return
        has_state, self._layout = bool(self.state), []
        self.state.clear()
        if self._whole is not None:
            super().load_state_dict(self._whole)
        elif has_state and before is not None:
            self._lost = (
                f"the optimizer's shards of {len(before.ranks)} ranks are lost, as the job has "
                "other ranks now and committed no state; load_state_dict() gives it one"
            )
        self._prepare(self._parameters())

    def _members_now(self) -> Members | None:
        """The ranks that share the work; None: this rank is alone."""
        if not self._communicates:
            return None
        return Members(list(self.process_set.ranks), self.process_set.rank() or 0)

    def hold_whole(self) -> Any:
        """The whole state, which the next epoch of an elastic job starts from. Collective."""
        self._whole = self.state_dict()
        return self._whole

    def put_whole(self, whole: Any) -> None:
        """Goes on from a whole state, which is kept for the next epoch."""
        self._whole = whole
        self.load_state_dict(whole)

    def _let_go(self, site: str) -> None:
        self._returning.end()
        self._drop_sharded()
        self._synchronized = False
        super()._let_go(site)

    def _look_for_changes(self) -> None:
        watched = self._watched
        if not (watched.are(self.param_groups) and watched.are_unchanged()):
            self._prepare(self._parameters())

    def _pieces(self) -> list[Piece]:
        return list(self._piece_of.values())

    def _note_buckets(self) -> None:
        """Buckets were made."""
        self._layout = [states.Named.of(self._parameter_names[p], p) for p in self._parameters()]
        self._piece_of = {one.parameter: one for b in self._buckets for one in b.pieces}
        self._take_state()
        self._returning.use(self._buckets)

    # Gradients.

    def _submit(self, bucket: Any) -> None:
        if not self._communicates:
            return super()._submit(bucket)
        end_leftovers()
        if not self._under_way:
            self._norms.clear()
            self._returning.wait()
        self._under_way = True
        self._returning.note_gradients(bucket)
        call = self._call_of(bucket)
        bucket.handle = self._after_namesakes(
            bucket.name, lambda: bucket.reduce(self._sparse_as_dense, call)
        )

    def _call_of(self, bucket: Any) -> Call:
        name = f"the shards of {bucket.name}"
        wire = bucket.wire or "none"
        return super()._call_of(bucket)._replace(name=name, compression=wire, weight=None)

    def _finish(self, bucket: Any, awaited: Any) -> None:
        if not self._communicates:
            return super()._finish(bucket, awaited)
        handle, bucket.handle = bucket.handle, None
        bucket.count_anew()
        if handle is not None:
            handle.wait(together=awaited)
            self._findings.note(handle, bucket)
            bucket.show()

    def synchronize(self) -> None:
        """Waits until all gradients are reduced to shards; nothing if no backward came since.

        Raises InvalidArgumentError for gradients that a step has used already.
        """
        if self._synchronized and not self._in_backward:
            return
        super().synchronize()
        if self._communicates and not self._agreed:
            self._agreed = True
            name = f"{self._title()}: lost shards"
            self._lost = max(allgather_object(self._lost, name, self.process_set))

    def _refuse_if_lost(self) -> None:
        if self._lost:
            self._synchronized = True  # load_state_dict() and step() may follow
            raise InvalidArgumentError(self._lost)

    def _exchange(self) -> list[Error]:
        problems = super()._exchange()
        self._returning.learn()
        return problems

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """As the wrapped optimizer's; an error while gradients are in flight."""
        if not self._under_way:
            self._drop_sharded()
        super().zero_grad(*arguments, **options)
        self._synchronized = False

    def _drop_sharded(self) -> None:
        for parameter in self._parameters():
            if isinstance(parameter.grad, ShardedGradient):
                parameter.grad = None

    def parts_of(self, parameters: Sequence[Parameter]) -> list[torch.Tensor]:
        """This rank's averaged gradients of these parameters, about to be changed."""
        self._refuse_in_flight()
        self._norms.clear()
        pieces = [self._piece_of[p] for p in parameters if p in self._piece_of]
        return [piece.gradient for piece in pieces if piece.values.grad is not None]

    def norms(self, order: float) -> dict[Parameter, torch.Tensor]:
        """The norm of each whole gradient. Collective, for the first call after a change."""
        self._refuse_in_flight()
        if order not in self._norms:
            self._norms[order] = self._made_norms(order)
        return self._norms[order]

    def _made_norms(self, order: float) -> dict[Parameter, torch.Tensor]:
        parameters, is_max = self._parameters(), order == float("inf")
        numbers = {parameter: number for number, parameter in enumerate(parameters)}
        sums = torch.zeros(len(parameters), dtype=torch.float64)
        for piece in self._pieces():
            if piece.values.grad is not None and piece.gradient.numel():
                values = piece.gradient.abs() if piece.gradient.is_complex() else piece.gradient
                norm = torch.linalg.vector_norm(values, order, dtype=torch.float64)
                sums[numbers[piece.parameter]] = norm if is_max else norm**order
        name, op = f"{self._title()}: norms", Max if is_max else Sum
        allreduce_(sums, name=name, op=op, process_set=self.process_set)
        norms = sums if is_max else sums ** (1.0 / order)
        return dict(zip(parameters, norms.unbind()))

    def agree_on(self, found: torch.Tensor) -> None:
        """Makes a flag of a GradScaler the same on all ranks. Collective."""
        name = f"{self._title()}: found_inf"
        allreduce_(found, name=name, op=Max, process_set=self.process_set)

    def clip_grad_norm_(
        self, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
    ) -> torch.Tensor:
        """Scales the averaged gradients so that their norm is at most `max_norm`. Collective.

        Returns the norm before. It synchronizes if synchronize() was not called.
        """
        self.synchronize()
        return torch.nn.utils.clip_grad_norm_(
            self._parameters(), max_norm, norm_type, error_if_nonfinite
        )

    def _refuse_in_flight(self) -> None:
        if self._under_way:
            raise InvalidArgumentError(
                "gradients are in flight: call optimizer.synchronize() before clipping or "
                "unscaling them"
            )

    def _title(self) -> str:
        return next(iter(self._parameter_names.values()), "nothing")

    # The step.

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduces gradients, updates this rank's part, and returns parameters to all ranks.

        After synchronize() or clip_grad_norm_() it only updates.
        """
        done = self._synchronized and not self._in_backward
        if closure is None and done and self._should_synchronize:
            with self.skip_synchronize():
                return super().step()
        return super().step(closure)

    step.hooked = True  # type: ignore[attr-defined]

    def _step_inside(self, closure: Callable[[], Any] | None) -> Any:
        if not self._communicates:
            return super()._step_inside(closure)
        if closure is None:
            self._refuse_if_lost()
        with self._as_pieces() as whole:

            def evaluated() -> Any:
                with whole():
                    assert closure is not None
                    loss = closure()
                self._refuse_if_lost()
                return loss

            step = super(AveragingOptimizer, self).step
            result = step(evaluated if closure is not None else None)
        self._synchronized = False
        self._return_parameters()
        self._replicas.after_step(self._replica_facts)
        self._mark_pass("data and forward")
        return result

    @contextlib.contextmanager
    def _as_pieces(self) -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
        """In this context groups have the pieces. The result's contexts end that for a while."""
        whole: list[list[torch.Tensor]] = []

        def enter() -> None:
            """The pieces as they are now: a closure may have changed groups and parameters."""
            whole[:] = [group["params"] for group in self.param_groups]
            pieces = {piece.parameter: piece.values for piece in self._pieces()}
            for group in self.param_groups:
                group["params"] = [pieces[p] for p in group["params"] if p in pieces]

        def leave() -> None:
            for group, params in zip(self.param_groups, whole):
                group["params"] = params

        @contextlib.contextmanager
        def as_wholes() -> Iterator[None]:
            leave()
            try:
                yield
                self._attach()
            finally:
                enter()

        self._attach()
        enter()
        try:
            yield as_wholes
        finally:
            leave()

    def _attach(self) -> None:
        """Takes over the values of parameters that were given other data."""
        self._returning.wait()
        for bucket in self._buckets:
            bucket.begin_step()

    def _return_parameters(self) -> None:
        for bucket in self._returning.in_order(self._buckets):
            call = Call(
                f"the values of {bucket.name}",
                self.process_set,
                priority=bucket.priority,
                site=self._call_site,
                compression=bucket.wire or "none",
            )
            self._returning.note(bucket, _after_others(self, bucket, call))
        if not self._returning.overlaps or self._replicas.is_on():
            self._returning.wait()

    def _replica_facts(self, extra: Any = None) -> Iterator[Any]:
        self._returning.wait()
        return super()._replica_facts(extra)

    def wait_for_parameters(self) -> None:
        """Waits until the parameters of the last step are complete.

        Needed with model=..., before parameters are used other than by modules of the model.
        """
        self._returning.wait()

    # State.

    def _own_shard(self) -> dict[str, Any]:
        place = self.process_set.rank() or 0, self.process_set.size() or 1
        return states.make_shard(self._layout, self._pieces(), self.state, place)

    def _gathered(self) -> dict[Parameter, states.State]:
        """The whole state of each parameter. Collective."""
        name = f"{self._title()}: the state of the sharded optimizer, which all ranks must ask for"
        shards = allgather_object(self._own_shard(), name, self.process_set)
        merged = states.merge_sharded_states(shards)["state"]
        parameters = dict(enumerate(one.parameter for one in self._layout))
        return {parameters.get(key, key): values for key, values in merged.items()}

    def _unshard(self) -> None:
        """Gives this rank the state of all. Collective."""
        if not self._layout:
            return
        self._returning.wait()
        whole = self._gathered()
        self.state.clear()
        self.state.update(whole)
        self._layout, self._piece_of = [], {}

    def _take_state(self) -> None:
        """Keeps this rank's part of the state of sharded parameters, and all that is not theirs."""
        others = set(self._parameters()).difference(self._gradients)
        kept = {
            key: value
            for key, value in self.state.items()
            if not isinstance(key, torch.Tensor) or key in others
        }
        for piece in self._pieces():
            own, whole = self.state.get(piece.values), self.state.get(piece.parameter)
            if own or whole:
                kept[piece.values] = own or states.taken(piece, states.part_of(piece, whole or {}))
        self.state.clear()
        self.state.update(kept)

    @contextlib.contextmanager
    def _with_state(self, state: Mapping[Any, Any]) -> Iterator[None]:
        held, self.state = self.state, state  # type: ignore[assignment]
        try:
            yield
        finally:
            self.state = held

    def state_dict(self, sharded: bool = False) -> dict[str, Any]:
        """The whole state, in the form of the plain optimizer's. Collective.

        sharded: this rank's part alone, without communication. load_state_dict() takes it on the
        same rank of as many; merge_sharded_states() makes the whole of those of all ranks.
        """
        if not self._communicates:
            return super().state_dict()
        self._returning.wait()
        if not sharded:
            with self._with_state(self._gathered()):
                return super().state_dict()
        with self._with_state({}):
            groups = super().state_dict()
        return {**groups, **self._own_shard()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Loads a whole state, saved with any number of ranks, or this rank's shard.

        A shard is collective: raises MismatchError on all ranks if one has another rank's, or that
        of other compression= or shard_by=.
        """
        self._lost = ""
        if not self._communicates:
            super().load_state_dict(dict(state_dict))
            return
        self._returning.wait()
        if not states.is_shard(state_dict):
            super().load_state_dict(dict(state_dict))
            self._take_state()
            return
        name = f"{self._title()}: load_state_dict"
        problem = states.check_fits(state_dict, self._own_shard())
        states.raise_first(allgather_object(problem, name, self.process_set))
        super().load_state_dict({**state_dict, "state": {}})
        self.state.clear()
        keys = dict(enumerate(self._key_of(one.parameter) for one in self._layout))
        pieces = {piece.values: piece for piece in self._pieces()}
        for number, values in state_dict["state"].items():
            key, held = keys.get(number, number), copied(values)
            self.state[key] = states.taken(pieces[key], held) if key in pieces else held

    def _key_of(self, parameter: Parameter) -> torch.Tensor:
        piece = self._piece_of.get(parameter)
        return piece.values if piece is not None else parameter

    def memory_bytes(self) -> dict[str, int]:
        """The memory of this rank: "parameters", "gradients" that are sent, "shard", "state".

        "exact": of the values that compressed parameters follow.
        """
        self._refuse_if_taken_over()
        shards = [b for b in self._buckets if isinstance(b, ShardBucket)]
        tensors = [v for s in self.state.values() for v in s.values()]
        held = [v for v in tensors if isinstance(v, torch.Tensor)]
        return {
            "parameters": _bytes(b.flat for b in shards),
            "gradients": self._spaces.bytes(),
            "shard": _bytes(b.summed for b in shards),
            "state": _bytes(held),
            "exact": sum(b.differences.bytes() for b in shards if b.differences is not None),
        }


def _after_others(optimizer: Any, bucket: ShardBucket, call: Call) -> Handle[Any] | Arriving:
    """Starts to return parameters; if others of these names are under way, after those."""
    try:
        return bucket.gather(call)
    except DuplicateNameError:
        for other in list(all_optimizers):
            if isinstance(other, ShardedOptimizer) and other is not optimizer:
                other.wait_for_parameters()
        return bucket.gather(call)


def _bytes(tensors: Any) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)


def by_codec(gradients: list[Gradient], compression: Any) -> list[tuple[str, list[Gradient]]]:
    """The gradients by the texts of their codecs; empty texts: none.

    Raises InvalidArgumentError for compressors that reduce-scatters do not know.
    """
    alike: dict[str, list[Gradient]] = {}
    for gradient in gradients:
        one = compression_of(gradient.name, gradient.parameter, compression)
        alike.setdefault(_sharded_wire(one), []).append(gradient)
    return list(alike.items())


def _sharded_wire(compression: Any) -> str:
    wire = wire_of(compression)
    if wire:
        _core.check_codec("reduce_scatter", wire)
    elif resolved(compression) is not Compression.none:
        raise InvalidArgumentError(
            f"compression={shown(compression)}: sharded gradients take codecs of Ronde alone; "
            "allowed: fp16, bf16, int8, int4, auto, none"
        )
    return wire


def check_sharded(
    shard: str,
    way: str,
    model: torch.nn.Module | None,
    options: GradientOptions,
    flat_gradients: bool,
    weight: float | None,
) -> None:
    """Raises InvalidArgumentError for options that sharded gradients do not have."""
    if shard not in _KINDS:
        raise InvalidArgumentError(
            f'shard={shown(shard)}; allowed: "optimizer", "gradients", or None'
        )
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        raise UnsupportedError(f"shard= needs torch 2.1, not {torch.__version__}")
    if model is not None and not isinstance(model, torch.nn.Module):
        raise InvalidArgumentError(f"model={shown(model)}; allowed: a torch.nn.Module")
    if flat_gradients:
        raise InvalidArgumentError("flat_gradients=True: sharded gradients are flat by themselves")
    if weight is not None:
        raise InvalidArgumentError(f"weight={weight}: sharded gradients have no weights")
    if options.op not in (Average, Sum):
        raise InvalidArgumentError("shard= needs op=Average or op=Sum")
    if way == "tensors" and resolved(options.compression) is not Compression.none:
        raise UnsupportedError(
            f"compression={shown(options.compression)}: an optimizer that is sharded by whole "
            "tensors sends them as they are; allowed: Compression.none"
        )
    if not is_ruled(options.compression):
        _sharded_wire(options.compression)
