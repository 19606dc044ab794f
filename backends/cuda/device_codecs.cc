#include "backends/cuda/device_codecs.h"

#include <fmt/format.h>

#include "backends/cuda/calls.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/table_launches.h"

namespace ronde::cuda {
namespace {

EncodeEntry entry_of(const EncodeRun& run) {
  return {.values = run.values,
          .residual = run.residual,
          .lost = run.lost,
          .added = reinterpret_cast<const std::uint8_t*>(run.added),
          .frame = reinterpret_cast<std::uint8_t*>(run.frame),
          .count = run.count,
          .offset = run.offset,
          .first_tile = 0,
          .key = run.key};
}
DecodeEntry entry_of(const DecodeRun& run) {
  return {reinterpret_cast<const std::uint8_t*>(run.frame), run.out, run.flag, run.count, 0};
}
TopEntry entry_of(const SelectRun& run) {
  auto* const selection = reinterpret_cast<Selection*>(run.scratch);
  return {{.values = run.values,
           .factor = static_cast<float>(run.factor),
           .residual = run.residual,
           .left = run.left,
           .count = run.count,
           .k = run.most,
           .selection = selection,
           .chunks = reinterpret_cast<Tally*>(selection + 1),
           .indices = run.indices,
           .chosen = run.chosen,
           .found = run.found},
          0};
}
ScatterEntry entry_of(const ScatterRun& run) {
  return {run.indices, run.values, run.out, run.flag, run.count, 0};
}
CommitEntry entry_of(const CommitRun& run) { return {run.from, run.to, run.flag, run.count, 0}; }

/// Launches all runs on the device. Errors: CUDA's.
template <typename Small, typename Large, typename Run, typename Launch>
Status launch_all(int device, std::span<const Run> runs, const typename Small::Traits& traits,
                  std::size_t tile, const Launch& launch) {
  const CurrentDevice current(device);
  RONDE_RETURN_IF_ERROR(current.status());
  const auto entry = [](const Run& run) { return entry_of(run); };
  return status_of(launch_tables<Small, Large>(runs, traits, tile, entry, launch),
                   "a kernel of compression", device);
}

Status check(DType dtype) {
  if (visit_floating(dtype, []<typename Element>() {})) return {};
  return {Code::kUnsupported, fmt::format("no kernel compresses {}", to_string(dtype))};
}

}  // namespace

Status CudaCodecs::encode(const EncodeWork& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(check(work.from));
  const EncodeTraits traits{work.code, static_cast<float>(work.factor),
                            static_cast<unsigned>(work.added_frames), work.added_stride};
  return launch_all<SmallEncodeTable, LargeEncodeTable>(
      device_, work.runs, traits, encoded_tile(work.code),
      [&](const auto& table, std::size_t tiles) {
        return launch_encode(table, work.from, tiles, static_cast<cudaStream_t>(stream));
      });
}

Status CudaCodecs::decode(const DecodeWork& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(check(work.to));
  return launch_all<SmallDecodeTable, LargeDecodeTable>(
      device_, work.runs, {work.code}, decoded_tile(work.code),
      [&](const auto& table, std::size_t tiles) {
        return launch_decode(table, work.to, tiles, static_cast<cudaStream_t>(stream));
      });
}

Status CudaCodecs::commit(std::span<const CommitRun> runs, DeviceStream stream) {
  return launch_all<SmallCommitTable, LargeCommitTable>(
      device_, runs, {}, kTileElements, [&](const auto& table, std::size_t tiles) {
        return launch_commit(table, tiles, static_cast<cudaStream_t>(stream));
      });
}

std::size_t CudaCodecs::select_scratch(std::size_t count) const noexcept {
  return sizeof(Selection) + tiles_of(count, kChunk) * sizeof(Tally);
}

Status CudaCodecs::select(const SelectWork& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(check(work.from));
  return launch_all<SmallTopTable, LargeTopTable>(
      device_, work.runs, {}, kTopTile, [&](const auto& table, std::size_t blocks) {
        return launch_select(table, work.from, blocks, static_cast<cudaStream_t>(stream));
      });
}

Status CudaCodecs::scatter(const ScatterWork& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(check(work.to));
  return launch_all<SmallScatterTable, LargeScatterTable>(
      device_, work.runs, {work.adds}, kScatterTile, [&](const auto& table, std::size_t tiles) {
        return launch_scatter(table, work.to, tiles, static_cast<cudaStream_t>(stream));
      });
}

}  // namespace ronde::cuda
