#include "ops/execution/auto_compression.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace ronde {
namespace {

/// A group of two. The other rank sends this rank's numbers plus `slower_ns`.
struct Twin {
  std::int64_t slower_ns = 0;
  double byte_s = 0;
  int dense_calls = 0;
  int exchanges = 0;

  GroupProbe probe() {
    return {.size = 2,
            .dense =
                [this](std::size_t bytes) {
                  ++dense_calls;
                  std::this_thread::sleep_for(
                      std::chrono::duration<double>(static_cast<double>(bytes) * byte_s));
                  return Status();
                },
            .exchange =
                [this](std::span<const std::int64_t> mine) -> Result<std::vector<std::int64_t>> {
              ++exchanges;
              std::vector<std::int64_t> all(mine.begin(), mine.end());
              for (const std::int64_t number : mine) all.push_back(number + slower_ns);
              return all;
            }};
  }
};

Bundle matrix(std::int64_t rows = 1024, const char* key = "w") {
  Bundle bundle;
  bundle.kind = Collective::kAllreduce;
  bundle.tensors.emplace_back();
  bundle.tensors.back().shape = {rows, 1024};
  bundle.keys = {key};
  return bundle;
}

std::string chosen(AutoCompression& one, Accuracy accuracy, Twin& twin) {
  return one.choose(matrix(), accuracy, twin.probe())->compression;
}

}  // namespace

TEST_CASE("On a slow link auto takes what its class allows") {
  Twin slow{.byte_s = 80e-9};  // 100 Mbit/s
  AutoCompression one;
  CHECK(chosen(one, Accuracy::kLossless, slow).empty());
  CHECK(slow.dense_calls == 0);
  const std::string safe = chosen(one, Accuracy::kSafe, slow);
  CHECK((safe == "fp16" || safe == "bf16"));
  AutoCompression other;
  CHECK(wire_share(parse_compression(chosen(other, Accuracy::kAggressive, slow))->kind,
                   load_of(std::vector<Shape>{{1024, 1024}}, 4)) < 0.25);
  CHECK(other.explain().size() == 2);
  CHECK(other.explain()[1].find("aggressive") != std::string::npos);
}

TEST_CASE("Where data moves as fast as memory auto is dense") {
  Twin fast;
  AutoCompression one;
  for (const auto accuracy : {Accuracy::kSafe, Accuracy::kAggressive}) {
    const auto choice = one.choose(matrix(), accuracy, fast.probe());
    CHECK(choice->compression.empty());
    CHECK(choice->changed);
    CHECK_FALSE(one.choose(matrix(), accuracy, fast.probe())->changed);
  }
}

TEST_CASE("A group in shared memory measures nothing and is dense") {
  AutoCompression one;
  Twin slow{.byte_s = 80e-9};
  GroupProbe shared = slow.probe();
  shared.in_memory = true;
  CHECK(one.choose(matrix(), Accuracy::kAggressive, shared)->compression.empty());
  CHECK(slow.exchanges == 0);
  CHECK(one.explain().front().find("share memory") != std::string::npos);
}

TEST_CASE("A group of one measures nothing") {
  AutoCompression one;
  CHECK(one.choose(matrix(), Accuracy::kAggressive, {})->compression.empty());
  CHECK(one.explain().empty());
}

TEST_CASE("The link is measured once, and known choices are talked about at first, then seldom") {
  Twin slow{.byte_s = 20e-9};
  AutoCompression one;
  (void)one.choose(matrix(), Accuracy::kSafe, slow.probe());
  const int measured = slow.dense_calls;
  CHECK(measured < 40);
  const int begin = slow.exchanges;
  for (int i = 0; i < 30; ++i) {
    const auto choice = one.choose(matrix(), Accuracy::kSafe, slow.probe());
    CHECK(one.observe(choice->predicted_s, slow.probe()).ok());
  }
  CHECK(slow.dense_calls == measured);
  CHECK(slow.exchanges - begin == 30);
  const int before = slow.exchanges;
  for (int i = 0; i < 160; ++i) {
    const auto choice = one.choose(matrix(), Accuracy::kSafe, slow.probe());
    CHECK(one.observe(choice->predicted_s, slow.probe()).ok());
  }
  CHECK(slow.exchanges - before == 10);
}

TEST_CASE("A link that becomes slower is measured anew, and auto compresses") {
  Twin link;
  AutoCompression one;
  const auto step = [&](double dense_s, double compressed_s) {
    const auto choice = one.choose(matrix(), Accuracy::kAggressive, link.probe());
    const bool dense = choice->compression.empty();
    CHECK(one.observe(dense ? dense_s : compressed_s, link.probe()).ok());
    return dense;
  };
  for (int i = 0; i < 10; ++i) CHECK(step(1e-6, 1.0));
  link.byte_s = 80e-9;
  bool dense = true;
  for (int i = 0; i < 200; ++i) dense = step(0.3, 0.02);
  CHECK_FALSE(dense);
}

TEST_CASE("What a lossy choice left over travels before anything that would leave it") {
  Twin link{.byte_s = 80e-9};
  AutoCompression one;
  const auto lossy = one.choose(matrix(), Accuracy::kAggressive, link.probe());
  REQUIRE(parse_compression(lossy->compression)->error_feedback);
  const auto leaves_it = [](const std::string& compression) {
    return compression.empty() || compression == "fp16" || compression == "bf16";
  };
  bool brought = false;
  for (int i = 0; i < 40 && !brought; ++i) {
    const auto choice = one.choose(matrix(), Accuracy::kAggressive, link.probe());
    REQUIRE_FALSE(leaves_it(choice->compression));
    brought = choice->compression == "topk:ratio=1";
    if (!brought) CHECK(one.observe(1.0, link.probe()).ok());  // slower than all that is untried
  }
  REQUIRE(brought);
  CHECK(leaves_it(one.choose(matrix(), Accuracy::kAggressive, link.probe())->compression));
}

TEST_CASE("A failure of the group is handed on") {
  GroupProbe broken{.size = 2,
                    .dense = [](std::size_t) { return Status(); },
                    .exchange = [](auto) -> Result<std::vector<std::int64_t>> {
                      return Status(Code::kAborted, "gone");
                    }};
  AutoCompression one;
  CHECK(one.choose(matrix(), Accuracy::kSafe, broken).status().code() == Code::kAborted);
}

}  // namespace ronde
