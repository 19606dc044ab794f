// What a report knows of a job: the operations, waits and marks of every rank on one clock.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/collective.h"
#include "timeline/recording.h"

namespace ronde::report {

/// Texts by number: traces say the same few names millions of times.
class Names {
 public:
  /// The number of `text`, a new one where it was not seen before.
  std::uint32_t number_of(std::string_view text);
  [[nodiscard]] const std::string& text_of(std::uint32_t number) const { return texts_[number]; }
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> texts_;
};

/// How data moved. The number of a path is its place in JobTrace::paths.
struct Path {
  std::optional<Collective> collective;  ///< None: one that this version does not know.
  std::string event;                     ///< As the trace calls it: "ALLREDUCE".
  std::string algorithm;                 ///< Empty, or "native": the data plane's own.
  std::string backend;

  /// "ALLREDUCE ring over tcp".
  [[nodiscard]] std::string text() const;
  auto operator<=>(const Path&) const = default;
};

/// One bundle on one rank. Times are nanoseconds on the job's clock.
struct OperationSpan {
  std::uint64_t bundle = 0;          ///< The same on all ranks.
  std::int64_t first_submit_ns = 0;  ///< Of its tensors.
  std::int64_t last_submit_ns = 0;
  std::int64_t agreed_ns = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t pack_ns = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tensors = 0;
  std::uint32_t name = 0;  ///< Of its first tensor.
  std::uint32_t path = 0;
  bool compressed = false;
};

/// A stretch of time with a name.
struct NamedSpan {
  std::uint32_t name = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool is_pass = false;  ///< Of training, as a binding says: forward, backward, ...
};

/// The end of a training step.
struct StepMark {
  std::uint64_t number = 0;
  std::int64_t time_ns = 0;
};

/// How long the training thread had been ready to run without a core by then, since it began.
struct CoreWaitSample {
  std::int64_t time_ns = 0;
  std::int64_t waited_ns = 0;
};

/// An operation that had not ended where the trace ends.
struct Unfinished {
  std::uint32_t name = 0;
  std::int64_t since_ns = 0;
  bool agreed = false;  ///< Moving data, rather than waiting for other ranks.
};

/// What the processor takes, with those that share it, to compress, move in its compressed form and
/// expand what an allreduce moves: nanoseconds for each byte of fp32; 0: not told.
struct CodingCost {
  double fp16_ns = 0;
  double int8_ns = 0;
};

/// The trace of one rank.
struct RankTrace {
  RecordingInfo info;
  std::string path;
  bool truncated = false;
  std::uint64_t lost_events = 0;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::vector<OperationSpan> operations;  ///< By their ends.
  std::vector<NamedSpan> waits;           ///< A thread of the user's blocked in Ronde.
  std::vector<NamedSpan> marks;           ///< The user's own spans, and those of training.
  std::vector<NamedSpan> pauses;          ///< While nothing was recorded.
  std::vector<StepMark> steps;
  double memory_gbps = 0;  ///< What one of its threads copied when recording ended; 0: not told.
  CodingCost coding;       ///< Likewise.
  std::vector<CoreWaitSample> core_waits;  ///< Empty where the kernel does not tell.
  std::vector<Unfinished> unfinished;
};

/// Sums over all ranks of one tensor's operations.
struct TensorCost {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::int64_t negotiation_ns = 0;
  std::int64_t execution_ns = 0;
};

/// The traces of one job. Memory grows with operations (about 90 bytes each), not with events.
struct JobTrace {
  std::vector<RankTrace> ranks;  ///< By rank; not all need be there.
  Names names;
  std::vector<Path> paths;
  std::map<std::uint32_t, TensorCost> tensors;
  std::vector<std::string> notes;  ///< What a reader of the report ought to know of the traces.
  std::uint64_t events = 0;
  bool running = false;  ///< The job goes on: what has not ended is under way.

  /// The number of `path`, a new one where it was not seen before.
  std::uint32_t number_of(const Path& path);
};

}  // namespace ronde::report
