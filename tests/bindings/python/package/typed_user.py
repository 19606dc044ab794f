"""A user's file that names everything public. typing_test.py checks its types; nothing runs it."""

from typing import Any

import numpy as np
import ronde
import ronde.elastic as elastic
import ronde.keras as hvk
import ronde.tensorflow as hvtf
import ronde.torch as hvd
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from ronde.torch import distributed as backend
from typing_extensions import assert_type

Array = NDArray[Any]
Tensor = torch.Tensor


def job() -> None:
    ronde.init(settings={"RONDE_TIMELINE": ""})
    assert_type(ronde.rank(), int)
    print(ronde.size(), ronde.local_rank(), ronde.local_size(), ronde.cross_rank())
    print(ronde.cross_size(), ronde.is_homogeneous(), ronde.is_initialized(), ronde.__version__)
    print(ronde.mpi_built(), ronde.mpi_enabled(), ronde.mpi_threads_supported())
    print(ronde.gloo_built(), ronde.gloo_enabled(), ronde.nccl_built(), ronde.cuda_built())
    print(ronde.rocm_built(), ronde.ddl_built(), ronde.ccl_built())
    ronde.start_timeline("trace.json", mark_cycles=True)
    ronde.mark("start")
    with ronde.mark_span("batch"):
        ronde.mark_pass("backward")
        ronde.mark_step()
    assert_type(ronde.metrics(), dict[str, float])
    ronde.stop_timeline()
    some: ronde.ProcessSet = ronde.add_process_set([0, 1])
    assert_type(some.ranks, list[int])
    assert_type(ronde.remove_process_set(some), bool)
    print(ronde.global_process_set.size())
    assert_type(ronde.run(len, args=([],), np=2), list[Any])
    ronde.shutdown()


def arrays(x: Array) -> None:
    op: ronde.ReduceOp = ronde.Average
    print(op, ronde.Sum, ronde.Min, ronde.Max, ronde.Product)
    print(ronde.BitAnd, ronde.BitOr, ronde.BitXor, ronde.Adasum)
    assert_type(ronde.allreduce(x, "x", op=ronde.Sum, out=x), Array)
    assert_type(ronde.allreduce(x, compression=ronde.Compression.int8), Array)
    assert_type(ronde.allreduce_async(x), ronde.Handle[Array])
    assert_type(ronde.grouped_allreduce([x]), list[Array])
    assert_type(ronde.grouped_allreduce_async([x]).wait(1.0), list[Array])
    assert_type(ronde.allgather(x), Array)
    assert_type(ronde.allgather_async(x).wait(), Array)
    assert_type(ronde.broadcast(x, 0), Array)
    assert_type(ronde.broadcast_async(x, root_rank=0).wait(), Array)
    assert_type(ronde.reduce_scatter(x), Array)
    assert_type(ronde.reduce_scatter_async(x).wait(), Array)
    assert_type(ronde.alltoall(x, [1, 1]), tuple[Array, list[int]])
    assert_type(ronde.alltoall_async(x).wait(), tuple[Array, list[int]])
    pair: tuple[Array, Array] = ronde.sparse_allreduce([0, 2], x, rows=3)
    assert_type(ronde.sparse_allreduce_async(pair[0], x).wait(), tuple[Array, Array])
    assert_type(ronde.reduce(x, 0), Array | None)
    assert_type(ronde.reduce_async(x, 0).wait(), Array | None)
    assert_type(ronde.gather(x, 0), Array | None)
    assert_type(ronde.gather_async(x, 0).wait(), Array | None)
    assert_type(ronde.scatter(x, x, 0), Array)
    assert_type(ronde.scatter_async(None, x, 0).wait(), Array)
    assert_type(ronde.recv(x, ronde.ANY_SOURCE), tuple[Array, int])
    assert_type(ronde.recv_async(x, 1, tag=2).wait(), tuple[Array, int])
    ronde.send(x, 1)
    handle = ronde.send_async(x, 1)
    assert_type(ronde.poll(handle), bool)
    ronde.synchronize(handle)
    ronde.barrier()
    assert_type(ronde.join(), int)
    assert_type(ronde.empty((2, 3), np.float64), Array)
    assert_type(ronde.allgather_object({"a": 1}), list[Any])
    settings: dict[str, int] = ronde.broadcast_object({"a": 1})
    print(settings, ronde.DeviceArray)


