#include "backends/registry.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/builtin.h"
#include "core/base/log.h"
#include "tests/support/contains.h"
#include "tests/support/local_exchange.h"

namespace ronde {
namespace {

class NamedBackend final : public Backend {
 public:
  NamedBackend(std::string name, Status viable, DeviceKind memory)
      : name_(std::move(name)), viable_(std::move(viable)), memory_(memory) {}
  std::string_view name() const noexcept override { return name_; }
  DeviceKind memory() const noexcept override { return memory_; }
  Status viable(const GroupSpec&) override { return viable_; }
  Result<std::unique_ptr<Communicator>> open(const GroupSpec&, Exchange&) override {
    return Status(Code::kUnsupported, "opens nothing");
  }

 private:
  const std::string name_;
  const Status viable_;
  const DeviceKind memory_;
};

std::unique_ptr<Backend> named(std::string name, Status viable = {},
                               DeviceKind memory = DeviceKind::kCpu) {
  return std::make_unique<NamedBackend>(std::move(name), std::move(viable), memory);
}

Registry example() {
  Registry registry;
  registry.add(named("fast"), Choice::kAutomatic);
  registry.add(named("plain", Status(Code::kUnavailable, "no cable")), Choice::kAutomatic);
  registry.add(named("special"), Choice::kOnRequest);
  registry.add_missing("exotic", "not built: libexotic was not found");
  return registry;
}

TEST_CASE("auto offers automatic backends in the order they were added") {
  const Registry registry = example();
  const auto offered = registry.candidates("auto");
  REQUIRE(offered.ok());
  REQUIRE(offered.value().size() == 2);
  CHECK(offered.value()[0]->name() == "fast");
  CHECK(offered.value()[1]->name() == "plain");
}

TEST_CASE("a name offers that backend alone") {
  const Registry registry = example();
  const auto offered = registry.candidates("special");
  REQUIRE(offered.ok());
  REQUIRE(offered.value().size() == 1);
  CHECK(offered.value()[0] == registry.find("special"));
}

TEST_CASE("devices and hosts have backends of their own") {
  Registry registry = example();
  CHECK(registry.candidates("auto", DeviceKind::kCuda).status().code() == Code::kUnavailable);
  registry.add(named("gpus", {}, DeviceKind::kCuda), Choice::kAutomatic);
  registry.add_missing("others", "not built", DeviceKind::kCuda);
  CHECK(registry.candidates("auto", DeviceKind::kCuda).value().size() == 1);
  CHECK(registry.candidates("gpus", DeviceKind::kCuda).value()[0] == registry.find("gpus"));
  CHECK(registry.candidates("auto").value().size() == 2);
  CHECK(registry.candidates("gpus").value().size() == 2);  // leaves host memory to the others
  CHECK(registry.candidates("others").value().size() == 2);
  CHECK(registry.candidates("fast", DeviceKind::kCuda).status().message() ==
        "--backend fast was asked for");
  CHECK(registry.candidates("others", DeviceKind::kCuda).status().message() ==
        "backend others: not built");
  CHECK(registry.serves("gpus", DeviceKind::kCuda));
  CHECK_FALSE(registry.serves("fast", DeviceKind::kCuda));
  CHECK(registry.describe(GroupSpec{}, DeviceKind::kCuda) ==
        std::vector<std::string>{"gpus: usable", "others: not built"});
}

TEST_CASE("a missing backend is unavailable, with the reason") {
  const Status status = example().candidates("exotic").status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().find("libexotic was not found") != std::string::npos);
}

TEST_CASE("an unknown name is refused with all that are allowed") {
  const Status status = example().candidates("fats").status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().find("auto, fast, plain, special, exotic") != std::string::npos);
}

TEST_CASE("the description has one line per backend") {
  const auto lines = example().describe(GroupSpec{});
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "fast: usable");
  CHECK(lines[1] == "plain: no cable");
  CHECK(lines[2] == "special: usable (when asked for by name)");
  CHECK(lines[3] == "exotic: not built: libexotic was not found");
}

