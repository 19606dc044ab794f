// Doubles of the launches of compression's kernels.
#include <memory>
#include <utility>

#include "backends/cuda/codec_kernels.h"
#include "backends/cuda/top_kernels.h"
#include "tests/support/cuda_double/codec_runs.h"
#include "tests/support/cuda_double/cudart_double.h"
#include "tests/support/top_blocks.h"

namespace ronde::cuda {
namespace {

/// Queues run(copy of the table).
template <typename Table, typename Run>
cudaError_t queue(const Table& table, cudaStream_t stream, Run run) {
  const auto copy = std::make_shared<Table>(table);
  return test::cuda_double::launch(stream, [copy, run] { run(*copy); });
}

template <typename Table>
cudaError_t encode_any(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  return queue(table, stream, [type, tiles](const Table& copy) {
    test::cuda_double::run_encode(copy, type, tiles);
  });
}

template <typename Table>
cudaError_t decode_any(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  return queue(table, stream, [type, tiles](const Table& copy) {
    test::cuda_double::run_decode(copy, type, tiles);
  });
}

template <typename Table>
cudaError_t select_any(const Table& table, DType type, std::size_t blocks, cudaStream_t stream) {
  return queue(table, stream,
               [type, blocks](const Table& copy) { test::select_on_host(copy, type, blocks); });
}

template <typename Table>
cudaError_t scatter_any(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  return queue(table, stream, [type, tiles](const Table& copy) {
    test::cuda_double::run_scatter(copy, type, tiles);
  });
}

template <typename Table>
cudaError_t commit_any(const Table& table, std::size_t tiles, cudaStream_t stream) {
  return queue(table, stream,
               [tiles](const Table& copy) { test::cuda_double::run_commit(copy, tiles); });
}

}  // namespace

cudaError_t launch_encode(const SmallEncodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream) {
  return encode_any(table, type, tiles, stream);
}

cudaError_t launch_encode(const LargeEncodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream) {
  return encode_any(table, type, tiles, stream);
}

cudaError_t launch_decode(const SmallDecodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream) {
  return decode_any(table, type, tiles, stream);
}

cudaError_t launch_decode(const LargeDecodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream) {
  return decode_any(table, type, tiles, stream);
}

cudaError_t launch_scatter(const SmallScatterTable& table, DType type, std::size_t tiles,
                           cudaStream_t stream) {
  return scatter_any(table, type, tiles, stream);
}

cudaError_t launch_scatter(const LargeScatterTable& table, DType type, std::size_t tiles,
                           cudaStream_t stream) {
  return scatter_any(table, type, tiles, stream);
}

int launch_select(const SmallTopTable& table, DType type, std::size_t blocks, void* stream) {
  return select_any(table, type, blocks, static_cast<cudaStream_t>(stream));
}

int launch_select(const LargeTopTable& table, DType type, std::size_t blocks, void* stream) {
  return select_any(table, type, blocks, static_cast<cudaStream_t>(stream));
}

cudaError_t launch_commit(const SmallCommitTable& table, std::size_t tiles, cudaStream_t stream) {
  return commit_any(table, tiles, stream);
}

cudaError_t launch_commit(const LargeCommitTable& table, std::size_t tiles, cudaStream_t stream) {
  return commit_any(table, tiles, stream);
}

}  // namespace ronde::cuda