def errors() -> str:
    try:
        ronde.barrier()
    except ronde.RankFailure as failure:
        return f"rank {failure.rank} on {failure.host}, pid {failure.pid}"
    except (ronde.MismatchError, ronde.StalledError, ronde.TimeoutError) as error:
        return error.origin
    except (ronde.ArgumentTypeError, ronde.DuplicateNameError, ronde.NotInitializedError) as bad:
        return str(bad)
    except ronde.InvalidArgumentError as bad:
        return str(bad)
    except (ronde.AbortedError, ronde.InterruptedError, ronde.InternalError, ronde.NonFiniteError):
        raise
    except (ronde.UnsupportedError, ronde.UnavailableError, ronde.VersionMismatchError):
        raise
    except (ronde.ResourceExhaustedError, ronde.CorruptedError, ronde.Error):
        raise
    return ""


def elastic_arrays() -> None:
    state = elastic.ArrayState(weights=np.zeros(3), step=0)
    other: elastic.State = elastic.ObjectState(own=("seed",), seed=1)
    sampler = elastic.ExactSampler(100)

    @elastic.run
    def train(state: elastic.ArrayState, steps: int) -> float:
        try:
            state.commit()
        except elastic.HostsUpdatedInterrupt:
            raise
        except elastic.HorovodInternalError:
            raise
        return float(steps)

    assert_type(train(state, 3), float)
    print(other, sampler, ronde.elastic.run)


