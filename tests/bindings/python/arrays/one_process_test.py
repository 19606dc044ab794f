"""A job of one process, in this process: arguments of every kind, made up by hypothesis."""

import contextlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import ronde
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

WHOLE = [f"{kind}{8 << size}" for kind in ("int", "uint") for size in range(4)]
DTYPES = st.sampled_from([*WHOLE, "float16", "float32", "float64", "bool"])
ARRAYS = hnp.arrays(
    DTYPES,
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6),
    fill=st.nothing(),
)
WITH_ROWS = ARRAYS.filter(lambda array: array.ndim > 0)


@pytest.fixture(scope="module", autouse=True)
def job():
    ronde.init(settings={"RONDE_RANK": 0, "RONDE_SIZE": 1})
    yield
    ronde.shutdown()


@given(array=ARRAYS)
@settings(deadline=None, max_examples=60)
def test_a_sum_over_one_rank_is_the_array_itself(array):
    result = ronde.allreduce(array, op=ronde.Max)
    assert result is not array
    np.testing.assert_array_equal(result, array)
    assert (result.dtype, result.shape) == (array.dtype, array.shape)


@given(array=ARRAYS, axes=st.randoms())
@settings(deadline=None, max_examples=60)
def test_any_strides_are_taken_and_written(array, axes):
    order = list(range(array.ndim))
    axes.shuffle(order)
    view = array.copy().transpose(order)[..., ::-1] if array.ndim else array.copy()
    before = view.copy()
    assert ronde.allreduce(view, op=ronde.Min, out=view) is view
    np.testing.assert_array_equal(view, before)


@given(array=WITH_ROWS)
@settings(deadline=None, max_examples=60)
def test_one_rank_gathers_and_exchanges_its_own_rows(array):
    np.testing.assert_array_equal(ronde.allgather(array), array)
    rows, counts = ronde.alltoall(array, [len(array)])
    np.testing.assert_array_equal(rows, array)
    assert counts == [len(array)]
    np.testing.assert_array_equal(ronde.broadcast(array, 0), array)
    np.testing.assert_array_equal(ronde.reduce_scatter(array, op=ronde.Max), array)


@given(name=st.text(max_size=300))
@settings(deadline=None, max_examples=60)
def test_any_text_is_a_name_or_a_typed_error(name):
    with contextlib.suppress(ronde.InvalidArgumentError, UnicodeEncodeError):
        ronde.allreduce(np.ones(1), name)


@given(values=st.lists(st.one_of(st.none(), st.integers(), st.text(), st.binary()), max_size=5))
@settings(deadline=None, max_examples=30)
def test_objects_come_back_as_they_were(values):
    assert ronde.allgather_object(values) == [values]
    assert ronde.broadcast_object(values, 0) == values


def test_the_package_knows_its_version_and_settings():
    assert ronde.__version__.count(".") == 2
    names = [row[0] for row in ronde._core.settings()]
    assert "RONDE_FUSION_THRESHOLD" in names


def test_every_error_is_a_ronde_error_and_a_runtime_error():
    from ronde import _errors

    for code, kind in enumerate(_errors.CODES):
        error = _errors.make(code, "text", "file:1", 3, "host", 42)
        assert type(error) is kind
        assert isinstance(error, ronde.Error)
        assert isinstance(error, RuntimeError)
        assert str(error) == "text"
    failure = _errors.make(4, "gone", "", 3, "host", 42)
    assert (failure.rank, failure.host, failure.pid) == (3, "host", 42)


def test_the_users_line_is_named():
    site = ronde._core.call_site()
    assert site.startswith(__file__ + ":")
    assert int(site.rsplit(":", 1)[1]) > 0


def test_each_call_is_named_by_its_own_line():
    first = inspect.currentframe().f_lineno + 3
    lines = []
    for _ in range(2):
        lines.append(ronde._core.call_site())
        lines.append(ronde._core.call_site())
    assert [int(site.rsplit(":", 1)[1]) - first for site in lines] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"op": "sum"}, "op must be Average, Sum, .* or Adasum, not 'sum'"),
        ({"name": 5}, "name must be a str, not 5"),
        ({"prescale_factor": "half"}, "prescale_factor must be a number, not 'half'"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(arguments, told):
    with pytest.raises(TypeError, match=told):
        ronde.allreduce(np.ones(1), **arguments)


def test_a_root_of_a_wrong_type_is_named():
    with pytest.raises(TypeError, match="root_rank must be an int, not 'first'"):
        ronde.broadcast(np.ones(1), root_rank="first")


def test_a_script_whose_name_is_no_text_is_named_by_escapes(tmp_path):
    script = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py"))
    script.write_text(
        "import numpy as np, ronde\nronde.init()\nronde.broadcast(np.ones(2), 7, 'w')\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, check=False)
    assert rb'broadcast "w" (' in done.stderr, done.stderr
    assert rb"\udcff.py:3): root rank 7 is not in process set 0" in done.stderr, done.stderr
