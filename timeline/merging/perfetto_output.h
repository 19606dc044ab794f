// Perfetto's trace format: a stream of protobuf packets. Few fields are needed, so they are written
// here, without protobuf's compiler and library.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "timeline/merging/trace_output.h"

namespace ronde {

/// Appends protobuf fields to a text. Source: protobuf's "Encoding" page.
class ProtoWriter {
 public:
  explicit ProtoWriter(std::string& out) : out_(out) {}
  void number(std::uint32_t field, std::uint64_t value);
  void fixed(std::uint32_t field, std::uint64_t value);
  /// A string, or a serialised message.
  void bytes(std::uint32_t field, std::string_view value);

 private:
  void varint(std::uint64_t value);
  std::string& out_;
};

/// Writes a track for each rank, and below it one for each thread and counter.
/// Source: protos/perfetto/trace/{trace_packet,track_event/track_event}.proto.
class PerfettoOutput : public TraceOutput {
 public:
  PerfettoOutput(OutFile file, Flows& flows) : file_(std::move(file)), flows_(flows) {}
  void add(const MergedEvent& event) override;
  Status finish() override;

 private:
  void add_row(std::uint64_t id, std::string_view name);
  void add_track(std::uint64_t id, std::uint64_t parent, std::string_view name, bool counter);
  void add_counter(const MergedEvent& event);
  void add_packet(std::uint64_t type, std::uint64_t track, const MergedEvent& event);
  void write_packet();
  void append_arrows(const MergedEvent& event);

  OutFile file_;
  Flows& flows_;
  std::map<std::pair<std::int64_t, std::string>, std::uint64_t, std::less<>> counters_;
  /// Names of rows, the last ones: workers of elastic jobs get a name in each epoch, and readers
  /// take the first one in the file.
  std::map<std::int64_t, std::string> rows_;
  bool any_ = false;
  std::string packet_;  // reused, like the next two
  std::string body_;
  std::string part_;
};

}  // namespace ronde
