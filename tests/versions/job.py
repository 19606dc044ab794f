"""A small job of one API, which a cell of the matrix runs on two ranks. Argument: the API."""

import sys


def numpy_arrays():
    import numpy as np
    import ronde

    ronde.init()
    rank = ronde.rank()
    assert ronde.allreduce(np.full(4, rank, np.float32))[0] == 0.5
    assert len(ronde.allgather(np.arange(rank + 1))) == 3
    assert ronde.broadcast_object({"rank": rank}) == {"rank": 0}
    assert ronde.synchronize(ronde.alltoall_async(np.arange(4)))[1] == [2, 2]
    ronde.shutdown()


def torch_tensors():
    import ronde.torch as hvd
    import torch

    hvd.init()
    rank = hvd.rank()
    torch.manual_seed(rank)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
    weights = hvd.allgather(model.weight.detach()[None])
    assert torch.equal(weights[0], weights[1])
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    x = torch.full((4,), float(rank), requires_grad=True)
    hvd.allreduce(x).sum().backward()
    half = hvd.allreduce(torch.ones(3, dtype=torch.bfloat16), op=hvd.Sum)
    assert half.tolist() == [2.0, 2.0, 2.0]
    assert hvd.alltoall(torch.arange(3), splits=[1, 2])[1].tolist() == [1 + rank] * 2
    hvd.shutdown()


def torch_distributed():
    import ronde.torch.distributed
    import torch
    import torch.distributed as dist

    dist.init_process_group("ronde")
    rank, x = dist.get_rank(), torch.ones(4, 3)
    dist.all_reduce(x)
    assert x[0, 0] == 2
    gathered, scattered = torch.empty(8, 3), torch.empty(2, 3)
    dist.all_gather_into_tensor(gathered, x)
    dist.reduce_scatter_tensor(scattered, x)
    assert gathered.sum() == 48
    assert scattered[0, 0] == 4
    dist.all_to_all_single(torch.empty(4, 3), x)
    objects = [None, None]
    dist.all_gather_object(objects, rank)
    assert objects == [0, 1]
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    pair = dist.new_group([0, 1])
    dist.all_reduce(x, group=pair, async_op=True).wait()
    dist.barrier()
    train(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2)))
    sharded = torch.nn.Linear(3, 2)
    torch.distributed.fsdp.fully_shard(sharded, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    train(sharded)
    ronde.torch.distributed.monitored_barrier()
    dist.destroy_process_group()


def train(model):
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()


def tensorflow_tensors():
    import ronde.tensorflow as hvd
    import tensorflow as tf

    hvd.init()

    @tf.function
    def mean(x):
        return hvd.allreduce(x)

    assert float(mean(tf.constant([float(hvd.rank())]))[0]) == 0.5
    w = tf.Variable([float(hvd.rank())])
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = w * float(hvd.rank())
    assert float(tape.gradient(loss, w)[0]) == 0.5
    hvd.broadcast_variables([w], root_rank=1)
    assert float(w[0]) == 1.0
    hvd.shutdown()


def keras_models():
    import keras
    import numpy as np
    import ronde.keras as hvd

    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
    x = np.random.rand(16, 3)
    first = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    model.fit(x, x.sum(1), epochs=2, verbose=0, callbacks=[first])
    weights = np.asarray(hvd.allgather(model.layers[0].kernel.numpy()[None]))
    assert np.array_equal(weights[0], weights[1])
    hvd.shutdown()


APIS = {
    "numpy": numpy_arrays,
    "torch": torch_tensors,
    "distributed": torch_distributed,
    "tensorflow": tensorflow_tensors,
    "keras": keras_models,
}

if __name__ == "__main__":
    APIS[sys.argv[1]]()
    print("passed", flush=True)
