"""Cases of wrong calls: each is refused in a sentence that names the argument and its value."""

import numpy as np
import pytest
import ronde
from cases import check_refusals

ONES = np.ones(4, np.float32)


def span(name):
    with ronde.mark_span(name):
        pass


WRONG_TYPES = {
    "allreduce's name": (lambda: ronde.allreduce(ONES, 3), "name must be a str, not 3"),
    "allreduce's op": (
        lambda: ronde.allreduce(ONES, op="sum"),
        "op must be Average, .* not 'sum'",
    ),
    "a reduction's op as a number": (
        lambda: ronde.reduce_scatter(ONES, op=1.5),
        "op must be Average, Sum,.* not 1.5",
    ),
    "a factor": (
        lambda: ronde.allreduce(ONES, prescale_factor="2"),
        "prescale_factor must be a number, not '2'",
    ),
    "a weight": (
        lambda: ronde.allreduce(ONES, weight=[1, 2]),
        r"weight must be a number or None, not \[1, 2\]",
    ),
    "a set's number": (
        lambda: ronde.allreduce(ONES, process_set=0),
        r"process_set must be a ProcessSet, as add_process_set\(\) returns it, not 0",
    ),
    "a set's ranks": (
        lambda: ronde.barrier([0, 1]),
        r"process_set must be a ProcessSet.*, not \[0, 1\]",
    ),
    "a name as a set": (lambda: ronde.join("all"), "process_set must be a ProcessSet.* not 'all'"),
    "objects' set": (
        lambda: ronde.allgather_object({}, process_set=0),
        "process_set must be a ProcessSet.* not 0",
    ),
    "objects' root": (
        lambda: ronde.broadcast_object({}, root_rank="0"),
        "root_rank must be an int, not '0'",
    ),
    "a root": (lambda: ronde.broadcast(ONES, 0.0), "root_rank must be an int, not 0.0"),
    "no root": (lambda: ronde.gather(ONES, None), "root_rank must be an int, not None"),
    "halves of rows": (
        lambda: ronde.alltoall(ONES, [1.5, 2.5]),
        r"splits must be whole numbers, the rows for each rank, not \[1.5, 2.5\]",
    ),
    "an array of halves": (
        lambda: ronde.alltoall(ONES, np.array([1.0, 3.0])),
        r"splits must be whole numbers.* not \[1.0, 3.0\]",
    ),
    "one number of rows": (lambda: ronde.alltoall(ONES, 2), "splits must be whole num.* not 2"),
    "a single array of a group": (
        lambda: ronde.grouped_allreduce(ONES),
        "a list of tensors is needed, not ndarray",
    ),
    "a number as a group": (
        lambda: ronde.grouped_allreduce(3),
        "a list of tensors is needed, not int",
    ),
    "a number for outputs": (
        lambda: ronde.grouped_allreduce([ONES], out=3),
        "out must be a list of arrays, not int",
    ),
    "a checkpoint's path": (
        lambda: ronde.elastic.ArrayState(w=ONES.copy()).checkpoint(3),
        "path must be a path, not 3",
    ),
    "a text as a group": (
        lambda: ronde.grouped_allreduce("ab"),
        "a list of tensors is needed, not str",
    ),
    "bytes as rows": (lambda: ronde.alltoall(ONES, b"\4"), r"splits must be .* not b'\\x04'"),
    "an array as a root": (
        lambda: ronde.reduce(ONES, np.zeros(2)),
        r"root_rank must be an int, not array\(\[0., 0.\]\)",
    ),
    "send's rank": (lambda: ronde.send(ONES, "1"), "to must be an int, not '1'"),
    "send's tag": (lambda: ronde.send(ONES, 0, tag=0.5), "tag must be an int, not 0.5"),
    "recv's rank": (
        lambda: ronde.recv(ONES.copy(), "any"),
        "source must be an int, not 'any'",
    ),
    "a mark": (lambda: ronde.mark(3), "name must be a str, not 3"),
    "a span": (lambda: span(3), "name must be a str, not 3"),
    "no phase": (lambda: ronde.mark_pass(None), "name must be a str, not None"),
    "a trace": (lambda: ronde.start_timeline(3), "file_path must be a path, not 3"),
    "a shape": (lambda: ronde.empty("4"), "shape must be a whole number, or several, not '4'"),
    "half an extent": (lambda: ronde.empty((2, 0.5)), r"shape must be .* not \(2, 0.5\)"),
    "what cannot train": (lambda: ronde.elastic.run(3), "func must be a function, not 3"),
    "a single callback": (
        lambda: ronde.elastic.ObjectState(step=0).register_reset_callbacks(print),
        "callbacks must be a list of functions, not <built-in function print>",
    ),
    "a set of one number": (
        lambda: ronde.ProcessSet(1),
        r"a process set must be ranks of the job, such as \[0, 1\], not 1",
    ),
    "a set of halves": (
        lambda: ronde.add_process_set([0.5]),
        r"a process set must be ranks of the job.* not \[0.5\]",
    ),
    "what is no set": (lambda: ronde.remove_process_set(1), "process_set must be a Pro.* not 1"),
}

