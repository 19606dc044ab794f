// What of the conformance suite holds over NCCL. Left out is what NCCL does not promise: 16-bit
// averages that are rounded once.
#pragma once

#include "tests/conformance/conformance.h"

/// As RONDE_CONFORMANCE.
#define RONDE_NCCL_CONFORMANCE(name, Fixture)                                                  \
  RONDE_CONFORMANCE_CASE_(name ": allreduce of every type, op and count", Fixture,             \
                          conformance_allreduce)                                               \
  RONDE_CONFORMANCE_CASE_(name ": allreduce of large tensors", Fixture,                        \
                          conformance_large_allreduce)                                         \
  RONDE_CONFORMANCE_CASE_(name ": factors are applied before and after", Fixture,              \
                          conformance_scaling)                                                 \
  RONDE_CONFORMANCE_CASE_(name ": a NaN of any rank reaches every rank", Fixture,              \
                          conformance_not_a_number)                                            \
  RONDE_CONFORMANCE_CASE_(name ": bundles of several tensors, some empty", Fixture,            \
                          conformance_fused)                                                   \
  RONDE_CONFORMANCE_CASE_(name ": a joined rank counts as zeros", Fixture, conformance_joined) \
  RONDE_CONFORMANCE_CASE_(name ": reduce to every root", Fixture, conformance_reduce)          \
  RONDE_CONFORMANCE_CASE_(name ": broadcast from every root", Fixture, conformance_broadcast)  \
  RONDE_CONFORMANCE_CASE_(name ": allgather of uneven parts", Fixture, conformance_allgather)  \
  RONDE_CONFORMANCE_CASE_(name ": gather to and scatter from every root", Fixture,             \
                          conformance_gather_scatter)                                          \
  RONDE_CONFORMANCE_CASE_(name ": reduce_scatter gives the first ranks one row more", Fixture, \
                          conformance_reduce_scatter)                                          \
  RONDE_CONFORMANCE_CASE_(name ": alltoall with even and uneven splits", Fixture,              \
                          conformance_alltoall)                                                \
  RONDE_CONFORMANCE_CASE_(name ": wrong splits are an error on all ranks, and work goes on",   \
                          Fixture, conformance_wrong_splits)                                   \
  RONDE_CONFORMANCE_CASE_(name ": a long mixed sequence without synchronisation", Fixture,     \
                          conformance_sequence)
