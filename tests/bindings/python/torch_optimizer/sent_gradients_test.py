"""SentGradients: gradients that the core reads at once, and what it leaves to Python."""

from __future__ import annotations

import pytest
import torch
from ronde import _core

FLOAT32 = _core.dtypes()["float32"]
EXCHANGES = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


def parameters(count: int = 3) -> list[torch.nn.Parameter]:
    made = [torch.nn.Parameter(torch.zeros(2, place + 1)) for place in range(count)]
    for place, one in enumerate(made):
        one.grad = torch.full_like(one, float(place))
    return made


def reader(made: list[torch.nn.Parameter]) -> _core.SentGradients:
    return _core.SentGradients(made, [FLOAT32] * len(made))


@pytest.mark.skipif(not EXCHANGES, reason="PyTorch before 2.10 has no C exchange")
def test_plain_gradients_are_taken_and_unchanged_ones_are_not_named():
    made, owners = parameters(), _core.Owners()
    sent = reader(made)
    assert sent.take(owners, "bucket")
    assert all(a is b.grad for a, b in zip(sent.tensors(), made))
    assert [owners.get(one.grad.data_ptr()) for one in made] == ["bucket"] * 3
    assert sent.changed() == []


@pytest.mark.skipif(not EXCHANGES, reason="PyTorch before 2.10 has no C exchange")
def test_written_moved_and_replaced_gradients_are_named():
    made = parameters(4)
    sent = reader(made)
    assert sent.take(_core.Owners(), "bucket")
    addresses = [one.grad.data_ptr() for one in made]
    made[0].grad.add_(1)
    made[1].grad.data = torch.ones(2, 2)
    made[3].grad = None
    assert [(place, address) for place, _, address in sent.changed()] == [
        (place, addresses[place]) for place in (0, 1, 3)
    ]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: setattr(made[1], "grad", None),
        lambda made: setattr(made[1], "grad", torch.ones(2, 2).to_sparse()),
        lambda made: setattr(made[1], "grad", torch.ones(2, 4)[:, ::2]),
        lambda made: setattr(made[1], "grad", torch._neg_view(torch.ones(2, 2))),
    ],
    ids=["none", "sparse", "strided", "negated"],
)
def test_what_needs_a_closer_look_is_left_alone(spoil):
    made, owners = parameters(), _core.Owners()
    if EXCHANGES:
        assert reader(made).take(_core.Owners(), "bucket")
    spoil(made)
    assert not reader(made).take(owners, "bucket")
    assert owners.get(made[0].grad.data_ptr()) is None


def test_gradients_of_one_memory_are_left_alone():
    made, owners = parameters(2), _core.Owners()
    made[1] = torch.nn.Parameter(torch.zeros(2, 1))
    made[1].grad = made[0].grad.detach()
    assert not reader(made).take(owners, "bucket")
    assert owners.get(made[0].grad.data_ptr()) is None


def test_another_dtype_is_left_alone():
    made = [torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))]
    made[0].grad = torch.ones(2, dtype=torch.float64)
    assert not reader(made).take(_core.Owners(), "bucket")
