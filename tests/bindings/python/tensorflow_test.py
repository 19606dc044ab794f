"""ronde.tensorflow and ronde.keras on two and three real processes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cases import case_names
from conftest import HERE, CaseResults, finish, launch

pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")

FILES = ("tensorflow_cases.py", "tensorflow_training_cases.py")
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("case", case_names(*FILES))
def test_tensorflow(case_results, case, np):
    case_results(FILES, np).check(case)


def test_without_a_compiler_python_does_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    results = tmp_path / "results"
    results.mkdir()
    found = CaseResults(FILES[:1], 2, results)
    assert len(re.findall("run through Python, which is slower", found.output)) == 2
    for case in case_names(*FILES[:1]):
        found.check(case)


KILLED = """
    import os, signal, sys, time
    import keras, numpy, ronde, ronde.keras as hvd
    hvd.init()
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD()), "mse")
    class Die(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 5 and hvd.rank() == 1:
                print(f"dies at {time.time()}", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
    try:
        model.fit(numpy.ones((999, 4)), numpy.ones((999, 1)), batch_size=1, verbose=0,
                  callbacks=[Die()])
    except ronde.RankFailure as failure:
        print(f"told of rank {failure.rank} at {time.time()}", flush=True)
        sys.exit(3)
"""


def test_a_killed_rank_ends_fit_with_rank_failure(run_job):
    _, output = run_job(KILLED, 2)
    assert "told of rank 1 at" in output, output


def test_interrupting_fit_leaves_nothing_behind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import keras, numpy, ronde.keras as hvd\n"
        "hvd.init()\n"
        "model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD()), 'mse')\n"
        "x = numpy.ones((100, 4))\n"
        "model.fit(x, x[:, :1], verbose=0)\n"
        "print('trains', flush=True)\n"
        "model.fit(x, x[:, :1], epochs=10**6, verbose=0)\n"
    )
    process = launch([sys.executable, str(script)], 2)
    for line in process.stdout:
        if "trains" in line:
            break
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0


HOROVOD_SCRIPT = """
    import tensorflow as tf
    import horovod.tensorflow as hvd
    import horovod.keras
    import horovod.tensorflow.keras
    from horovod.tensorflow.keras.callbacks import MetricAverageCallback

    hvd.init()
    variable = tf.Variable(float(hvd.rank()))
    optimizer = tf.optimizers.SGD(1.0)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = variable * variable
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, [variable]), [variable]))

    hvd.broadcast_variables([variable], root_rank=1)
    step()
    print("left with", float(variable), flush=True)
"""


def test_a_horovod_script_runs_unedited(run_job):
    status, output = run_job(HOROVOD_SCRIPT, 2, options=["--horovod"])
    assert status == 0, output
    assert output.count("left with -1.0") == 2


KERAS_ON_TORCH = """
    import keras, numpy as np, ronde.keras as hvd
    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    x = np.random.default_rng(hvd.rank()).normal(size=(32, 3))
    for passes in (1, 2):
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        model.compile(hvd.DistributedOptimizer(optimizer, backward_passes_per_step=passes), "mse")
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


def test_the_operations_are_built_ahead():
    command = [sys.executable, "-m", "ronde", "build"]
    built = subprocess.run([*command, "tensorflow"], capture_output=True, text=True, check=True)
    assert Path(built.stdout.strip()).exists()
    assert subprocess.run([*command, "nothing"], capture_output=True, check=False).returncode == 2


@pytest.mark.parametrize("example", ["train_digits_keras.py", "train_digits_tensorflow.py"])
def test_the_examples_learn(example):
    path = HERE.parents[2] / "examples" / example
    status, output = finish(launch([sys.executable, str(path), "--target", "0.95"], 2))
    assert status == 0, output
    assert "test accuracy 9" in output
