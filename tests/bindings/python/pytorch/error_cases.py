"""Cases for wrong arguments that people give."""

import warnings

import pytest
import ronde
import ronde.torch as hvd
import torch
from cases import check_refusals
from torch import nn


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def distributed(net, **options):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return hvd.DistributedOptimizer(optimizer, net.named_parameters(), **options)


def step(net, optimizer):
    net(torch.ones(3, 4) * (hvd.rank() + 1)).sum().backward()
    optimizer.step()


def case_a_mistyped_codec_is_refused_before_training_and_can_be_mended_at_once():
    net = model()
    for wrong, said in (
        ("int9", "'int9'"),
        ("int8:block=100", "block=100"),
        ({"*.weight": "topk:ratio=2"}, "ratio=2"),
        (8, "compression must be one of Compression.*not 8"),
        (None, "not None"),
    ):
        with pytest.raises(ronde.InvalidArgumentError, match=said):
            distributed(net, compression=wrong)
    optimizer = distributed(net, compression=hvd.Compression.int8)
    step(net, optimizer)


def case_operations_by_name_and_unknown_numbers_are_refused_by_the_optimizer():
    for wrong in ("avg", None, 1.0):
        with pytest.raises(TypeError, match="op must be Average, Sum"):
            distributed(model(), op=wrong)
    with pytest.raises(ronde.InvalidArgumentError, match="op=99; allowed: Average"):
        distributed(model(), op=99)


def case_a_model_in_place_of_an_optimizer_is_a_clear_error():
    net = model()
    with pytest.raises(ronde.InvalidArgumentError, match=r"torch\.optim\.Optimizer, not Seq"):
        hvd.DistributedOptimizer(net)
    optimizer = distributed(net)
    with pytest.raises(ronde.InvalidArgumentError, match="already"):
        hvd.DistributedOptimizer(optimizer)


def case_optimizer_state_of_what_is_no_optimizer_is_a_clear_error():
    with pytest.raises(ronde.InvalidArgumentError, match=r"torch\.optim\.Optimizer, not Seq"):
        hvd.broadcast_optimizer_state(model(), root_rank=0)


def case_groups_of_names_in_place_of_parameters_are_refused():
    net = model()
    for wrong in ([["0.weight"]], [[net]], "all"):
        with pytest.raises(ronde.InvalidArgumentError, match="lists of parameters are needed"):
            distributed(net, groups=wrong)


def case_compression_rules_that_fit_no_parameter_warn_once():
    net = model()
    rules = {"*.weight": "int8", "embedding.*": "int4"}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        optimizer = distributed(net, compression=rules)
        step(net, optimizer)
        step(net, optimizer)
    (warning,) = seen
    assert "'embedding.*'; there are 0.weight" in str(warning.message)
    assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distributed(net, compression={"*.weight": "int8", "*": "fp16"})


def case_what_is_no_tensor_and_no_compression_is_a_clear_error():
    for call in (
        hvd.allreduce,
        hvd.allreduce_,
        hvd.allreduce_async,
        hvd.allgather,
        hvd.reducescatter,
    ):
        with pytest.raises(ronde.InvalidArgumentError, match=r"torch\.Tensor, not list; torch\."):
            call([1, 2])
    with pytest.raises(ronde.InvalidArgumentError, match="Tensor, not list"):
        hvd.allreduce([1, 2], op=hvd.Max, compression=hvd.Compression.fp16)
    with pytest.raises(ronde.InvalidArgumentError, match=r"compression must be .* not 8"):
        hvd.allreduce(torch.ones(2), compression=8)
    with pytest.raises(TypeError, match=r"int8: .*'blok'; allowed: block, stochastic, seed, error"):
        hvd.Compression.int8(blok=3)
    assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1]


def case_different_parameters_are_an_error_on_all_ranks_not_a_wait():
    net = model()
    mine = dict(net.state_dict())
    if hvd.rank() == 1:
        mine["extra"] = torch.ones(3)
    said = r'number 4 is "extra" float32\[3\] on rank 1, but missing on rank 0, the root'
    with pytest.raises(ronde.MismatchError, match=said):
        hvd.broadcast_parameters(mine, root_rank=0)
    renamed = [("w" if hvd.rank() == 0 else "v", torch.ones(2, 2))]
    with pytest.raises(ronde.MismatchError, match=r'"v" float32\[2, 2\] on rank 1, but "w"'):
        hvd.broadcast_parameters(renamed, root_rank=0)
    shapes = [torch.ones(2 + (hvd.rank() == 1))]
    with pytest.raises(ronde.MismatchError, match=r"number 0 is float32\[3\] on rank 1"):
        hvd.broadcast_parameters(shapes, root_rank=0)
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)


def case_parameters_of_other_names_on_one_rank_are_an_error_on_all_not_a_wait():
    mine = "rank 0" if hvd.rank() == 0 else "the others"
    said = r"of rank 0. on rank 0 .* wait for each other: none of these ranks submits"
    for attempt in range(4):  # who finds it first, and when, is left to chance
        net = model()
        named = [(f"{attempt}.{name} of {mine}", p) for name, p in net.named_parameters()]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), named)
        with pytest.raises(ronde.MismatchError, match=said):
            step(net, optimizer)
        after = hvd.allreduce(torch.ones(2), name=f"after other names {attempt}")
        assert after.tolist() == [1, 1]


