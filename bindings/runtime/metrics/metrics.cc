#include "bindings/runtime/metrics/metrics.h"

#include <fmt/format.h>

namespace ronde::metrics {
namespace {

constexpr double kSecond = 1e9;

/// Backslashes and line ends are escaped everywhere, quotes in the values of labels.
void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c;
  }
}

void append_label(std::string& out, std::string_view name, std::string_view value) {
  out.append(out.back() == '{' ? "" : ",").append(name).append("=\"");
  append_escaped(out, value, true);
  out += '"';
}

}  // namespace

void Exposition::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_.append("# HELP ").append(name).append(" ");
  append_escaped(text_, help, false);
  text_ += fmt::format("\n# TYPE {} {}\n", name, type);
}

void Exposition::append_labels(const Labels& labels) {
  for (const auto& [name, value] : labels) append_label(text_, name, value);
}

void Exposition::begin_sample(std::string_view suffix, const Labels& labels,
                              std::string_view bound) {
  text_.append(name_).append(suffix).append("{");
  append_labels(common_);
  append_labels(labels);
  if (!bound.empty()) append_label(text_, "le", bound);
  text_ += "} ";
}

void Exposition::sample(std::uint64_t value, const Labels& labels) {
  begin_sample("", labels);
  text_ += fmt::format("{}\n", value);
}

void Exposition::seconds(std::uint64_t ns) {
  begin_sample("", {});
  text_ += fmt::format("{}\n", static_cast<double>(ns) / kSecond);
}

void Exposition::histogram(const DurationHistogram& durations, const Labels& labels) {
  // The count is the sum of the buckets as they were read, so that both always agree.
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= DurationHistogram::kBoundsNs.size(); ++i) {
    count += durations.in_bucket(i);
    const bool last = i == DurationHistogram::kBoundsNs.size();
    const std::string bound =
        last ? "+Inf"
             : fmt::format("{}", static_cast<double>(DurationHistogram::kBoundsNs[i]) / kSecond);
    begin_sample("_bucket", labels, bound);
    text_ += fmt::format("{}\n", count);
  }
  begin_sample("_sum", labels);
  text_ += fmt::format("{}\n", static_cast<double>(durations.sum_ns()) / kSecond);
  begin_sample("_count", labels);
  text_ += fmt::format("{}\n", count);
}

namespace {

/// A family of one sample.
void single(Exposition& out, std::string_view name, std::string_view type, std::string_view help,
            std::uint64_t value) {
  out.family(name, type, help);
  out.sample(value);
}

/// A sample of every kind that was submitted at all.
template <typename Write>
void for_each_kind(const Meter& meter, Write write) {
  for (int kind = 0; kind < static_cast<int>(kMeterKinds); ++kind) {
    const KindMeter& counted = meter.kind(kind);
    if (counted.submitted.get() > 0) write(Labels{{"kind", operation_kind_name(kind)}}, counted);
  }
}

void per_kind(Exposition& out, const Meter& meter, const Counter KindMeter::*count) {
  for_each_kind(meter, [&](const Labels& labels, const KindMeter& kind) {
    out.sample((kind.*count).get(), labels);
  });
}

void per_kind(Exposition& out, const Meter& meter, const DurationHistogram KindMeter::*durations) {
  for_each_kind(meter, [&](const Labels& labels, const KindMeter& kind) {
    out.histogram(kind.*durations, labels);
  });
}

void write_errors(Exposition& out, const Meter& meter) {
  for_each_kind(meter, [&](Labels labels, const KindMeter& kind) {
    for (std::size_t code = 1; code < kMeterCodes; ++code) {
      if (kind.failed[code].get() == 0) continue;
      Labels with_code = labels;
      with_code.emplace_back("code", to_string(static_cast<Code>(code)));
      out.sample(kind.failed[code].get(), with_code);
    }
  });
}

void write_operations(Exposition& out, const Meter& meter) {
  out.family("ronde_operations_submitted_total", "counter", "Operations this rank has submitted.");
  per_kind(out, meter, &KindMeter::submitted);
  out.family("ronde_operations_total", "counter", "Operations that have ended, well or not.");
  per_kind(out, meter, &KindMeter::ended);
  out.family("ronde_operation_bytes_total", "counter",
             "Bytes this rank put into operations that have ended.");
  per_kind(out, meter, &KindMeter::ended_bytes);
  out.family("ronde_operation_errors_total", "counter",
             "Operations that ended with an error, by its code.");
  write_errors(out, meter);
  out.family("ronde_operation_latency_seconds", "histogram",
             "Time from submission to the end of operations that ended well.");
  per_kind(out, meter, &KindMeter::latency);
  out.family("ronde_arrival_lead_seconds", "histogram",
             "Time from this rank's submission until all ranks had submitted: small on the rank "
             "that the others wait for.");
  per_kind(out, meter, &KindMeter::lead);
  single(out, "ronde_operations_in_flight", "gauge", "Operations submitted and not ended.",
         meter.in_flight());
  single(out, "ronde_bytes_in_flight", "gauge", "Bytes of operations submitted and not ended.",
         meter.bytes_in_flight());
}

void write_bundles(Exposition& out, const Meter& meter) {
  single(out, "ronde_bundles_total", "counter", "Bundles of fused tensors, or pieces, moved.",
         meter.bundles.get());
  single(out, "ronde_bundle_tensors_total", "counter", "Tensors in these bundles.",
         meter.bundled_tensors.get());
  single(out, "ronde_bundle_bytes_total", "counter", "Bytes this rank put into these bundles.",
         meter.bundled_bytes.get());
  out.family("ronde_bundle_seconds", "histogram", "Time a bundle took to move.");
  out.histogram(meter.bundle_time);
}

void write_negotiation(Exposition& out, const Meter& meter) {
  single(out, "ronde_cache_hits_total", "counter", "Operations agreed on that were known.",
         meter.cache_hits.get());
  single(out, "ronde_cache_misses_total", "counter", "Operations agreed on that were new.",
         meter.cache_misses.get());
  single(out, "ronde_cache_evictions_total", "counter", "Known operations forgotten for new ones.",
         meter.cache_evictions.get());
  single(out, "ronde_inline_payloads_total", "counter",
         "Operations whose data travelled with the agreement.", meter.payloads.get());
  single(out, "ronde_negotiation_frames_total", "counter", "Messages sent to agree on operations.",
         meter.frames_sent.get());
  single(out, "ronde_stall_warnings_total", "counter",
         "Warnings of operations that some ranks did not submit.", meter.stall_warnings.get());
}

/// seconds() writes nine decimals, which suits ulps.
void write_means(Exposition& out, const MeanErrors& means) {
  if (means.compared == 0) return;
  single(out, "ronde_mean_checks_total", "counter", "Sums that were compared with float64.",
         means.compared);
  single(out, "ronde_mean_errors_total", "counter", "Those that rounding does not explain.",
         means.beyond);
  out.family("ronde_mean_error_ulps", "gauge", "The largest error so far, at most 1e9.");
  out.seconds(static_cast<std::uint64_t>(std::min(means.worst_ulps.load(), 1e9) * 1e9));
}

void write_connections(Exposition& out, const RankState& state) {
  if (state.connections == nullptr) return;
  const ConnectionCounts& counts = *state.connections;
  single(out, "ronde_connections_open", "gauge",
         "Data connections with ranks of other hosts that are open.", counts.open());
  single(out, "ronde_connections_opened_total", "counter", "Those opened so far.", counts.opened);
  single(out, "ronde_connections_closed_total", "counter", "Those closed so far.", counts.closed);
  out.family("ronde_connection_opening_seconds_total", "counter",
             "Time spent opening them, of those that this rank dialed.");
  out.seconds(counts.opening_ns);
  single(out, "ronde_connection_outages_total", "counter",
         "Outages of connections between hosts that have ended (RONDE_RECONNECT_SECONDS).",
         counts.healed);
  out.family("ronde_connection_outage_seconds_total", "counter", "Time of these outages.");
  out.seconds(counts.outage_ns);
  single(out, "ronde_corrupted_total", "counter",
         "Outages of connections that began with a wrong checksum (RONDE_CHECKSUMS).",
         counts.corrupted);
}

/// Durations are counted in the bucket of their length, so the buckets' sum is their number.
std::uint64_t count_of(const DurationHistogram& durations) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= DurationHistogram::kBoundsNs.size(); ++i) {
    count += durations.in_bucket(i);
  }
  return count;
}

