#include "timeline/recording/nvtx_sink.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace ronde {
namespace {

class Counts final : public EventSink {
 public:
  void begin(std::string_view, std::string_view, const EventArgs&) override { ++events; }
  void end(std::string_view, const EventArgs&) override { ++events; }
  void span(std::string_view, std::string_view, TimeSpan, const EventArgs&) override { ++events; }
  void instant(std::string_view, std::string_view) override { ++events; }
  void counter(std::string_view, double) override { ++events; }

  int events = 0;
};

void* g_tool = nullptr;

template <typename T>
T told(const char* name) {
  auto* const function = reinterpret_cast<T (*)()>(::dlsym(g_tool, name));
  REQUIRE((function != nullptr));
  return function();
}

}  // namespace

TEST_CASE("nvtx: a tool is told of every span and mark, and the recorder hears of them too") {
  ::setenv("NVTX_INJECTION64_PATH", RONDE_NVTX_TOOL, 1);  // NOLINT(concurrency-mt-unsafe)
  g_tool = ::dlopen(RONDE_NVTX_TOOL, RTLD_NOW);
  REQUIRE(g_tool != nullptr);
  const auto sink = create_nvtx_sink();
  REQUIRE(sink != nullptr);
  CHECK(nvtx_missing().empty());
  Counts recorder;
  sink->pass_on_to(&recorder);
  sink->begin("allreduce.w", "ALLREDUCE", {.bytes = 400});
  sink->begin("marks", "forward", {});
  sink->end("allreduce.w", {});
  sink->instant("marks", "epoch 3");
  sink->counter("step", 1);
  CHECK(recorder.events == 5);
  sink->pass_on_to(nullptr);
  sink->end("marks", {});
  sink->end("marks", {});  // of what began before there was a sink
  CHECK(recorder.events == 5);
  CHECK(std::string(told<const char*>("ronde_told_domain")) == "ronde");
  CHECK(told<int>("ronde_told_begun") == 2);
  CHECK(told<int>("ronde_told_ended") == 2);
  CHECK(told<int>("ronde_told_marks") == 1);
  CHECK(std::string(told<const char*>("ronde_told_first")) == "ALLREDUCE (allreduce.w)");
  CHECK(told<unsigned long long>("ronde_told_bytes") == 400);
}

}  // namespace ronde
