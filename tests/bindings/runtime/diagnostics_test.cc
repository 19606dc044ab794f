#include "bindings/runtime/diagnostics.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>

#include "bindings/runtime/diagnosis/dump_signal.h"
#include "core/base/log.h"
#include "core/base/os/file_descriptor.h"
#include "tests/bindings/runtime/wait_for.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

/// The parts that the diagnostics of a job of one rank need.
struct Fixture {
  [[nodiscard]] DiagnosticsSources sources() {
    diagnosis::ServiceOptions service;
    service.on_timeline = [this] { toggled = true; };
    service.abort = abort;
    service.left_behind = [] { return Status(); };
    service.records = &records;
    return {
        .service = std::move(service), .meter = &meter, .steps = [] { return std::uint64_t{5}; }};
  }
  Config config;
  Topology topology{0, {{0, "alpha", ::getpid()}}};
  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  OperationRing records;
  Meter meter;
  std::atomic<bool> toggled{false};
};

/// A port of this host that nobody listens at now, bound to `holder` until that closes.
int hold_port(FileDescriptor& holder) {
  holder = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(holder.get(), raw, length) == 0);
  REQUIRE(::listen(holder.get(), 1) == 0);
  REQUIRE(::getsockname(holder.get(), raw, &length) == 0);
  return ntohs(address.sin_port);
}

}  // namespace

TEST_CASE("Diagnostics: a stall makes a dump, in the folder that was made for it") {
  const ScratchFolder scratch;
  Fixture fixture;
  fixture.config.dump_dir = scratch.file("made/for/it");
  Diagnostics diagnostics;
  REQUIRE(diagnostics.start(fixture.config, fixture.topology, fixture.sources()).ok());
  diagnostics.on_stall();
  const std::string path = diagnosis::dump_path(fixture.config.dump_dir, "", 0);
  CHECK(wait_for([&] { return content_of(path).find("\"stall\"") != std::string::npos; }));
  diagnostics.stop();
  diagnostics.stop();
}

TEST_CASE("Diagnostics: settings that cannot be are named") {
  const ScratchFolder scratch;
  Fixture fixture;
  {
    Diagnostics diagnostics;
    fixture.config.dump_dir = scratch.write("file", "x");
    const Status status = diagnostics.start(fixture.config, fixture.topology, fixture.sources());
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().find("RONDE_DUMP_DIR=") == 0);
  }
  fixture.config.dump_dir.clear();
  fixture.config.metrics_port = 65'536;
  Diagnostics diagnostics;
  const Status status = diagnostics.start(fixture.config, fixture.topology, fixture.sources());
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().find("RONDE_METRICS_PORT") != std::string::npos);
}

TEST_CASE("Diagnostics: a port of the metrics that is taken costs a warning, not the job") {
  Fixture fixture;
  FileDescriptor holder;
  fixture.config.metrics_port = hold_port(holder);
  std::string lines;
  set_log(LogLevel::kWarning, [&](LogLevel, std::string_view line) { lines += line; });
  Diagnostics diagnostics;
  CHECK(diagnostics.start(fixture.config, fixture.topology, fixture.sources()).ok());
  diagnostics.stop();
  set_log(LogLevel::kWarning, nullptr);
  CHECK(lines.find("the job goes on without") != std::string::npos);
}

TEST_CASE("Diagnostics: the signals are those of the settings") {
  Config config;
  CHECK(diagnosis::dump_signal_number(config) == 0);
  config.secret_fd = 3;  // started by `ronde run`
  CHECK(diagnosis::dump_signal_number(config) == SIGUSR2);
  config.dump_signal = "USR1";
  CHECK(diagnosis::dump_signal_number(config) == SIGUSR1);
  config.dump_signal = "off";
  CHECK(diagnosis::dump_signal_number(config) == 0);
  CHECK(diagnosis::timeline_signal_number(config) == 0);
  config.timeline_signal = "USR1";
  CHECK(diagnosis::timeline_signal_number(config) == SIGUSR1);
  config.timeline_signal = "USR2";
  CHECK(diagnosis::timeline_signal_number(config) == SIGUSR2);
}

TEST_CASE("Diagnostics: the timeline's signal reaches the timeline") {
  Fixture fixture;
  fixture.config.timeline_signal = "USR1";
  Diagnostics diagnostics;
  REQUIRE(diagnostics.start(fixture.config, fixture.topology, fixture.sources()).ok());
  ::raise(SIGUSR1);
  CHECK(wait_for([&] { return fixture.toggled.load(); }));
  diagnostics.stop();
}

}  // namespace ronde
