"""One rank's collectives under torch.profiler. Arguments: the API, and a folder for traces."""

import sys

import torch
import torch.distributed as dist


def through_horovods_names():
    import ronde.torch as hvd

    hvd.init()
    x = torch.ones(4, 3)
    hvd.allreduce(x, name="before")  # without a profiler

    def work():
        hvd.allreduce(x, name="grad", op=hvd.Sum)
        hvd.allreduce_(x.half())
        hvd.synchronize(hvd.allreduce_async(x.long(), op=hvd.Max))
        hvd.grouped_allreduce([x, x[:2]])
        hvd.allgather(x)
        hvd.broadcast(x, root_rank=1)
        hvd.reducescatter(x)
        hvd.alltoall(x)

    return hvd.rank(), work


def through_torch_distributed():
    dist.init_process_group("ronde")
    x = torch.ones(4, 3)

    def work():
        dist.all_reduce(x)
        dist.all_gather_into_tensor(torch.empty(8, 3), x)
        dist.broadcast(x, 1)
        dist.reduce_scatter(torch.empty(2, 3), [x[:2], x[2:]])
        dist.all_to_all_single(torch.empty(4, 3), x)
        dist.barrier()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
        model(x).sum().backward()

    return dist.get_rank(), work


def main():
    api, folder = sys.argv[1:]
    apis = {"horovod": through_horovods_names, "distributed": through_torch_distributed}
    rank, work = apis[api]()
    with torch.profiler.profile(record_shapes=True) as profile:
        work()
    profile.export_chrome_trace(f"{folder}/{rank}.json")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
