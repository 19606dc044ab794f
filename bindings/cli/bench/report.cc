#include "bindings/cli/bench/report.h"

#include <fmt/format.h>

#include "core/base/json.h"

namespace ronde::bench {
namespace {

double micros(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

/// Bytes that a dense allreduce sends from each rank for each byte that was sent; 0 for none.
double ratio_of(const Row& row, const CompressionRow& compression) {
  const double dense = 2.0 * (row.np - 1) / row.np * static_cast<double>(row.bytes);
  const auto sent = static_cast<double>(compression.facts.wire_bytes);
  return sent > 0 ? dense / sent : 0;
}

void add_compression(const Row& row, const CompressionRow& compression, Json& line) {
  line["wire_bytes"] = compression.facts.wire_bytes;
  line["ratio"] = ratio_of(row, compression);
  line["compress_us"] = micros(compression.facts.compress_ns);
  line["wire_us"] = micros(compression.facts.wire_ns);
  line["decompress_us"] = micros(compression.facts.decompress_ns);
  line["error_norm"] = compression.error;
  line["of_dense"] = compression.of_dense;
}

std::string describe(const Row& row, const CompressionRow& compression) {
  return fmt::format(
      "{:>9}  sent {} of {} B ({:.1f}x less); compress {:.0f} us, wire {:.0f}, "
      "decompress {:.0f}; {:.2f}x as fast as dense; error {:.2g} of the norm",
      "", human_bytes(compression.facts.wire_bytes), human_bytes(row.bytes),
      ratio_of(row, compression), micros(compression.facts.compress_ns),
      micros(compression.facts.wire_ns), micros(compression.facts.decompress_ns),
      compression.of_dense, compression.error);
}

}  // namespace

std::string to_json(const Row& row) {
  Json line;
  line["system"] = row.system;
  line["collective"] = row.collective;
  line["algorithm"] = row.algorithm;
  line["np"] = row.np;
  line["bytes"] = row.bytes;
  line["dtype"] = row.dtype;
  line["p50_us"] = row.p50_us;
  line["p99_us"] = row.p99_us;
  line["algbw_gbps"] = row.algbw_gbps;
  line["busbw_gbps"] = row.busbw_gbps;
  line["correct"] = true;
  if (!row.op.empty()) line["op"] = row.op;
  if (row.compression) add_compression(row, *row.compression, line);
  return print_json(line);
}

std::string human_bytes(std::size_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return unit == 0 ? fmt::to_string(bytes) : fmt::format("{:.4g} {}", value, kUnits[unit]);
}

Result<Report> Report::open(const std::string& json_path, std::FILE* table) {
  Report report(table);
  if (json_path.empty()) return report;
  report.json_.open(json_path);
  if (report.json_) return report;
  return Status(Code::kInvalidArgument, fmt::format("--json \"{}\" cannot be written", json_path));
}

void Report::note(const std::string& text) {
  fmt::print(table_, "{}\n", text);
  std::fflush(table_);
}

void Report::add(const Row& row) {
  if (!headed_) {
    fmt::print(table_, "{:>9}  {:<16} {:<22} {:>11} {:>11} {:>9} {:>9} {:>8}\n", "bytes", "system",
               "algorithm", "p50 us", "p99 us", "alg GB/s", "bus GB/s", "memcpy");
  }
  headed_ = true;
  const std::string share = row.of_memcpy > 0 ? fmt::format("{:.0f} %", 100 * row.of_memcpy) : "";
  fmt::print(table_, "{:>9}  {:<16} {:<22} {:>11.2f} {:>11.2f} {:>9.3f} {:>9.3f} {:>8}\n",
             human_bytes(row.bytes), row.system, row.algorithm, row.p50_us, row.p99_us,
             row.algbw_gbps, row.busbw_gbps, share);
  if (row.compression) fmt::print(table_, "{}\n", describe(row, *row.compression));
  std::fflush(table_);
  if (json_.is_open()) json_ << to_json(row) << std::endl;
}

}  // namespace ronde::bench
