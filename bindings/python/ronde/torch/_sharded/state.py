"""The state of a sharded optimizer: the shards of ranks, and the whole that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from ronde._calls.argument_checks import shown
from ronde._errors import InvalidArgumentError, MismatchError
from ronde.torch._sharded.buckets import Piece
from ronde.torch._sharded.differences import MASTER, SHOWN

KEY = "ronde_shard"
# Numbers of an update that optimizers keep as tensors without dimensions.
_NUMBERS = ("step", "eta", "mu", "mu_product")

State = dict[str, Any]


class Named(NamedTuple):
    """A parameter as it was when its bucket was made; it may have another layout now."""

    name: str
    parameter: torch.Tensor
    form: tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides

    @classmethod
    def of(cls, name: str, parameter: torch.Tensor) -> Named:
        """As it is now."""
        if is_lazy(parameter):
            return cls(name, parameter, ((), ()))
        return cls(name, parameter, (tuple(parameter.shape), _dense_strides(parameter)))


def make_shard(
    named: Sequence[Named],
    pieces: Sequence[Piece],
    state: Mapping[Any, State],
    place: tuple[int, int],
) -> dict[str, Any]:
    """What one rank has. named: all parameters of the optimizer. place: (rank, ranks).

    State that is not of pieces is the same on all ranks: of frozen parameters, by their numbers,
    and of other keys.
    """
    numbers = {one.parameter: number for number, one in enumerate(named)}
    own = {numbers[one.parameter]: one for one in pieces if one.parameter in numbers}
    kept = {n: saved for n, one in own.items() if (saved := _of_piece(one, state))}
    rest = {
        numbers.get(key, key): value
        for key, value in state.items()
        if (key in numbers and value) or not isinstance(key, torch.Tensor)
    }
    return {
        KEY: {
            "rank": place[0],
            "ranks": place[1],
            "names": [one.name for one in named],
            "forms": [one.form for one in named],
            "parts": {n: (one.start, one.stop, one.whole) for n, one in own.items()},
        },
        "state": {**kept, **rest},
    }


def _of_piece(piece: Piece, state: Mapping[Any, State]) -> State:
    """The state of a piece, with its exact values if the parameter follows them."""
    own = dict(state.get(piece.values) or {})
    if piece.exact is None or not (own or piece.parameter.requires_grad):
        return own
    return {**own, **piece.exact.saved()}


def taken(piece: Piece, saved: State) -> State:
    """The optimizer's own part of a saved state. Exact values in it go to the piece."""
    if piece.exact is not None:
        piece.exact.restore(saved)
    return {key: value for key, value in saved.items() if key not in (MASTER, SHOWN)}


def is_shard(saved: Any) -> bool:
    """True for the state of one rank alone."""
    return isinstance(saved, Mapping) and KEY in saved


