#include "ops/execution/auto_compression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ronde {
namespace {

constexpr std::size_t kSmallBytes = 4096;
constexpr std::size_t kFirstBytes = std::size_t{1} << 18;
constexpr std::size_t kMostBytes = std::size_t{1} << 23;
constexpr double kLongEnough = 0.02;  // seconds that tell a link's bandwidth
constexpr double kVeryLong = 0.1;     // seconds after which nothing is timed twice
constexpr int kRepeats = 4;
constexpr int kLongRepeats = 2;
constexpr std::uint64_t kObserveEvery = 16;  // bundles, of those whose choice is known
constexpr std::uint64_t kMostCalm = 4096;
constexpr const char* kFlush = "topk:ratio=1";       // dense, with all residuals
constexpr const char* kFlushRounded = "bf16:ef=on";  // all but their last bits

/// Shapes may differ between ranks where the first extent is free, but the bytes of all do not.
TensorLoad bundle_load(const Bundle& bundle, std::size_t bytes) {
  const std::size_t width = size_of(bundle.dtype);
  if (!traits_of(bundle.kind).element_wise()) {
    const double elements = static_cast<double>(bytes) / static_cast<double>(width);
    return {.width = width, .elements = elements, .low_rank_elements = elements};
  }
  std::vector<Shape> shapes;
  for (const BundleTensor& tensor : bundle.tensors) shapes.push_back(tensor.shape);
  return load_of(shapes, width);
}

/// The share of an allreduce's time: it is a reduce_scatter and an allgather.
double share_of(Collective kind) {
  constexpr int kSomeRanks = 2;
  return traits_of(kind).bus_factor(kSomeRanks) /
         traits_of(Collective::kAllreduce).bus_factor(kSomeRanks);
}

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::vector<double> predict_all(std::span<const CodecKind> kinds, const TensorLoad& load,
                                const LinkCost& link, const CodecCosts& codecs,
                                double share = 1.0) {
  std::vector<double> seconds;
  for (const CodecKind kind : kinds) seconds.push_back(share * predict(kind, load, link, codecs));
  return seconds;
}

std::string_view name_of(CodecKind kind) { return kind == kDense ? "dense" : codec_name(kind); }

std::string milliseconds(double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); }

}  // namespace

Result<AutoChoice> AutoCompression::choose(const Bundle& bundle, std::size_t bytes,
                                           const AbortToken& abort) {
  timing_ = false;
  if (!bundle.compression.starts_with(codec_name(CodecKind::kAuto))) {
    return AutoChoice{.compression = bundle.compression};
  }
  RONDE_ASSIGN_OR_RETURN(const CompressionSpec asked, parse_compression(bundle.compression));
  const bool dense = options_.deterministic || bundle.device.kind != DeviceKind::kCpu;
  const Accuracy accuracy = dense ? Accuracy::kLossless : asked.accuracy;
  RONDE_ASSIGN_OR_RETURN(AutoChoice choice, choose_for(bundle, bytes, accuracy, abort));
  timing_ = true;
  untimed_ns_ = 0;
  begin_ = now();
  if (choice.compression.empty()) return choice;
  // The user's choice of residuals holds.
  RONDE_ASSIGN_OR_RETURN(CompressionSpec spec, parse_compression(choice.compression));
  if (spec.error_feedback) spec.residual = asked.residual;
  choice.compression = to_string(spec);
  return choice;
}

