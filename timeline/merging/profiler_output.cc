#include "timeline/merging/profiler_output.h"

#include <fmt/format.h>

#include <string_view>

#include "timeline/recording/trace_format.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

constexpr std::string_view kStep = "step";

void append_span(std::string& out, std::string_view category, std::string_view name,
                 const report::TraceEvent& event, std::int64_t start_ns, std::int64_t end_ns) {
  out += fmt::format("{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":",
                     category, name, event.pid, event.tid);
  append_micros(out, start_ns);
  out += ",\"dur\":";
  append_micros(out, end_ns - start_ns);
}

}  // namespace

void ProfilerOutput::begin_rank(std::int64_t rank) {
  end_rank();
  rank_ = rank;
  auto file = OutFile::create(fmt::format("{}rank{}.pt.trace.json", folder_, rank));
  if (!file.ok()) {
    if (status_.ok()) status_ = file.status();
    return;
  }
  file_.emplace(std::move(file).value());
  // The space is needed: readers search for this text.
  file_->write(fmt::format("{{\"distributedInfo\":{{\"rank\": {}}},\"traceEvents\":[", rank));
}

void ProfilerOutput::end_rank() {
  if (file_) {
    file_->write("\n]}\n");
    Status finished = file_->finish();
    if (status_.ok()) status_ = std::move(finished);
  }
  file_.reset();
  open_.clear();
  step_ns_ = -1;
  any_ = false;
}

void ProfilerOutput::write_line() {
  if (!file_) return;
  file_->write(any_ ? ",\n" : "\n");
  file_->write(line_);
  any_ = true;
}

void ProfilerOutput::end_span(const MergedEvent& end) {
  std::vector<OpenSpan>& spans = open_[end.event.tid];
  if (spans.empty()) return;
  OpenSpan span = std::move(spans.back());
  spans.pop_back();
  EventArgs::fields(end.event, ArgsWriter(span.args, quoted_));
  line_.clear();
  append_span(line_, "cpu_op", span.name, end.event, span.start_ns, end.time_ns);
  line_ += fmt::format(",\"args\":{{{}}}}}", span.args);
  write_line();
}

void ProfilerOutput::end_step(const MergedEvent& mark) {
  if (step_ns_ >= 0) {
    line_.clear();
    append_span(line_, "user_annotation", fmt::format("\"ProfilerStep#{:.0f}\"", mark.event.value),
                mark.event, step_ns_, mark.time_ns);
    line_ += '}';
    write_line();
  }
  step_ns_ = mark.time_ns;
}

void ProfilerOutput::add(const MergedEvent& merged) {
  const report::TraceEvent& event = merged.event;
  if (event.phase == 'i') return;  // marks that a merge adds are of another rank
  if (event.pid == kJobRow) return;
  if (event.pid != rank_) begin_rank(event.pid);
  if (event.phase == 'B') {
    OpenSpan& span =
        open_[event.tid].emplace_back(OpenSpan{merged.time_ns, quoted_.of(event.name), {}});
    EventArgs::fields(event, ArgsWriter(span.args, quoted_));
  } else if (event.phase == 'E') {
    end_span(merged);
  } else if (event.phase == 'C' && event.name == kStep) {
    end_step(merged);
  } else if (event.phase == 'M' && !event.heads()) {  // readers would take it for a trace of Ronde
    line_ = merged.text;
    write_line();
  }
}

Status ProfilerOutput::finish() {
  end_rank();
  return status_;
}

}  // namespace ronde
