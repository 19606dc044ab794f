// The loop of all collectives. Each slice is written to this rank's slot in one step and read from
// the others' slots in the next. So ranks rarely wait for each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "backends/shm/collectives/cursor.h"
#include "backends/shm/memory/memory.h"
#include "backends/shm/memory/slot_checks.h"
#include "backends/shm/memory/steps.h"
#include "core/ports/backend.h"
#include "core/ports/phases.h"
#include "core/ports/reduce_kernels.h"
#include "core/ports/value_watch.h"

namespace ronde::shm {

/// Memory that calls reuse, so that small operations allocate nothing.
struct Scratch {
  std::vector<std::vector<Segment>> chunks;  ///< By rank: the pieces of that rank's chunk.
  std::vector<Cursor> cursors;               ///< By rank.
  std::vector<const void*> inputs;           ///< By rank.
  std::vector<std::byte> copy;               ///< Of an input that the output would overwrite.
  std::vector<std::byte> staging;            ///< Blocks of other ranks' inputs.
};

class WritePermission;
struct Reach;

/// The tools of a collective.
struct Context {
  Steps& steps;
  const Reach& reach;
  WritePermission& permission;
  const ReduceKernels& kernels;
  Scratch& scratch;
  const Stop& stop;
  PhaseObserver* phases = nullptr;  ///< As Work::phases.
  ValueWatch* watch = nullptr;      ///< As Work::watch.
  SlotChecks* checks = nullptr;     ///< Null: slots have no checksums.
};

inline PlaceInWork place_of(const Cursor& cursor) noexcept {
  return {cursor.segment(), cursor.within()};
}

/// Fills a part of this rank's slot of the current step: `copy(bytes, to, sum)` puts its next bytes
/// there, and adds them to `sum` if that is not null.
template <typename Copy>
void write_part(const Context& with, std::size_t index, std::byte* to, std::size_t bytes,
                Copy copy) {
  if (with.checks == nullptr) return copy(bytes, to, nullptr);
  Checksum sum;
  for_each_block(bytes, [&](std::size_t at, std::size_t size) { copy(size, to + at, &sum); });
  with.checks->seal(with.steps.current(), index, sum);
}

/// Reads a part from `from` on: `use(from, bytes, sum)` takes its next bytes, and adds them to
/// `sum` if that is not null. `place`: where they belong in the work.
template <typename Use>
void read_part(const Context& with, const SlotPart& part, const std::byte* from, std::size_t bytes,
               PlaceInWork place, Use use) {
  if (with.checks == nullptr) return use(from, bytes, nullptr);
  Checksum sum;
  for_each_block(bytes, [&](std::size_t at, std::size_t size) { use(from + at, size, &sum); });
  with.checks->compare(part, sum, bytes, place);
}

/// Ok, or the error of a part that had changed.
inline Status checked(const Context& with) {
  return with.checks == nullptr ? Status() : with.checks->found();
}

/// Tells the others in the current step if this rank has found an odd result.
inline void note_odd(const Context& with, bool found) noexcept {
  if (with.watch != nullptr) with.steps.set_note(found ? 1 : 0);
}

/// True if a rank has told so in `step`, which all have arrived at. The watch is told, too.
inline bool read_odd(const Context& with, Step step) noexcept {
  bool odd = false;
  for (int r = 0; with.watch != nullptr && r < with.steps.ranks(); ++r) {
    odd = odd || with.steps.note(r, step) != 0;
  }
  if (odd) with.watch->tell();
  return odd;
}

/// Bytes of a collective for each reported stretch of its slices: about a millisecond.
inline constexpr std::size_t kStretchBytes = std::size_t{8} << 20;
inline constexpr std::string_view kStagePhase = "stage";
inline constexpr std::string_view kWaitPhase = "wait for ranks";

/// The observer of the phases of a collective that has no slices; null if it is small.
inline PhaseObserver* observer_of_large(const Context& with) noexcept {
  const bool large = with.phases != nullptr && with.phases->bytes() >= kStretchBytes / 2;
  return large ? with.phases : nullptr;
}

/// The rank whose slots are read, or one of these.
inline constexpr int kEverybody = -1;
inline constexpr int kNobody = -2;

/// True if the outputs of a tensor of `bytes` are written past the caches.
inline bool streams(const Context& with, std::size_t bytes) noexcept {
  return outgrows_caches(with.steps.ranks(), bytes);
}

/// Slices begin on cache lines.
inline constexpr std::size_t kAlign = 64;

/// A stream of bytes cut into equal slices.
struct Slices {
  std::size_t size = 0;   ///< Bytes of each, a multiple of kAlign.
  std::size_t count = 0;  ///< How many cover the longest stream.
};

/// The fewest slices of at most `limit` bytes (at least kAlign) that cover `bytes`.
inline Slices cut(std::size_t bytes, std::size_t limit) noexcept {
  const std::size_t most = limit / kAlign * kAlign;
  const std::size_t count = (bytes + most - 1) / most;
  const std::size_t even = count == 0 ? 0 : (bytes + count - 1) / count;
  return {.size = (even + kAlign - 1) / kAlign * kAlign, .count = count};
}

/// Waits until the ranks that this one reads have arrived at `step`.
inline Status wait_for_sources(Steps& steps, int sources, Step step, const Stop& stop) {
  if (sources == kNobody) return {};
  return sources == kEverybody ? steps.wait_all(step, stop) : steps.wait(sources, step, stop);
}

/// Runs `count` steps: Status write(k, slot) fills this rank's slot; read(k, step) reads the slots
/// of `sources`. Slice k + 1 is written before slice k is read. `count` is the same on all ranks.
/// Reports the slices to `told`.
template <typename Write, typename Read>
Status stream(const Context& with, PhaseSteps& told, std::size_t count, int sources, Write write,
              Read read) {
  Steps& steps = with.steps;
  for (std::size_t k = 0; k <= count; ++k) {
    const Step before = steps.current() - 1;
    if (k < count) {
      told.next();
      RONDE_RETURN_IF_ERROR(steps.begin(with.stop));
      RONDE_RETURN_IF_ERROR(write(k, steps.slot(steps.rank(), steps.current())));
      steps.arrive();
    }
    if (k == 0) continue;
    {
      const Phase waiting(told.detail(), kWaitPhase);
      RONDE_RETURN_IF_ERROR(wait_for_sources(steps, sources, before, with.stop));
    }
    const Phase reading(told.detail(), "deliver");
    read(k - 1, before);
    RONDE_RETURN_IF_ERROR(checked(with));
  }
  return {};
}

/// The same for a `write` that only stages: reports its phases too.
template <typename Write, typename Read>
Status stream(const Context& with, std::size_t count, int sources, Write write, Read read) {
  PhaseSteps told(with.phases, "chunk", count, kStretchBytes);
  const auto stage = [&](std::size_t k, std::byte* slot) {
    const Phase staging(told.detail(), kStagePhase);
    return write(k, slot);
  };
  return stream(with, told, count, sources, stage, read);
}

}  // namespace ronde::shm
