"""Cases for steps that all ranks leave out, as a gradient is not finite."""

import keras
import numpy as np
import ronde.keras as hvd

NEEDS = "keras"
RANKS = (2,)
OPTIONS = ("--check-nonfinite", "skip")


def train(sick_step):
    """The weights after 4 steps, the first rank's gradient of one is NaN; and the steps made."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.1))
    model.compile(optimizer, "mse")
    for step in range(4):
        batch = np.full((2, 3), 1.0 + step + hvd.rank(), "f")
        if step == sick_step and hvd.rank() == 0:
            batch[0, 1] = np.nan
        model.train_on_batch(batch, np.ones((2, 2), "f"))
    return model.get_weights(), int(optimizer.iterations)


def case_a_step_with_nan_is_left_out_on_all_ranks():
    for sick_step in (0, 2):
        weights, steps = train(sick_step)
        assert steps == 3, steps
        for index, value in enumerate(weights):
            assert np.isfinite(value).all()
            everyone = hvd.allgather(value[None], name=f"weights {sick_step} {index}")
            assert (np.asarray(everyone) == value).all()


def case_healthy_steps_are_all_made():
    assert train(-1)[1] == 4