WRONG_VALUES = {
    "more rows than there are": (
        lambda: ronde.alltoall(ONES, [2**63, 1]),
        r"splits=\[9223372036854775808, 1\] is out of range",
    ),
    "room for objects": (
        lambda: ronde.empty(3, object),
        "dtype=object has no numbers in memory; allowed: numbers",
    ),
    "room for nothing": (lambda: ronde.empty(3, "S0"), r"dtype=\|S0 has no numbers in memory"),
    "no trace": (lambda: ronde.start_timeline(""), "file_path is empty; a path is needed"),
    "an object as a codec's parameter": (
        lambda: ronde.Compression.int8(block=object()),
        "compression 'int8:block=object': block=object; allowed: multiples of 64",
    ),
    "an unknown op": (lambda: ronde.allreduce(ONES, op=99), "op=99; allowed: Average, Sum, "),
    "an object as a codec": (
        lambda: ronde.allreduce(ONES, compression=object()),
        r"compression must be one of Compression, .* decompress\(\), not object$",
    ),
    "half a character": (
        lambda: ronde.allreduce(ONES, "layer\udcff"),
        r"name='layer\\udcff' has the surrogate '\\udcff', which is no character and cannot be",
    ),
    "half a character in a mark": (lambda: ronde.mark("\udcff"), r"name='\\udcff' has the surr"),
    "half a character of objects": (
        lambda: ronde.broadcast_object({}, name="\udcff"),
        r"name='\\udcff' has the surrogate",
    ),
    "a root far off": (lambda: ronde.broadcast(ONES, 2**40), "root_rank=1099511627776 is out of"),
    "a negative extent": (lambda: ronde.empty(-1), "shape=-1; allowed: extents from 0"),
    "a root that is no rank": (
        lambda: ronde.broadcast(ONES, 99, "weights"),
        r'broadcast "weights" \(.*wrong_call_cases.py:\d+\): root rank 99 is not in process set 0',
    ),
    "a root without a name": (
        lambda: ronde.reduce(ONES, 99),
        r"reduce \(.*wrong_call_cases.py:\d+\): root rank 99 is not in process set 0; all",
    ),
    "objects' root that is no rank": (
        lambda: ronde.broadcast_object({}, 99),
        r"broadcast \(.*wrong_call_cases.py:\d+\): root rank 99 is not in process set 0",
    ),
    "too many splits": (
        lambda: ronde.alltoall(ONES, [1] * 9, "rows"),
        r'alltoall "rows" \(.*wrong_call_cases.py:\d+\): rank 0 of the group gave 9 splits for',
    ),
    "a long name": (
        lambda: ronde.allreduce(ONES, "ä" * 600),
        r'allreduce "ä+\.\.\." \(.*wrong_call_cases.py:\d+\): the name has 1200 bytes; at most',
    ),
    "an op for other types": (
        lambda: ronde.allreduce(ONES, "bits", ronde.BitOr),
        r'allreduce "bits" \(.*wrong_call_cases.py:\d+\): op bitor is not defined on dtype',
    ),
}


def case_values_of_wrong_types_are_refused_in_a_sentence():
    check_refusals(WRONG_TYPES, ronde.ArgumentTypeError)
    ronde.barrier()


def case_wrong_values_are_refused_by_operation_name_and_line():
    check_refusals(WRONG_VALUES, ronde.InvalidArgumentError)
    ronde.barrier()


def case_a_wait_takes_seconds_and_can_be_taken_up_again():
    handle = ronde.allreduce_async(ONES, "late", ronde.Sum)
    with pytest.raises(ronde.ArgumentTypeError, match=r"^timeout must be seconds.* not '1'"):
        handle.wait(timeout="1")
    assert handle.wait().tolist() == [ronde.size()] * 4


def case_an_object_whose_error_has_half_a_character_is_refused_on_all_ranks():
    class Unfit:
        def __reduce__(self):
            raise ValueError("half a character: \udcff")

    with pytest.raises(ronde.InvalidArgumentError, match=r"rank 0 cannot be.*character: \\udcff"):
        ronde.broadcast_object(Unfit())