Result<AutoChoice> AutoCompression::choose_for(const Bundle& bundle, std::size_t bytes,
                                               Accuracy accuracy, const AbortToken& abort) {
  last_ = nullptr;
  asked_ = true;
  if (options_.size == 1 || options_.in_memory || accuracy == Accuracy::kLossless) {
    return AutoChoice();
  }
  RONDE_RETURN_IF_ERROR(measure(accuracy, abort));
  const TensorLoad load = bundle_load(bundle, bytes);
  const double share = share_of(bundle.kind);
  Known& known = known_[{bundle.kind, class_of(load, accuracy)}];
  known.load = load;
  known.accuracy = accuracy;
  const auto kinds = candidates(accuracy, load.width, traits_of(bundle.kind).codecs);
  const auto predicted = predict_all(kinds, load, *link_, codecs_, share);
  const CodecKind before = known.history.chosen();
  const CodecKind kind = known.history.choose(kinds, predicted);
  AutoChoice choice;
  choice.changed = known.bundles++ == 0 || kind != before;
  choice.dense_s = predicted[0];
  choice.predicted_s = share * predict(kind, load, *link_, codecs_);
  last_ = &known;
  last_kind_ = kind;
  last_counts_ = !settle_debts(bundle, kind);
  if (!last_counts_) {
    choice.compression = traits_of(bundle.kind).codecs == Codecs::kAny ? kFlush : kFlushRounded;
  } else if (kind != kDense) {
    choice.compression = codec_name(kind);
  }
  ++bundles_;
  if (choice.changed) report(choice, bytes);
  return choice;
}

void AutoCompression::report(const AutoChoice& choice, std::size_t bytes) const {
  EventSink* const events = options_.events == nullptr ? nullptr : options_.events->get();
  if (events == nullptr) return;
  events->instant(kMarksTrack,
                  fmt::format("compression auto: {:.3g} MB {}, predicted {:.3g} ms (dense {:.3g})",
                              static_cast<double>(bytes) * 1e-6,
                              choice.compression.empty() ? "dense" : choice.compression,
                              choice.predicted_s * 1e3, choice.dense_s * 1e3));
}

/// Notes the tensors that may have a residual. True if a bundle, dense or of 16 bits, must also
/// send residuals that earlier codecs left.
bool AutoCompression::settle_debts(const Bundle& bundle, CodecKind kind) {
  if (!traits_of(bundle.kind).reduces) return false;
  const bool lossy = kind != kDense && default_spec(kind).error_feedback;
  bool owed = false;
  for (const std::string& key : bundle.keys) {
    if (key.empty()) continue;
    if (lossy) {
      owed_.insert(key);
    } else {
      owed = owed_.erase(key) > 0 || owed;
    }
  }
  return owed;
}

Status AutoCompression::observe(const AbortToken& abort) {
  if (!std::exchange(timing_, false)) return {};
  return learn(1e-9 * static_cast<double>(to_ns(now() - begin_) - untimed_ns_), abort);
}

Status AutoCompression::learn(double seconds, const AbortToken& abort) {
  if (last_ == nullptr || !last_counts_) return {};
  CostHistory& history = last_->history;
  if (history.settled() && last_->bundles % kObserveEvery != 0) return {};
  const std::int64_t mine = nanoseconds(seconds);
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather({&mine, 1}, abort));
  // The last to come waits for nobody: its time is the allreduce's own.
  const auto least = static_cast<double>(*std::min_element(all.begin(), all.end())) * 1e-9;
  if (history.observe(last_kind_, least)) drift();
  return {};
}

/// Measures the link anew before the next choice, but ever more rarely.
void AutoCompression::drift() {
  if (bundles_ < calm_until_) return;
  calm_until_ = bundles_ + calm_;
  calm_ = std::min(2 * calm_, kMostCalm);
  for (auto& [which, known] : known_) known.history = {};
  link_.reset();
}

Status AutoCompression::measure(Accuracy accuracy, const AbortToken& abort) {
  if (!measured_for_ || *measured_for_ < accuracy) {
    RONDE_RETURN_IF_ERROR(measure_codecs_of(accuracy, abort));
    measured_for_ = accuracy;
  }
  return link_ ? Status() : measure_link(abort);
}

/// The slowest rank's costs count. All ranks measure at once, as they will compress at once: a host
/// may have more ranks than cores.
Status AutoCompression::measure_codecs_of(Accuracy accuracy, const AbortToken& abort) {
  const std::int64_t nothing = 0;
  RONDE_RETURN_IF_ERROR(exchange_.allgather({&nothing, 1}, abort).status());  // all are here
  const CodecCosts mine = measure_codecs(candidates(accuracy, sizeof(float)));
  std::vector<std::int64_t> numbers;
  for (const double cost : mine) numbers.push_back(nanoseconds(1e6 * cost));
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(numbers, abort));
  codecs_ = {};
  for (std::size_t i = 0; i < all.size(); ++i) {
    double& cost = codecs_[i % kCodecKinds];
    cost = std::max(cost, static_cast<double>(all[i]) * 1e-15);
  }
  return {};
}