def case_a_step_too_many_on_one_rank_is_an_error_on_all_not_a_wait():
    net = model()
    named = [(f"stepped.{name}", p) for name, p in net.named_parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), named)
    step(net, optimizer)

    def go_on():
        if hvd.rank() == 0:
            return optimizer.step()
        return hvd.allreduce(torch.ones(2), name="a metric of those that are done")

    with pytest.raises(ronde.MismatchError, match="wait for each other"):
        go_on()
    assert hvd.allreduce(torch.ones(2), name="after a step too many").tolist() == [1, 1]


ROWS = torch.ones(4)
EDGES = torch.ones(2, 2).to_sparse()
WRONG_CALLS = {
    "no predivide factor": (
        lambda: hvd.DistributedOptimizer(
            torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1), gradient_predivide_factor=0
        ),
        "gradient_predivide_factor=0; allowed: finite numbers other than 0",
    ),
    "codecs that are no rules": (
        lambda: hvd.OneBitAdam([("w", torch.nn.Parameter(torch.ones(1)))], compression=["int8"]),
        "a list of compressions consists of Compression.rule",
    ),
    "a list of models": (
        lambda: hvd.elastic.TorchState(model=[torch.nn.Linear(1, 1)]),
        "model must be a torch.nn.Module, not .*; give several as keyword arguments",
    ),
    "halves of rows": (
        lambda: hvd.alltoall(ROWS, [1.5, 2.5]),
        r"splits must be whole numbers, the rows for each rank, not \[1.5, 2.5\]",
    ),
    "a tensor of halves": (
        lambda: hvd.alltoall(ROWS, torch.tensor([1.0, 3.0])),
        r"splits must be whole numbers.* not \[1.0, 3.0\]",
    ),
    "a name": (lambda: hvd.allreduce(ROWS, name=3), "name must be a str, not 3"),
    "an op in place": (lambda: hvd.allreduce_(ROWS, op="sum"), "op must be Average, .* not 'sum'"),
    "a set's number": (
        lambda: hvd.allreduce_async_(ROWS, process_set=0),
        "process_set must be a ProcessSet, .* not 0",
    ),
    "a set's number of an optimizer": (
        lambda: distributed(model(), process_set=0),
        "process_set must be a ProcessSet, .* not 0",
    ),
    "passes": (
        lambda: distributed(model(), backward_passes_per_step=1.5),
        "backward_passes_per_step must be an int, not 1.5",
    ),
    "a factor": (
        lambda: distributed(model(), gradient_predivide_factor="2"),
        "gradient_predivide_factor must be a number, not '2'",
    ),
    "a learning rate": (
        lambda: hvd.OneBitAdam(model().named_parameters(), lr="0.1"),
        "lr must be a number, not '0.1'",
    ),
    "half a character in a parameter's name": (
        lambda: hvd.broadcast_parameters({"layer\udcff": ROWS.clone()}, 0),
        r"name='parameter.layer\\udcff' has the surrogate '\\udcff', which is no character",
    ),
    "half a character in an optimizer's name": (
        lambda: hvd.OneBitAdam([("\udcff", torch.nn.Parameter(ROWS.clone()))]),
        r"name='\\udcff' has the surrogate",
    ),
    "a parameter's name": (
        lambda: hvd.OneBitAdam([(3, torch.nn.Parameter(ROWS.clone()))]),
        "name must be a str, not 3",
    ),
    "one beta": (
        lambda: hvd.OneBitAdam(model().named_parameters(), betas=0.9),
        "betas must be two numbers, not 0.9",
    ),
    "parameters without names": (
        lambda: hvd.OneBitAdam(model().parameters()),
        r"named_parameters should be a sequence of tuples \(name, parameter\)",
    ),
    "a root": (lambda: hvd.broadcast(ROWS, "0"), "root_rank must be an int, not '0'"),
    "a sparse tensor": (
        lambda: hvd.allreduce(EDGES),
        r"a dense tensor is needed here, not one of torch.sparse_coo; sparse_allreduce_async\(\), ",
    ),
    "a dense tensor": (
        lambda: hvd.sparse_allreduce_async(ROWS),
        r"a sparse COO tensor is needed.* torch.strided; allreduce_async\(\) takes dense ones",
    ),
    "no tensor": (
        lambda: hvd.sparse_allreduce_async([1.0]),
        "expected a torch.Tensor, not list",
    ),
    "a codec for integers": (
        lambda: hvd.allreduce(ROWS.int(), name="counts", compression=hvd.Compression.int8),
        r'allreduce "counts" \(.*error_cases.py:\d+\): compression of int32 is not defined',
    ),
    "a codec with another operation": (
        lambda: hvd.allreduce(ROWS, op=hvd.Max, compression="int8"),
        r"allreduce \(.*error_cases.py:\d+\): compression with op max is not defined",
    ),
    "a root that is no rank": (
        lambda: hvd.broadcast_(ROWS, 99, name="w"),
        r'broadcast "w" \(.*error_cases.py:\d+\): root rank 99 is not in process set 0',
    ),
    "a sampler's data": (
        lambda: hvd.elastic.ElasticSampler(3),
        "dataset must be a data set with a length, not 3",
    ),
    "splits without values": (
        lambda: hvd.alltoall(ROWS, torch.ones(2, device="meta")),
        "splits must be whole numbers, the rows for each rank, not tensor",
    ),
    "a text as average": (
        lambda: hvd.allreduce(ROWS, average="no"),
        "average must be True or False, not 'no'",
    ),
    "splits of other ranks": (
        lambda: hvd.alltoall(ROWS, [4] * hvd.size(), name="rows"),
        r'alltoall "rows" \(.*error_cases.py:\d+\): rank 0 of the group gave splits that',
    ),
}


def case_wrong_calls_are_refused_in_a_sentence():
    check_refusals(WRONG_CALLS, ronde.InvalidArgumentError)
    hvd.barrier()