void write_epochs(Exposition& out, const RankFacts& facts, const RankState& state) {
  if (state.recoveries == nullptr || state.changes == nullptr) return;
  single(out, "ronde_epoch", "gauge", "Number of the elastic job's epoch.",
         static_cast<std::uint64_t>(facts.epoch));
  single(out, "ronde_rank", "gauge", "This worker's rank in the epoch.",
         static_cast<std::uint64_t>(facts.rank));
  single(out, "ronde_size", "gauge", "Number of ranks of the epoch.",
         static_cast<std::uint64_t>(facts.size));
  single(out, "ronde_recoveries_total", "counter",
         "Epochs that this worker went on in after a failure.", count_of(*state.recoveries));
  out.family("ronde_recovery_seconds", "histogram",
             "Time from a failure to the end of the next epoch's first operation.");
  out.histogram(*state.recoveries);
  out.family("ronde_worker_change_seconds", "histogram",
             "The same where workers joined or left and none had failed.");
  out.histogram(*state.changes);
}

/// A worker of an elastic job has other ranks in other epochs, but its counters go on.
Labels common_labels(const RankFacts& facts, const std::string& number) {
  return {{facts.epoch > 0 ? "worker" : "rank", number}};
}

/// The labels of ronde_info.
Labels info_labels(const RankFacts& facts, const std::string& size) {
  return {{"size", size}, {"host", facts.host}, {"job_id", facts.job}, {"version", facts.version}};
}

}  // namespace

std::string metrics_text(const RankFacts& facts, const RankState& state, const Meter& meter) {
  const std::string number = fmt::to_string(facts.epoch > 0 ? facts.worker : facts.rank);
  const std::string size = fmt::to_string(facts.size);
  Exposition out(common_labels(facts, number));
  out.family("ronde_info", "gauge", "Who this is; always 1.");
  out.sample(1, info_labels(facts, size));
  single(out, "ronde_job_broken", "gauge", "1 once the job has failed, 0 before.",
         state.broken ? 1 : 0);
  single(out, "ronde_steps_total", "counter", "Training steps marked as ended.", state.steps);
  write_epochs(out, facts, state);
  write_operations(out, meter);
  write_bundles(out, meter);
  write_negotiation(out, meter);
  write_means(out, meter.means);
  write_connections(out, state);
  return out.take();
}

}  // namespace ronde::metrics
