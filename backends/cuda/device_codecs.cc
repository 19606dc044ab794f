#include "backends/cuda/device_codecs.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/current_device.h"
#include "backends/cuda/kernels.h"

namespace ronde::cuda {
namespace {

EncodeStrip strip_of(const EncodeRun& run) {
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
DecodeStrip strip_of(const DecodeRun& run) {
  return {reinterpret_cast<const std::uint8_t*>(run.frame), run.out, run.flag, run.count, 0};
}
TopStrip strip_of(const SelectRun& run) {
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
ScatterStrip strip_of(const ScatterRun& run) {
  return {run.indices, run.values, run.out, run.flag, run.count, 0};
}
CommitStrip strip_of(const CommitRun& run) { return {run.from, run.to, run.flag, run.count, 0}; }

/// One launch for the runs that fill a table, which are taken off `runs`; those without elements
/// are left out. `launch` is given the table and its tiles.
template <typename Table, typename Run, typename Launch>
cudaError_t launch_table(std::span<const Run>& runs, const typename Table::Traits& traits,
                         std::size_t tile, const Launch& launch) {
  Table table;
  table.traits = traits;
  table.count = 0;
  std::size_t tiles = 0;
  for (; !runs.empty() && table.count < Table::kCapacity; runs = runs.subspan(1)) {
    if (runs.front().count == 0) continue;
    auto& strip = table.strips[table.count++];
    strip = strip_of(runs.front());
    strip.first_tile = tiles;
    tiles += tiles_of(strip.count, tile);
  }
  return tiles == 0 ? cudaSuccess : launch(table, tiles);
}

template <typename Small, typename Large, typename Run, typename Launch>
Status launch_all(int device, std::span<const Run> runs, const typename Small::Traits& traits,
                  std::size_t tile, const Launch& launch) {
  const CurrentDevice current(device);
  RONDE_RETURN_IF_ERROR(current.status());
  while (!runs.empty()) {
    const cudaError_t code = runs.size() <= Small::kCapacity
                                 ? launch_table<Small>(runs, traits, tile, launch)
                                 : launch_table<Large>(runs, traits, tile, launch);
    RONDE_RETURN_IF_ERROR(status_of(code, "a kernel of compression", device));
  }
  return {};
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
