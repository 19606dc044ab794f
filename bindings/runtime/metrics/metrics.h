// The metrics of one rank as Prometheus reads them. docs/metrics.md lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine/records/meter.h"
#include "core/ports/connection_counts.h"

namespace ronde::metrics {

/// The content type of the text.
inline constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

/// Names and values, in the order in which they are written.
using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

/// Writes families one after the other; the samples of one follow its head.
/// Source: prometheus.io, "Exposition formats". Threads: one.
class Exposition {
 public:
  /// `common`: labels of every sample.
  explicit Exposition(Labels common) : common_(std::move(common)) {}

  /// Begins a family. `type`: "counter", "gauge" or "histogram".
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(std::uint64_t value, const Labels& labels = {});
  void seconds(std::uint64_t ns);
  void histogram(const DurationHistogram& durations, const Labels& labels = {});

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void begin_sample(std::string_view suffix, const Labels& labels, std::string_view bound = {});
  void append_labels(const Labels& labels);

  const Labels common_;
  std::string name_;
  std::string text_;
};

/// The identity of the rank.
struct RankFacts {
  std::string version;
  std::string job;
  std::string host;
  int rank = 0;
  int size = 1;
  int worker = 0;
  int epoch = 0;  ///< 0: the job is not elastic.
};

/// Facts that the meter lacks.
struct RankState {
  std::uint64_t steps = 0;                        ///< Marked as ended.
  bool broken = false;                            ///< The job has failed.
  const ConnectionCounts* connections = nullptr;  ///< Null: they are not shown.
  /// Ways to a next epoch after failures, and after changes; null: the job is not elastic.
  const DurationHistogram* recoveries = nullptr;
  const DurationHistogram* changes = nullptr;
};

/// All metrics in Prometheus' text format; at most some 100 KB. Threads: any. Blocks: never.
std::string metrics_text(const RankFacts& facts, const RankState& state, const Meter& meter);

}  // namespace ronde::metrics