/// Seconds that a dense allreduce takes the rank that comes last; of short ones the best of some.
Result<double> AutoCompression::time_dense(std::size_t bytes, const AbortToken& abort) {
  std::vector<std::byte> zeros(bytes);
  const Segment segment{zeros.data(), zeros.data(), bytes};
  Work work;
  work.kind = Collective::kAllreduce;
  work.segments = {&segment, 1};
  work.bytes = bytes;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    const std::int64_t nothing = 0;
    RONDE_RETURN_IF_ERROR(exchange_.allgather({&nothing, 1}, abort).status());  // all are here
    const TimePoint begin = now();
    RONDE_RETURN_IF_ERROR(host_.run(work, kNoStream, abort));
    const std::int64_t mine = to_ns(now() - begin);
    RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather({&mine, 1}, abort));
    best = std::min(best, static_cast<double>(*std::min_element(all.begin(), all.end())) * 1e-9);
    if (best >= kVeryLong || (best >= kLongEnough && i + 1 >= kLongRepeats)) break;
  }
  return best;
}

/// Sizes double until one takes long enough to outlast the burst that a traffic shaper lets pass.
/// That size is timed twice: one slow time, beside the best of several, would look like a slow
/// link.
Status AutoCompression::measure_link(const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const double latency, time_dense(kSmallBytes, abort));
  std::vector<DenseTime> times{{kSmallBytes, latency}};
  for (std::size_t bytes = kFirstBytes; bytes <= kMostBytes; bytes *= 2) {
    RONDE_ASSIGN_OR_RETURN(const double seconds, time_dense(bytes, abort));
    times.push_back({bytes, seconds});
    if (seconds >= kLongEnough) break;
  }
  link_ = link_cost(times);
  return {};
}

std::vector<std::string> AutoCompression::explain() const {
  std::vector<std::string> lines;
  if (asked_ && options_.in_memory)
    lines.emplace_back("dense: ranks share memory, which no codec is faster than");
  if (!link_) return lines;
  lines.push_back(fmt::format("dense allreduce: {:.0f} us, and {:.4g} MB/s", link_->latency_s * 1e6,
                              link_->byte_s > 0 ? 1e-6 / link_->byte_s : 0.0));
  for (const auto& [which, known] : known_) {
    const CodecKind kind = known.history.chosen();
    const double seen = known.history.seen(kind);
    const double share = share_of(which.first);
    lines.push_back(fmt::format(
        "{}{:.3g} MB, {}: {}; predicted {}",
        which.first == Collective::kAllreduce ? "" : fmt::format("{} of ", to_string(which.first)),
        known.load.elements * 1e-6 * static_cast<double>(known.load.width),
        to_string(known.accuracy), name_of(kind),
        milliseconds(share * predict(kind, known.load, *link_, codecs_))));
    if (seen > 0) lines.back() += fmt::format(", takes {}", milliseconds(seen));
    if (kind != kDense) {
      lines.back() +=
          fmt::format(" (dense: predicted {})",
                      milliseconds(share * predict(kDense, known.load, *link_, codecs_)));
    }
  }
  return lines;
}

std::string explain_choice(Accuracy accuracy, const TensorLoad& load, const LinkCost& link,
                           const CodecCosts& codecs) {
  const auto kinds = candidates(accuracy, load.width);
  const auto predicted = predict_all(kinds, load, link, codecs);
  const CodecKind best = CostHistory().choose(kinds, predicted);
  if (best == kDense) return fmt::format("dense, {}", milliseconds(predicted[0]));
  return fmt::format("{}, {} (dense {})", name_of(best),
                     milliseconds(predict(best, load, link, codecs)), milliseconds(predicted[0]));
}

}  // namespace ronde
