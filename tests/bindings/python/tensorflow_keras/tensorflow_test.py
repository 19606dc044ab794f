"""ronde.tensorflow and ronde.keras in whole jobs; the files of cases beside have the rest."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from cases import QUIET, case_names
from jobs import HERE, CaseResults, finish, launch

pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")

FOLDER = Path(__file__).resolve().parent
COLLECTIVES = [FOLDER / f"{part}_cases.py" for part in ("collective", "adasum", "weight")]


@pytest.fixture(autouse=True, scope="module")
def surroundings():
    """Quiet ranks, which write their temporary files where they are removed afterwards.

    TensorFlow removes its own (__autograph_generated_file*) at a process's exit, which a rank that
    is killed does not come to.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in {**QUIET, "TMPDIR": folder}.items():
            patch.setenv(name, value)
        yield


def test_without_a_compiler_python_does_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    results = tmp_path / "results"
    results.mkdir()
    found = CaseResults(COLLECTIVES, 2, results)
    assert found.output.count("run through Python, which is slower") == 2
    for case in case_names(*COLLECTIVES):
        found.check(case)


ENDINGS = """
    import os, signal, sys, threading, time
    import keras, numpy, ronde, ronde.keras as hvk, ronde.tensorflow as hvd
    import tensorflow as tf
    hvd.init()
    rank = hvd.rank()
    hvd.allreduce(tf.ones(1))

    def problem(name, function):
        try:
            function()
            print(name, "ended well", flush=True)
        except ronde.Error as error:
            print(name, type(error).__name__, str(error).splitlines()[0], flush=True)

    @tf.function
    def later(x):
        y = hvd.allreduce(x)
        return y + hvd.allreduce(y) if rank else y + hvd.allgather(y)

    @tf.function
    def first(x):
        return hvd.allreduce(x) if rank else hvd.allgather(x)

    @tf.function
    def more(x):
        return [hvd.allreduce(x * i) for i in range(2 + rank)]

    for function in (later, first, more):
        problem(function.__name__, lambda: function(tf.ones(1)))
    # What differs between ranks otherwise is no problem.
    alone = hvd.add_process_set([0])
    inner = tf.function(lambda x: hvd.allreduce(x))

    @tf.function
    def right(x, retraced):
        if rank == 0:
            tf.print("only here", x, output_stream=sys.stderr)
            x = hvd.allreduce(x, process_set=alone)
        return hvd.allreduce(x) + inner(x)

    problem("right", lambda: right(tf.ones(1), 0))
    problem("right", lambda: right(tf.ones(1), rank))

    def mixed(name):
        call = lambda x: hvd.allreduce(x, name=name)
        (tf.function(call) if rank else call)(tf.ones(1))

    problem("named", lambda: mixed("known"))
    problem("mixed", lambda: mixed(None))

    # Each waits for an operation that the other never submits.
    at = []
    def press():
        time.sleep(1)
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    for form in (lambda f: f, tf.function):
        try:
            threading.Thread(target=press).start()
            form(lambda: hvd.allreduce(tf.ones(3), name=f"alone on {rank} {form}"))()
        except KeyboardInterrupt:
            print("interrupted after", time.monotonic() - at.pop(), flush=True)

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    # The first optimizer of this process: compile() has been looked up before it is made.
    model.compile(hvk.DistributedOptimizer(keras.optimizers.SGD()), "mse",
                  experimental_run_tf_function=False)
    print("XLA", model.jit_compile, flush=True)
    class Apart(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ronde.allreduce(numpy.ones(1), name=f"in a callback of rank {rank}")
    problem("callbacks", lambda: model.fit(numpy.ones((8, 4)), numpy.ones((8, 1)), verbose=0,
                                           callbacks=[Apart()]))
    class Die(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 5 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
    try:
        model.fit(numpy.ones((999, 4)), numpy.ones((999, 1)), batch_size=1, verbose=0,
                  callbacks=[Die()])
    except ronde.RankFailure as failure:
        print("told of rank", failure.rank, flush=True)
        sys.exit(3)
"""


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    """The output of a job in which everything ends badly."""
    script = tmp_path_factory.mktemp("endings") / "script.py"
    script.write_text(textwrap.dedent(ENDINGS))
    environment = {**QUIET, "RONDE_STALL_ERROR_SECONDS": "10"}
    return finish(launch([sys.executable, str(script)], 2, environment))[1]


@pytest.mark.parametrize(
    ("function", "difference"),
    [
        ("later", r"traced with 1 allgather, 1 allreduce .*traced with 2 allreduce"),
        ("first", r"submitted allgather .*submitted allreduce"),
        ("more", r"traced with 2 allreduce .*traced with 3 allreduce"),
    ],
)
def test_a_graph_that_one_rank_traced_differently_is_an_error_at_once(
    endings, function, difference
):
    texts = re.findall(rf"\[(\d)\] {function} MismatchError (.*)", endings)
    assert sorted(rank for rank, _ in texts) == ["0", "1"], endings
    for _, text in texts:
        assert re.search(difference.replace(" .*", r" .*script.py:\d+.*"), text), text


def test_graphs_may_differ_in_what_other_ranks_do_not_see(endings):
    assert endings.count("right ended well") == 4, endings


def test_an_operation_in_a_graph_meets_an_eager_one_by_its_name(endings):
    assert endings.count("named ended well") == 2, endings


