#include "bindings/cli/bench/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace ronde::bench {

std::string to_json(const Row& row) {
  nlohmann::ordered_json line;
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
  return line.dump();
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
    fmt::print(table_, "{:>9}  {:<12} {:<22} {:>11} {:>11} {:>9} {:>9} {:>8}\n", "bytes", "system",
               "algorithm", "p50 us", "p99 us", "alg GB/s", "bus GB/s", "memcpy");
  }
  headed_ = true;
  const std::string share = row.of_memcpy > 0 ? fmt::format("{:.0f} %", 100 * row.of_memcpy) : "";
  fmt::print(table_, "{:>9}  {:<12} {:<22} {:>11.2f} {:>11.2f} {:>9.3f} {:>9.3f} {:>8}\n",
             human_bytes(row.bytes), row.system, row.algorithm, row.p50_us, row.p99_us,
             row.algbw_gbps, row.busbw_gbps, share);
  std::fflush(table_);
  if (json_.is_open()) json_ << to_json(row) << std::endl;
}

}  // namespace ronde::bench
