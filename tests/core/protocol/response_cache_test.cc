#include "core/protocol/response_cache.h"

#include <doctest/doctest.h>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

RequestPtr shared(Request request) { return std::make_shared<const Request>(std::move(request)); }

const auto kAny = [](int) { return true; };

}  // namespace

TEST_CASE("ResponseCache: finds named requests by name and unnamed ones by signature") {
  ResponseCache cache(4);
  CHECK_FALSE(cache.assign(0, shared(allreduce("a")), 1));
  CHECK_FALSE(cache.assign(1, shared(allreduce("", {5})), 2));
  CHECK(cache.find("a") == 0);
  CHECK(cache.find("b") == -1);
  CHECK(cache.find(allreduce("", {5})) == 1);
  CHECK(cache.find(allreduce("", {6})) == -1);
  Request elsewhere = allreduce("", {5});
  elsewhere.call_site = "train.py:7";
  CHECK(cache.find(elsewhere) == -1);
  CHECK(cache.at(0)->name == "a");
  CHECK(cache.at(2) == nullptr);
  CHECK(cache.at(-1) == nullptr);
  CHECK(cache.named()[0] == 1);
  CHECK(cache.allreduces()[0] == 1);
}

TEST_CASE("ResponseCache: fills free slots, then gives up the least recently used one allowed") {
  ResponseCache cache(3);
  for (int slot = 0; slot < 3; ++slot) {
    const Request request = allreduce(std::string(1, static_cast<char>('a' + slot)));
    CHECK(cache.choose(request, kAny) == slot);
    cache.assign(slot, shared(request), static_cast<std::uint64_t>(slot) + 1);
  }
  CHECK(cache.choose(allreduce("d"), kAny) == 0);
  cache.touch(0);
  CHECK(cache.choose(allreduce("d"), kAny) == 1);
  CHECK(cache.choose(allreduce("d"), [](int slot) { return slot != 1; }) == 2);
  CHECK(cache.choose(allreduce("d"), [](int) { return false; }) == -1);
  CHECK(cache.choose(allreduce("b", {9}), kAny) == 1);  // a name keeps its slot
  CHECK(cache.assign(1, shared(allreduce("d")), 4));
  CHECK(cache.find("b") == -1);
  CHECK(cache.find("d") == 1);
  CHECK_FALSE(cache.assign(1, shared(allreduce("d", {9})), 5));  // the same operation, changed
  CHECK(cache.choose(allreduce("e"), kAny) == 2);
}

TEST_CASE("ResponseCache: without capacity nothing is cached") {
  CHECK(ResponseCache(0).choose(allreduce("a"), kAny) == -1);
}

TEST_CASE("ResponseCache: says what a slot held for a rank that lags behind, until forgotten") {
  ResponseCache cache(1);
  cache.assign(0, shared(allreduce("a")), 3);
  cache.assign(0, shared(allreduce("b")), 5);
  cache.assign(0, shared(request_for(Collective::kBarrier, "c")), 9);
  CHECK(cache.at(0, 2) == nullptr);
  CHECK(cache.at(0, 3)->name == "a");
  CHECK(cache.at(0, 4)->name == "a");
  CHECK(cache.at(0, 8)->name == "b");
  CHECK(cache.at(0, 9)->name == "c");
  CHECK(cache.at(1, 9) == nullptr);
  CHECK(cache.last_change() == 9);
  CHECK(cache.allreduces()[0] == 0);
  cache.forget_before(5);
  CHECK(cache.at(0, 4) == nullptr);
  CHECK(cache.at(0, 5)->name == "b");
  cache.forget_before(9);
  CHECK_FALSE(cache.has_former());
}

}  // namespace ronde