def merge_sharded_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The whole state_dict(), from those that all ranks got from state_dict(sharded=True).

    It loads on any number of ranks, and into the plain optimizer. Not collective: any process may
    merge files. Raises InvalidArgumentError where a shard is lost or belongs to another job.
    """
    states = list(states)
    _check_complete(states)
    forms = states[0][KEY]["forms"]
    merged: dict[int, State] = {}
    for shard in sorted(states, key=lambda one: one[KEY]["rank"]):
        for number, values in shard["state"].items():
            part = shard[KEY]["parts"].get(number)
            if part is None:
                merged.setdefault(number, values)
            else:
                _add(merged.setdefault(number, {}), values, part, forms[number])
    whole = {name: value for name, value in states[0].items() if name != KEY}
    return {**whole, "state": dict(sorted(merged.items(), key=_place))}


def _place(item: tuple[Any, Any]) -> float:
    """Parameters come in order, then other keys."""
    return item[0] if isinstance(item[0], int) else math.inf


def _check_complete(states: list[Mapping[str, Any]]) -> None:
    for state in states:
        if not is_shard(state):
            raise InvalidArgumentError(
                f"expected results of state_dict(sharded=True), not {shown(type(state).__name__)}"
            )
    if not states:
        raise InvalidArgumentError("no sharded states were given")
    first = states[0][KEY]
    found = sorted(one[KEY]["rank"] for one in states)
    missing = sorted(set(range(first["ranks"])) - set(found))
    if missing:
        raise InvalidArgumentError(
            f"the shard of rank {missing[0]} is missing: the state was saved by {first['ranks']} "
            f"ranks, and those of {found} were given"
        )
    for one in states[1:]:
        if [one[KEY][key] for key in ("ranks", "names")] != [first["ranks"], first["names"]]:
            raise InvalidArgumentError(
                f"the shards of ranks {first['rank']} and {one[KEY]['rank']} are of different "
                "optimizers, or of jobs of different sizes"
            )
    if len(found) != first["ranks"]:
        raise InvalidArgumentError(f"the shards are of ranks {found}: one was given twice")


def _add(into: State, values: State, part: tuple[int, int, bool], form: Any) -> None:
    """Adds a part of a parameter's state."""
    start, stop, whole = part
    shape, strides = form
    for key, value in values.items():
        if whole or not isinstance(value, torch.Tensor) or value.shape != (stop - start,):
            into.setdefault(key, value.clone() if isinstance(value, torch.Tensor) else value)
            continue
        if key not in into:
            into[key] = torch.empty_strided(shape, strides, dtype=value.dtype)
        in_memory_order(into[key])[start:stop].copy_(value)


def part_of(piece: Piece, state: State) -> State:
    """The piece's part of a parameter's whole state."""
    parameter = piece.parameter
    return {key: _cut(key, value, piece, parameter) for key, value in state.items()}


def _cut(key: str, value: Any, piece: Piece, parameter: torch.Tensor) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    number = not parameter.dim() and key in _NUMBERS
    if piece.whole or number or value.shape != parameter.shape:
        return value.detach().clone()
    laid_out = torch.empty_strided(value.shape, _dense_strides(parameter), dtype=value.dtype)
    laid_out.copy_(value.detach())
    return in_memory_order(laid_out)[piece.start : piece.stop].clone()


def in_memory_order(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a dense tensor as they follow each other in memory."""
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def _dense_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(torch.empty_like(tensor, device="meta").stride())


def check_fits(saved: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """A problem of loading a shard on this rank; empty if there is none."""
    there, here = saved[KEY], own[KEY]
    if there["ranks"] != here["ranks"]:
        return (
            f"the state was saved by {there['ranks']} ranks, but {here['ranks']} load it: "
            "merge_sharded_states() makes one of all of its shards that any number can load"
        )
    if there["rank"] != here["rank"]:
        return f"the shard of rank {there['rank']} was given to rank {here['rank']}"
    if there["names"] != here["names"]:
        pairs = zip(there["names"], here["names"])
        odd = next((pair for pair in pairs if pair[0] != pair[1]), None)
        return (
            f"the state has the parameter {odd[0]} in the place of {odd[1]}"
            if odd
            else f"the state has {len(there['names'])} parameters, but this optimizer "
            f"{len(here['names'])}"
        )
    return _other_part(saved, here)


def _other_part(saved: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """A problem: the shard has another part of a parameter than this rank updates."""
    parts = saved[KEY]["parts"]
    for number in saved["state"]:
        there, own = parts.get(number), here["parts"].get(number)
        if there != own:
            return (
                f"the shard has {_elements(there)} of {here['names'][number]}, but this rank "
                f"updates {_elements(own)}, as compression= or shard_by= is another: "
                "merge_sharded_states() makes a state of all shards that any optimizer can load"
            )
    return ""


def _elements(part: tuple[int, int, bool] | None) -> str:
    if part is None:
        return "no part"
    start, stop, whole = part
    return "the whole tensor" if whole else f"elements {start} to {stop}"


def raise_first(problems: Sequence[str]) -> None:
    """Raises MismatchError, on all ranks alike, for the first problem of a rank."""
    for place, problem in enumerate(problems):
        if problem:
            raise MismatchError(f"loading a sharded state: on rank {place} of the set {problem}")
