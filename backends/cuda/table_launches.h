// Splits any number of runs into launches of tables.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "backends/cuda/table.h"

namespace ronde::cuda {

/// Launches one table with the first of `runs` and removes them from `runs`. Runs without elements
/// take no entry. `entry_of(run)` makes an entry; `launch(table, tiles)` launches.
template <typename Table, typename Run, typename EntryOf, typename Launch>
cudaError_t launch_table(std::span<const Run>& runs, const typename Table::Traits& traits,
                         std::size_t tile, const EntryOf& entry_of, const Launch& launch) {
  Table table;
  table.traits = traits;
  table.count = 0;
  std::size_t tiles = 0;
  for (; !runs.empty() && table.count < Table::kCapacity; runs = runs.subspan(1)) {
    if (runs.front().count == 0) continue;
    auto& entry = table.entries[table.count++];
    entry = entry_of(runs.front());
    entry.first_tile = tiles;
    tiles += tiles_of(entry.count, tile);
  }
  return tiles == 0 ? cudaSuccess : launch(table, tiles);
}

/// Launches all runs, in small tables where they fit. Stops at the first error.
template <typename Small, typename Large, typename Run, typename EntryOf, typename Launch>
cudaError_t launch_tables(std::span<const Run> runs, const typename Small::Traits& traits,
                          std::size_t tile, const EntryOf& entry_of, const Launch& launch) {
  cudaError_t code = cudaSuccess;
  while (!runs.empty() && code == cudaSuccess) {
    code = runs.size() <= Small::kCapacity
               ? launch_table<Small>(runs, traits, tile, entry_of, launch)
               : launch_table<Large>(runs, traits, tile, entry_of, launch);
  }
  return code;
}

}  // namespace ronde::cuda
