"""Cases for mixtures of experts: uneven alltoalls whose counts only the sender knows."""

import ronde
import ronde.torch as hvd
import torch

KINDS = "ronde_operations_submitted_total"


def operations():
    """The operations that this rank has submitted, by kind."""
    return {name: value for name, value in ronde.metrics().items() if name.startswith(KINDS)}


def case_the_counts_of_an_alltoall_travel_in_the_same_operation():
    counts = torch.arange(hvd.size()) * (hvd.rank() + 1)
    tokens = torch.repeat_interleave(torch.arange(hvd.size()), counts)[:, None] + 10.0 * hvd.rank()
    before = operations()
    mine, received = hvd.alltoall(tokens, counts, name="tokens")
    after = operations()
    assert received.tolist() == [hvd.rank() * (r + 1) for r in range(hvd.size())]
    expected = [10.0 * r + hvd.rank() for r, n in enumerate(received.tolist()) for _ in range(n)]
    assert mine.squeeze(1).tolist() == expected
    changed = {kind: n - before.get(kind, 0) for kind, n in after.items() if n != before.get(kind)}
    assert changed == {f'{KINDS}{{kind="alltoall"}}': 1}


def case_gradients_flow_back_through_experts():
    size, rank = hvd.size(), hvd.rank()
    torch.manual_seed(rank)
    tokens = torch.rand((6, 2), requires_grad=True)
    chosen = torch.arange(6) * (rank + 1) % size
    order = chosen.argsort()
    mine, received = hvd.alltoall(tokens[order], torch.bincount(chosen, minlength=size))
    answers, _ = hvd.alltoall(mine * (rank + 1), received)
    result = answers[order.argsort()]
    assert torch.allclose(result, tokens * (chosen + 1)[:, None])
    result.pow(2).sum().backward()
    assert torch.allclose(tokens.grad, 2 * tokens * (chosen + 1)[:, None] ** 2)
