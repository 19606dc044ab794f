// Output of a merge: the events of all ranks, as Chrome's JSON or Perfetto's protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "timeline/merging/merge_marks.h"
#include "timeline/reading/event_parser.h"

struct gzFile_s;  // of zlib

namespace ronde {

/// Threads: one.
class OutFile {
 public:
  /// Errors: kUnavailable naming the file.
  static Result<OutFile> create(const std::string& path);
  /// Removes an unfinished file.
  ~OutFile();
  OutFile(OutFile&&) noexcept = default;
  OutFile& operator=(OutFile&&) = delete;

  /// Appends. finish() reports errors.
  void write(std::string_view bytes);
  /// Gives the file its name. Errors: kUnavailable naming the file and why.
  Status finish();

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  explicit OutFile(const std::string& path);

  std::string path_;
  std::string temporary_;                  ///< The file's name until it is finished.
  std::unique_ptr<gzFile_s, Close> file_;  ///< Null once finished.
  int error_ = 0;                          ///< The first of write(), as errno has it.
};

/// An event on the job's clock.
struct MergedEvent {
  std::string_view text;            ///< The JSON object, as in its trace.
  const report::TraceEvent& event;  ///< The same, parsed; its time is not on the job's clock.
  std::int64_t time_ns = 0;         ///< On the job's clock, if the event has a time.
};

/// Writes merged events in one format. Threads: one.
class TraceOutput {
 public:
  virtual ~TraceOutput() = default;
  virtual void add(const MergedEvent& event) = 0;
  /// Completes the file. Errors: kUnavailable naming it and why.
  virtual Status finish() = 0;
};

/// Opens the output that `path` names, with the arrows of `flows`, which must outlive it. Errors:
/// kUnavailable naming it.
Result<std::unique_ptr<TraceOutput>> open_output(const std::string& path, Flows& flows);

/// Chrome's format, JSON array form: the original events with new times, plus arrows. Each end of
/// an arrow follows the beginning of its span, in the file and by 1 ns: Perfetto drops others.
class JsonOutput : public TraceOutput {
 public:
  JsonOutput(OutFile file, Flows& flows) : file_(std::move(file)), flows_(flows) {}
  void add(const MergedEvent& event) override;
  Status finish() override;

 private:
  void append_arrows(const MergedEvent& event);

  OutFile file_;
  Flows& flows_;
  std::string line_;  ///< Reused.
  bool any_ = false;
};

}  // namespace ronde
