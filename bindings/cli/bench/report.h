// The output of `ronde bench`: a table for people, JSON lines for programs.
#pragma once

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/ports/event_sink.h"

namespace ronde::bench {

/// The effects of compression on a row's operation.
struct CompressionRow {
  CompressionFacts facts;  ///< The last operation's, on rank 0.
  double error = 0;     ///< The first operation's: norm of the error by that of the exact result.
  double of_dense = 0;  ///< The dense operation's time over this one's.
};

/// One line of the result. Bandwidths are in 10^9 bytes per second.
struct Row {
  std::string system;
  std::string collective;
  std::string algorithm;
  int np = 1;
  std::size_t bytes = 0;
  std::string dtype;
  std::string op = {};  ///< Empty: sum, or no reduction.
  double p50_us = 0;
  double p99_us = 0;
  double algbw_gbps = 0;
  double busbw_gbps = 0;
  double of_memcpy = 0;  ///< memcpy's time over this one's; 0: not known. In the table only.
  std::optional<CompressionRow> compression = {};
};

/// The row as one line of JSON with the contract's columns, and `op` where it is no sum. A
/// compressed one has wire_bytes, ratio, compress_us, wire_us, decompress_us, error_norm and
/// of_dense besides. `correct` is always true, as a wrong result is an error and no row.
std::string to_json(const Row& row);

/// "1.5 K", "16 M", "123": bytes for people.
std::string human_bytes(std::size_t bytes);

/// Writes rows as they come. Threads: one at a time.
class Report {
 public:
  /// `json_path` may be empty. Errors: kInvalidArgument where the file cannot be written.
  static Result<Report> open(const std::string& json_path, std::FILE* table);

  /// One line of text above or between rows.
  void note(const std::string& text);
  void add(const Row& row);

 private:
  explicit Report(std::FILE* table) : table_(table) {}

  std::FILE* table_;
  std::ofstream json_;
  bool headed_ = false;
};

}  // namespace ronde::bench