def tensors(x: Tensor) -> None:
    hvd.init()
    assert_type(hvd.rank(), int)
    print(hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
    print(hvd.is_homogeneous(), hvd.is_initialized(), hvd.__version__, hvd.mpi_ops.rank())
    print(hvd.mpi_built(), hvd.mpi_enabled(), hvd.mpi_threads_supported(), hvd.gloo_built())
    print(hvd.gloo_enabled(), hvd.nccl_built(), hvd.cuda_built(), hvd.rocm_built())
    print(hvd.ddl_built(), hvd.ccl_built(), hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product)
    print(hvd.Adasum)
    fp16 = hvd.Compression.fp16
    assert_type(hvd.allreduce(x, name="x", op=hvd.Sum, compression=fp16), Tensor)
    assert_type(hvd.allreduce_(x, average=True), Tensor)
    assert_type(hvd.allreduce_async(x, op=hvd.Min), ronde.Handle[Tensor])
    assert_type(hvd.allreduce_async_(x), ronde.Handle[Tensor])
    assert_type(hvd.grouped_allreduce([x], compression=hvd.Compression.int8(64)), list[Tensor])
    assert_type(hvd.grouped_allreduce_([x]), list[Tensor])
    assert_type(hvd.grouped_allreduce_async([x]), ronde.Handle[list[Tensor]])
    assert_type(hvd.grouped_allreduce_async_([x]), ronde.Handle[list[Tensor]])
    assert_type(hvd.sparse_allreduce_async(x)(), Tensor)
    assert_type(hvd.allgather(x), Tensor)
    assert_type(hvd.allgather_async(x), ronde.Handle[Tensor])
    assert_type(hvd.grouped_allgather([x, x]), list[Tensor])
    assert_type(hvd.grouped_allgather_async([x]), ronde.Handle[list[Tensor]])
    assert_type(hvd.broadcast(x, 0), Tensor)
    assert_type(hvd.broadcast_(x, root_rank=0), Tensor)
    assert_type(hvd.broadcast_async(x, 0), ronde.Handle[Tensor])
    handle = hvd.broadcast_async_(x, 0)
    assert_type(hvd.poll(handle), bool)
    assert_type(hvd.synchronize(handle), Tensor)
    assert_type(hvd.alltoall(x), Tensor)
    assert_type(hvd.alltoall(x, splits=[1, 2]), tuple[Tensor, Tensor])
    assert_type(hvd.alltoall_async(x, torch.tensor([1])).wait(), tuple[Tensor, Tensor])
    assert_type(hvd.reducescatter(x, op=hvd.Sum), Tensor)
    assert_type(hvd.reducescatter_async(x), ronde.Handle[Tensor])
    assert_type(hvd.grouped_reducescatter([x]), list[Tensor])
    assert_type(hvd.grouped_reducescatter_async([x]), ronde.Handle[list[Tensor]])
    some: hvd.ProcessSet = hvd.add_process_set(hvd.ProcessSet([0]))
    hvd.barrier(process_set=some)
    hvd.remove_process_set(some)
    assert_type(hvd.join(), int)
    print(hvd.global_process_set, hvd.allgather_object(1), hvd.broadcast_object(1))
    hvd.start_timeline("trace.json")
    hvd.mark("start")
    with hvd.mark_span("batch"):
        hvd.mark_pass("backward")
        hvd.mark_step()
    hvd.stop_timeline()
    hvd.shutdown()


def model() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(2, 2), hvd.SyncBatchNorm(2))
    optimizer: torch.optim.Optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(
        optimizer, layers.named_parameters(), op=hvd.Average, compression=hvd.Compression.bf16
    )
    sgd = torch.optim.SGD(layers.parameters(), lr=0.1)
    sgd = hvd.DistributedOptimizer(sgd, layers.named_parameters(), num_groups=2)
    sgd.synchronize()
    sgd.set_weight(32)
    sgd.check_replicas(extra={"loss": 1.0})
    with sgd.skip_synchronize():
        sgd.step()
    adamw = torch.optim.AdamW(layers.parameters())
    sharded = hvd.DistributedOptimizer(adamw, shard="gradients", model=layers)
    assert_type(sharded.clip_grad_norm_(1.0), Tensor)
    sharded.wait_for_parameters()
    part: dict[str, object] = sharded.state_dict(sharded=True)
    print(part, sharded.memory_bytes()["state"])
    hvd.DistributedOptimizer(torch.optim.LBFGS(layers.parameters())).synchronize()
    hvd.broadcast_parameters(layers.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    other = hvd.OneBitAdam(layers.named_parameters(), lr=1e-3)
    other.step()
    table = hvd.ShardedEmbedding(8, 4, padding_idx=0)
    assert_type(table.forward(torch.tensor([1])), Tensor)
    assert_type(table.table(), Tensor)
    muon = hvd.ShardedMuon(layers.named_parameters(), lr=0.02, adamw={"lr": 3e-4})
    merged: dict[str, object] = hvd.merge_sharded_states([muon.state_dict(sharded=True)])
    muon.load_state_dict(merged)
    state = hvd.elastic.TorchState(layers, optimizer, epoch=0)

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> int:
        try:
            state.commit()
        except hvd.HorovodInternalError:
            raise
        return 0

    assert_type(train(state), int)


def groups() -> None:
    dist.init_process_group("ronde")
    backend.monitored_barrier(timeout=5.0, wait_all_ranks=True)
    layers = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    state = backend.CompressionState(layers, hvd.Compression.int8)
    layers.register_comm_hook(state, backend.compression_hook)
    backend.compress_fsdp(layers, ronde.Compression.int8, parameters=ronde.Compression.bf16)
    assert isinstance(dist.group.WORLD, backend.RondeProcessGroup)


def tensorflow(tensor: Any, tape: Any, optimizer: Any, variables: list[Any]) -> None:
    hvtf.init()
    assert_type(hvtf.rank(), int)
    print(hvtf.size(), hvtf.local_rank(), hvtf.local_size(), hvtf.cross_rank(), hvtf.cross_size())
    print(hvtf.is_homogeneous(), hvtf.is_initialized(), hvtf.__version__, hvtf.mpi_ops.rank())
    print(hvtf.mpi_built(), hvtf.mpi_enabled(), hvtf.mpi_threads_supported(), hvtf.gloo_built())
    print(hvtf.gloo_enabled(), hvtf.nccl_built(), hvtf.cuda_built(), hvtf.rocm_built())
    print(hvtf.ddl_built(), hvtf.ccl_built(), hvtf.gpu_available())
    hvtf.allreduce(tensor, op=hvtf.Sum, compression=hvtf.Compression.fp16)
    print(hvtf.Average, hvtf.Min, hvtf.Max, hvtf.Product, hvtf.size_op(), hvtf.rank_op())
    print(hvtf.local_size_op(), hvtf.local_rank_op(), hvtf.process_set_included_op(0))
    assert_type(hvtf.grouped_allreduce([tensor], op=hvtf.Average), list[Any])
    assert_type(hvtf.grouped_allgather([tensor]), list[Any])
    assert_type(hvtf.grouped_reducescatter([tensor]), list[Any])
    hvtf.allgather(tensor, name="x")
    hvtf.broadcast(tensor, root_rank=0)
    hvtf.broadcast_(variables, 0)
    hvtf.broadcast_variables(variables, root_rank=0)
    hvtf.broadcast_global_variables(0)
    print(hvtf.BroadcastGlobalVariablesHook(0), hvtf.Adasum)
    print(hvtf.refs_to_vars(hvtf.vars_to_refs(variables)))
    hvtf.alltoall(tensor, splits=[1, 1])
    hvtf.reducescatter(tensor, op=hvtf.Sum)
    hvtf.barrier()
    hvtf.join()
    tape = hvtf.DistributedGradientTape(tape, op=hvtf.Average)
    tape = hvtf.PartialDistributedGradientTape(tape)
    optimizer = hvtf.DistributedOptimizer(optimizer)
    hvtf.SyncBatchNormalization()
    print(hvtf.allgather_object(1), hvtf.broadcast_object(1), hvtf.broadcast_object_fn(0)(1))
    print(hvtf.check_num_rank_power_of_2(4))
    print(hvtf.handle_average_backwards_compatibility(None, True))
    some: hvtf.ProcessSet = hvtf.add_process_set([0])
    hvtf.remove_process_set(some)
    print(hvtf.global_process_set, hvtf.run(len, args=([],)), hvtf.HorovodInternalError)
    print(hvtf.elastic.TensorFlowState(variables), hvtf.elastic.run)
    hvtf.start_timeline("trace.json")
    hvtf.mark("start")
    with hvtf.mark_span("batch"):
        hvtf.mark_pass("backward")
        hvtf.mark_step()
    hvtf.stop_timeline()
    hvtf.shutdown()


def keras(value: Any, optimizer: Any, variables: list[Any]) -> None:
    hvk.init()
    assert_type(hvk.rank(), int)
    print(hvk.size(), hvk.local_rank(), hvk.local_size(), hvk.cross_rank(), hvk.cross_size())
    print(hvk.is_homogeneous(), hvk.is_initialized(), hvk.__version__)
    print(hvk.mpi_built(), hvk.mpi_enabled(), hvk.mpi_threads_supported(), hvk.gloo_built())
    print(hvk.gloo_enabled(), hvk.nccl_built(), hvk.cuda_built(), hvk.rocm_built())
    print(hvk.ddl_built(), hvk.ccl_built(), hvk.Average, hvk.Sum, hvk.Min, hvk.Max, hvk.Product)
    print(hvk.Adasum)
    print(hvk.allreduce(value, op=hvk.Sum), hvk.allgather(value), hvk.broadcast(value, 0))
    print(hvk.reducescatter(value), hvk.allgather_object(1), hvk.broadcast_object(1))
    optimizer = hvk.DistributedOptimizer(optimizer, compression=hvk.Compression.fp16)
    optimizer = hvk.PartialDistributedOptimizer(optimizer)
    hvk.broadcast_variables(variables, 0)
    hvk.broadcast_global_variables(0)
    hvk.save_model(hvk.load_model("model.keras", shard="optimizer"), "other.keras")
    print(hvk.callbacks.BroadcastGlobalVariablesCallback(0), hvk.elastic.KerasState(value))
    print(hvk.HorovodInternalError, hvk.global_process_set)
    some: hvk.ProcessSet = hvk.add_process_set([0])
    hvk.remove_process_set(some)
    hvk.barrier()
    assert_type(hvk.join(), int)
    hvk.start_timeline("trace.json")
    hvk.mark("start")
    with hvk.mark_span("batch"):
        hvk.mark_pass("backward")
        hvk.mark_step()
    hvk.stop_timeline()
    hvk.shutdown()
