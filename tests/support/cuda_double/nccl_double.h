// A double of NCCL for tests on machines without a GPU; never installed. Ranks are threads, memory
// is the host's, and collectives run in the order of the double's streams, each waiting there for
// all ranks and leaving no room on its device for others: launched in unlike orders they never end,
// as NCCL's.
#pragma once

#include "backends/nccl/library.h"

namespace ronde::test::cuda_double {

/// The double's entry points. Communicators become ready some time after they were asked for.
nccl::Api nccl_double();

/// The version it says it is, 23003 at first.
void set_nccl_version(int version);

/// Makes communicators of more ranks fail to be made, as across hosts without a network; there is
/// no such limit at first.
void set_nccl_largest(int ranks);

/// What comm_register gives from now on, ncclSuccess at first.
void set_nccl_register_code(ncclResult_t code);

/// Registrations made so far; and how often memory was freed, or a communicator destroyed, with one
/// that had not been ended, or one was ended that there was not.
int nccl_registrations();
int nccl_wrong_registrations();

/// Calls of collectives (of one rank each, groups counting as one) that have ended so far.
int ended_collectives();

/// Makes comm_get_async_error of all communicators give `code` from now on; ncclSuccess ends that.
void set_nccl_async_error(ncclResult_t code);

/// Communicators made and neither destroyed nor aborted; and how many were aborted so far.
int live_communicators();
int aborted_communicators();

}  // namespace ronde::test::cuda_double
