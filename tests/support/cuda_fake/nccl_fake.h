// A fake NCCL, for tests on machines without a GPU. Ranks are threads and memory is the host's.
// Collectives run on the streams of the fake CUDA runtime. Each waits there for all ranks and keeps
// its device busy, so collectives that ranks launch in different orders never end, as with NCCL.
// Never installed.
#pragma once

#include "backends/nccl/library.h"

namespace ronde::test::cuda_fake {

/// The fake's entry points. Communicators become ready some time after the call that makes them.
nccl::Api nccl_fake();

/// Sets the version that it reports, 23003 at first.
void set_nccl_version(int version);

/// Makes communicators of more ranks fail, as across hosts without a network. No limit at first.
void set_nccl_largest(int ranks);

/// Sets the result of comm_register, ncclSuccess at first.
void set_nccl_register_code(ncclResult_t code);

/// The number of registrations so far; and that of errors: memory freed or a communicator destroyed
/// before its registration was ended, or the end of a registration that does not exist.
int nccl_registrations();
int nccl_wrong_registrations();

/// The number of collective calls that have ended. Each rank counts; a group of calls counts once.
int ended_collectives();

/// Sets the result of comm_get_async_error for all communicators, ncclSuccess at first.
void set_nccl_async_error(ncclResult_t code);

/// The number of communicators that exist; and that of aborted ones so far.
int live_communicators();
int aborted_communicators();

}  // namespace ronde::test::cuda_fake
