#include "ops/compression/residuals.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("A residual is kept by process set and tensor") {
  ResidualStore store;
  const auto first = store.find(0, "w", 4);
  CHECK(store.find(0, "w", 4) == first);
  CHECK(store.find(1, "w", 4) != first);
  CHECK(store.find(0, "v", 4) != first);
  CHECK(store.bytes() == 3 * 4 * sizeof(float));
}

TEST_CASE("A residual begins with zeros and is added and replaced in runs") {
  ResidualStore store;
  const auto residual = store.find(0, "w", 5);
  CHECK(residual->values() == std::vector<float>(5, 0.0F));
  residual->assign(std::vector<float>{1, 2}, 3);
  std::vector<float> values{10, 20, 30};
  residual->add_to(values, 2);
  CHECK(values == std::vector<float>{10, 21, 32});
}

TEST_CASE("A tensor of another size begins anew") {
  ResidualStore store;
  store.find(0, "w", 4)->assign(std::vector<float>{1, 1, 1, 1}, 0);
  const auto other = store.find(0, "w", 2);
  CHECK(other->values() == std::vector<float>{0, 0});
  CHECK(store.bytes() == 2 * sizeof(float));
}

TEST_CASE("What is saved is loaded again, steps included") {
  ResidualStore store;
  store.find(0, "b", 2)->assign(std::vector<float>{1, 2}, 0);
  const auto a = store.find(3, "a", 1);
  CHECK(a->next_step() == 0);
  CHECK(a->next_step() == 1);
  const auto saved = store.save();
  REQUIRE(saved.size() == 2);
  CHECK(saved[0].name == "b");
  CHECK(saved[1].set == 3);

  ResidualStore resumed;
  (void)resumed.find(0, "gone", 9);
  REQUIRE(resumed.load(saved).ok());
  CHECK(resumed.bytes() == 3 * sizeof(float));
  CHECK(resumed.find(0, "b", 2)->values() == std::vector<float>{1, 2});
  CHECK(resumed.find(3, "a", 1)->next_step() == 2);
}

TEST_CASE("One tensor cannot be loaded twice") {
  ResidualStore store;
  const Status status = store.load({{0, "w", 0, {1}}, {0, "w", 0, {2}}});
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().find("two residuals of \"w\"") != std::string::npos);
}

TEST_CASE("Beyond the limit tensors go without") {
  ResidualStore store(10 * sizeof(float));
  const auto kept = store.find(0, "a", 8);
  CHECK(kept != nullptr);
  CHECK(store.find(0, "b", 3) == nullptr);
  CHECK(store.find(0, "c", 2) != nullptr);
  CHECK(store.find(0, "a", 8) == kept);
  CHECK(store.bytes() == 10 * sizeof(float));
}

}  // namespace ronde
