#include "bindings/runtime/metrics/exposition.h"

#include <fmt/format.h>

#include <iterator>

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
  fmt::format_to(std::back_inserter(text_), "\n# TYPE {} {}\n", name, type);
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
  fmt::format_to(std::back_inserter(text_), "{}\n", value);
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
    fmt::format_to(std::back_inserter(text_), "{}\n", count);
  }
  begin_sample("_sum", labels);
  fmt::format_to(std::back_inserter(text_), "{}\n",
                 static_cast<double>(durations.sum_ns()) / kSecond);
  begin_sample("_count", labels);
  fmt::format_to(std::back_inserter(text_), "{}\n", count);
}

}  // namespace ronde::metrics
