// Backends that do not encrypt, in jobs that want encryption between hosts.
#include "backends/encryption_guard.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "tests/support/contains.h"
#include "tests/support/local_exchange.h"

namespace ronde {
namespace {

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