def test_an_unnamed_operation_in_eager_mode_and_one_in_a_graph_are_an_error_on_all_ranks(endings):
    texts = re.findall(r"\[(\d)\] mixed MismatchError (.*)", endings)
    assert sorted(rank for rank, _ in texts) == ["0", "1"], endings
    for _, text in texts:
        assert re.search(r"\(unnamed, number \d+\) on rank 0 \(.*script.py:\d+\) and ", text), text
        assert re.search(r'allreduce "\S+" on rank 1 \(.*script.py:\d+\) wait', text), text


def test_callbacks_of_keras_that_wait_for_each_other_are_an_error_on_all_ranks(endings):
    texts = re.findall(r"\[(\d)\] callbacks MismatchError (.*)", endings)
    assert sorted(rank for rank, _ in texts) == ["0", "1"], endings
    for _, text in texts:
        assert "wait for each other" in text, text


ALONE = """
    import keras, numpy, ronde, ronde.keras as hvd
    hvd.init()
    class Alone(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if hvd.rank() == 0:
                ronde.allreduce(numpy.ones(1), name="alone")
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD()), "mse")
    try:
        model.fit(numpy.ones((8, 4)), numpy.ones((8, 1)), 4, epochs=3, verbose=0,
                  callbacks=[Alone()])
    except ronde.MismatchError as error:
        print("told:", error, flush=True)
"""


def test_a_callback_that_waits_for_a_graph_of_another_rank_is_an_error_on_both(run_job):
    _, output = run_job(ALONE, np=2, environment=QUIET)
    texts = re.findall(r"\[(\d)\] told: (.*)", output)
    assert sorted(rank for rank, _ in texts) == ["0", "1"], output
    for _, text in texts:
        assert 'allreduce "alone" on rank 0' in text, text
        assert "wait for each other" in text, text


def test_ctrl_c_ends_the_wait_for_a_collective(endings):
    waited = re.findall(r"interrupted after (\S+)", endings)
    # Without the interrupt the waits would end with the stall's 10 s, in another error.
    assert len(waited) == 4, endings
    assert max(map(float, waited)) < 8


def test_compile_knows_of_a_distributed_optimizer_that_is_made_in_its_arguments(endings):
    assert endings.count("XLA False") == 2, endings


def test_a_killed_rank_ends_fit_with_rank_failure(endings):
    assert "told of rank 1" in endings


KERAS_ON_TORCH = """
    import keras, numpy as np, ronde.keras as hvd
    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    x = np.random.default_rng(hvd.rank()).normal(size=(32, 3))
    for passes in (1, 2):
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        codec = hvd.Compression.int8 if passes == 1 else None
        optimizer = hvd.DistributedOptimizer(
            optimizer, compression=codec, backward_passes_per_step=passes)
        model.compile(optimizer, "mse")
        model.fit(x, x.sum(1), batch_size=8, epochs=2, verbose=0, callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback()])
        weights = hvd.allgather(model.get_weights()[0][None])
        assert all(np.array_equal(weights[0], other) for other in weights)
        print("alike on", keras.backend.backend())
"""


def test_keras_on_its_torch_backend(run_job):
    pytest.importorskip("torch")
    status, output = run_job(KERAS_ON_TORCH, 2, environment={"KERAS_BACKEND": "torch"})
    assert status == 0, output
    assert output.count("alike on torch") == 4


BAD_LIBRARY = """
import subprocess, sys
import ronde.tensorflow as hvd
from ronde._tensorflow import build
target = build.build()
whole = target.read_bytes()
with target.open("r+b") as file:
    file.truncate(5000)
assert build.build().read_bytes() == whole
print("mended what was damaged")
# One that needs what this TensorFlow does not have, but is as it was compiled.
flags = ["-x", "c", "-", "-shared", "-fPIC", "-o", str(target)]
source = "extern int elsewhere(void); int f(void) { return elsewhere(); }"
subprocess.run(["cc", *flags], input=source, text=True, check=True)
build._seal(target)
from ronde._tensorflow.library import library
print("uses", "graph ops" if library().is_compiled else "Python")
"""


def test_an_op_library_that_cannot_be_used_is_compiled_again(tmp_path):
    ahead = [sys.executable, "-m", "ronde", "build", "tensorflow"]
    built = subprocess.run(ahead, capture_output=True, text=True, check=True).stdout.strip()
    assert Path(built).exists()
    compiler = tmp_path / "c++"  # gives the good library at once
    compiler.write_text(
        f"#!/bin/sh\nwhile [ $# -gt 0 ]; do [ $1 = -o ] && out=$2; shift; done\ncp {built} $out\n"
    )
    compiler.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", BAD_LIBRARY],
        env={**os.environ, "CXX": str(compiler), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "mended what was damaged\nuses graph ops" in done.stdout, done.stderr
    assert done.stderr.count("ronde: compiling its operations") == 3


@pytest.mark.parametrize("example", ["train_digits_keras.py", "train_digits_tensorflow.py"])
def test_the_examples_learn(example):
    path = HERE.parents[2] / "examples" / example
    status, output = finish(launch([sys.executable, str(path), "--target", "0.95"], 2))
    assert status == 0, output
    assert "test accuracy 9" in output


def test_the_comparison_with_tensorflows_own_strategy_ends_with_the_same_weights():
    path = HERE.parents[2] / "examples" / "compare_tensorflow.py"
    few = ["--models", "cnn", "--rounds", "1", "--calls", "20"]
    status, output = finish(launch([sys.executable, str(path), *few], 2))
    assert status == 0, output
    apart = re.findall(r"strategy.* weights within (\S+) of ronde's", output)
    assert len(apart) == 2, output
    assert max(map(float, apart)) < 1e-6, output
