"""What small tensors cost in Python: an asynchronous allreduce, and a model of many parameters.

ronde run -np 2 -- python tests/bench/small_gradients.py [--parameters 2000] [--steps 14]

Each way of training takes its turn in the same processes. Targets: at most 10 us for the caller of
an asynchronous allreduce of 4 KB; communication adds at most 20 ms and twice the time of one 8 MB
allreduce to backward and step of 2,000 parameters of 4 KB.
"""

import argparse
import statistics
import time

import ronde.torch as hvd
import torch

ELEMENTS = 1024  # 4 KB of float32
CALLS = 50  # that are in flight together


def asynchronous_us(rounds=60):
    """Time that the calling thread runs for one allreduce_async(), median."""
    tensor = torch.ones(ELEMENTS)
    names = [f"async.{i}" for i in range(CALLS)]
    found = []
    for _ in range(rounds):
        begin = time.thread_time()
        handles = [hvd.allreduce_async(tensor, name=name) for name in names]
        found.append((time.thread_time() - begin) / CALLS * 1e6)
        for handle in handles:
            hvd.synchronize(handle)
    return statistics.median(found)


def trained(count, distribute):
    """(parameters, optimizer) of a model that is nothing but small parameters."""
    parameters = [torch.nn.Parameter(torch.ones(ELEMENTS)) for _ in range(count)]
    return parameters, distribute(torch.optim.SGD(parameters, lr=0.01))


def step_ms(parameters, optimizer):
    """Time of backward and step, once all ranks have come."""
    loss = sum(parameter.sum() for parameter in parameters)
    optimizer.zero_grad()
    hvd.barrier()
    begin = time.perf_counter()
    loss.backward()
    optimizer.step()
    return (time.perf_counter() - begin) * 1e3


def allreduce_ms(tensor):
    """Time of one allreduce, once all ranks have come."""
    hvd.barrier()
    begin = time.perf_counter()
    hvd.allreduce_(tensor, name="large")
    return (time.perf_counter() - begin) * 1e3


def main():
    """Prints medians, of the slowest rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=14)
    arguments = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    large = torch.ones(2 << 20)
    models = {
        "alone": trained(arguments.parameters, lambda optimizer: optimizer),
        "DistributedOptimizer": trained(arguments.parameters, hvd.DistributedOptimizer),
        "flat_gradients": trained(
            arguments.parameters, lambda o: hvd.DistributedOptimizer(o, flat_gradients=True)
        ),
    }
    times = {name: [] for name in [*models, "8 MB allreduce"]}
    for _ in range(arguments.steps):
        for name, model in models.items():
            times[name].append(step_ms(*model))
        times["8 MB allreduce"].append(allreduce_ms(large))
    slowest = {"asynchronous allreduce of 4 KB, us": asynchronous_us()}
    slowest.update((name, statistics.median(found[2:])) for name, found in times.items())
    slowest = {
        name: float(hvd.allreduce(torch.tensor(v), op=hvd.Max)) for name, v in slowest.items()
    }
    if hvd.rank() == 0:
        for name, value in slowest.items():
            added = value - slowest["alone"] if name in models else 0
            print(f"{name:<36}{value:8.1f}" + (f"  adds {added:.1f} ms" if added else ""))
        print(f"limit of what may be added: {20 + 2 * slowest['8 MB allreduce']:.1f} ms")


if __name__ == "__main__":
    main()