TEST_CASE("the built-in list prefers shm, then tcp, and auto never takes gloo or mpi") {
  Registry registry;
  const Config config;
  register_builtin_backends(registry, {.config = config, .kernels = nullptr, .tcp = named("tcp")});
  const auto automatic = registry.candidates("auto");
  REQUIRE(automatic.ok());
  REQUIRE(automatic.value().size() == 2);
  CHECK(automatic.value()[0]->name() == "shm");
  CHECK(automatic.value()[1]->name() == "tcp");
  for (const char* name : {"gloo", "mpi"}) {
    const auto asked = registry.candidates(name);
    CHECK((asked.ok() || asked.status().code() == Code::kUnavailable));
  }
}

TEST_CASE("a backend may be asked for by the names of the table, and by no other") {
  CHECK(backend_names() == "auto, shm, tcp, gloo, mpi, nccl");
  for (const char* name : {"auto", "shm", "tcp", "gloo", "mpi", "nccl"}) {
    CHECK(check_backend(name).ok());
  }
  const Status refused = check_backend("carrier-pigeon");
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.message() ==
        "RONDE_BACKEND=\"carrier-pigeon\" is not valid; allowed: auto, shm, tcp, gloo, mpi, nccl");
}

TEST_CASE("a backend has the name of its row") {
  Registry registry;
  const Config config;
  register_builtin_backends(registry, {.config = config, .kernels = nullptr, .tcp = named("tcp")});
  for (const char* name : {"shm", "tcp"}) {
    REQUIRE(registry.find(name) != nullptr);
    CHECK(registry.find(name)->name() == name);
  }
}

TEST_CASE("modules that were built can be loaded and answer") {
  Registry registry;
  const Config config;
  register_builtin_backends(registry, {.config = config, .kernels = nullptr, .tcp = nullptr});
  for (const char* name : {"gloo", "mpi"}) {
    Backend* backend = registry.find(name);
    if (backend == nullptr) continue;  // not built: the test above has seen its reason
    CHECK(backend->viable(GroupSpec{}).message().find("cannot be loaded") == std::string::npos);
  }
}

using test::contains;

class OpenBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "plain"; }
  Status viable(const GroupSpec&) override { return {}; }
  Result<std::unique_ptr<Communicator>> open(const GroupSpec&, Exchange&) override {
    return Status(Code::kUnavailable, "was opened");
  }
};

struct Job {
  explicit Job(std::vector<int> hosts) : job(2, std::move(hosts)) {}
  Status open(Backend& backend) const {
    return backend.open(job.group(0), *job.exchange(0)).status();
  }
  test::LocalJob job;
};

std::unique_ptr<Backend> guarded(const std::string& mode) {
  return guard_encryption(std::make_unique<OpenBackend>(), mode);
}

TEST_CASE("required refuses a backend that does not encrypt between hosts, and says what does") {
  const Job between({0, 1});
  const Job inside({});
  const auto backend = guarded("required");
  for (const Status& status : {backend->viable(between.job.group(0)), between.open(*backend)}) {
    CHECK(status.code() == Code::kUnsupported);
    CHECK(contains(status.message(), "plain does not encrypt what it sends between hosts"));
    CHECK(contains(status.message(), "RONDE_BACKEND=auto or tcp"));
  }
  CHECK(backend->viable(inside.job.group(0)).ok());
  CHECK(inside.open(*backend).message() == "was opened");
}

TEST_CASE("on lets it open and warns once; off says nothing") {
  std::vector<std::string> lines;
  set_log(LogLevel::kWarning, [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const Job between({0, 1});
  const Job inside({});
  const auto off = guarded("off");
  CHECK(between.open(*off).message() == "was opened");
  const auto on = guarded("on");
  CHECK(inside.open(*on).message() == "was opened");
  CHECK(lines.empty());
  CHECK(on->viable(between.job.group(0)).ok());
  for (int i = 0; i < 2; ++i) CHECK(between.open(*on).message() == "was opened");
  set_log(LogLevel::kWarning, nullptr);
  REQUIRE(lines.size() == 1);
  CHECK(contains(lines.front(), "plain does not encrypt what it sends between hosts, in spite of"));
}

}  // namespace

}  // namespace ronde
