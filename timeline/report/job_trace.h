// A job's traces in memory: the operations, waits and marks of every rank, on one clock.
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
#include "core/base/status.h"
#include "timeline/reading/trace_reader.h"
#include "timeline/recording/trace_head.h"

namespace ronde::report {

/// Numbers for texts, as traces repeat few names millions of times.
class Names {
 public:
  /// The number of `text`. New texts get a new number.
  std::uint32_t number_of(std::string_view text);
  [[nodiscard]] const std::string& text_of(std::uint32_t number) const { return texts_[number]; }
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> texts_;
};

/// The way that data moved. A path's number is its index in JobTrace::paths.
struct Path {
  std::optional<Collective> collective = {};  ///< None if this version does not know it.
  std::string event = {};                     ///< The event's name: "ALLREDUCE".
  std::string algorithm = {};                 ///< Empty or "native": the data plane's own.
  std::string backend = {};

  /// "ALLREDUCE ring over tcp".
  [[nodiscard]] std::string text() const;
  auto operator<=>(const Path&) const = default;
};

/// One bundle on one rank. Times are nanoseconds on the job's clock.
struct OperationSpan {
  std::uint64_t bundle = 0;          ///< Its number, the same on all ranks.
  std::int64_t first_submit_ns = 0;  ///< First submission of its tensors.
  std::int64_t last_submit_ns = 0;
  std::int64_t agreed_ns = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t pack_ns = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tensors = 0;
  std::uint32_t name = 0;  ///< The track of its first tensor.
  std::uint32_t path = 0;
  bool compressed = false;
};

/// A stretch of time with a name.
struct NamedSpan {
  std::uint32_t name = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool is_pass = false;     ///< A part of training: forward, backward, ...
  bool is_message = false;  ///< Of a wait: for a message, not for a collective.
};

/// A message with another rank, which has ended.
struct MessageSpan {
  int peer = -1;  ///< A rank of the job.
  bool is_send = false;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

/// The end of a training step.
struct StepMark {
  std::uint64_t number = 0;
  std::int64_t time_ns = 0;
};

/// A total of time, as it was at a moment.
struct TotalSample {
  std::int64_t time_ns = 0;
  std::int64_t total_ns = 0;
};

/// An operation that had not ended at the end of the trace.
struct Unfinished {
  std::uint32_t name = 0;
  std::int64_t since_ns = 0;
  bool agreed = false;  ///< True: moving data. False: waiting for other ranks.
};

/// CPU time of an allreduce's compression: coding, moving and decoding, in nanoseconds for each
/// byte of fp32; 0: unknown.
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
  std::vector<OperationSpan> operations;  ///< By end.
  std::vector<NamedSpan> waits;           ///< A user's thread was blocked in Ronde.
  std::vector<MessageSpan> messages;      ///< With one peer, one way: by end.
  std::vector<NamedSpan> marks;           ///< The user's spans, and parts of training.
  std::vector<NamedSpan> pauses;          ///< Nothing was recorded.
  std::vector<NamedSpan> outages;         ///< Of a connection with another host: "OUTAGE rank 1".
  std::vector<StepMark> steps;
  std::vector<StepMark> commits;       ///< Steps that an elastic job has committed.
  std::vector<NamedSpan> transitions;  ///< To this epoch, with their parts.
  double memory_gbps = 0;  ///< Speed of one thread's copy at the end of the recording; 0: unknown.
  CodingCost coding;       ///< Measured at the end of the recording.
  /// Time that the training thread was runnable without a core; empty if the kernel does not
  /// report it.
  std::vector<TotalSample> core_waits;
  std::vector<TotalSample> cpu;  ///< CPU time of the process; empty in early traces.
  std::vector<Unfinished> unfinished;
};

/// Sums over one tensor's operations on all ranks.
struct TensorCost {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::int64_t negotiation_ns = 0;
  std::int64_t execution_ns = 0;
};

/// The traces of one job, or of one epoch of an elastic job. Memory: about 90 bytes for each
/// operation.
struct JobTrace {
  int epoch = 0;                 ///< 0: the job is not elastic.
  std::vector<RankTrace> ranks;  ///< By rank; some may be missing.
  Names names;
  std::vector<Path> paths;
  std::map<std::uint32_t, TensorCost> tensors;
  /// The part of these sums before a rank's first step.
  std::map<std::uint32_t, TensorCost> start_up_tensors;
  std::vector<std::string> notes;  ///< Remarks about the traces for readers of the report.
  std::uint64_t events = 0;
  bool running = false;  ///< The job still runs, so unfinished operations are pending.

  /// The number of `path`. New paths get a new number.
  std::uint32_t number_of(const Path& path);
};

/// "rank 3", or in an elastic job "worker 4".
std::string label_of(const RecordingInfo& info);

/// The traces of a job that is not elastic, or of an elastic job's longest epoch: see load_job().
Result<JobTrace> load_traces(const std::vector<std::string>& paths,
                             const ReadProgress& progress = {});

}  // namespace ronde::report
