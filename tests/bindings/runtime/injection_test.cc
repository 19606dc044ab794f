// Faults that users plant: how they are written, and when they are planted.
#include "bindings/runtime/injection.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace ronde {
namespace {

Submission submission_of(std::string name, std::vector<float>& values) {
  Submission submission;
  submission.request.kind = Collective::kAllreduce;
  submission.request.name = std::move(name);
  submission.request.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(values.size())}}};
  submission.inputs = {values.data()};
  submission.outputs = {values.data()};
  return submission;
}

}  // namespace

TEST_CASE("Injection: the parts of a fault are read in any order") {
  const auto whole = parse_injection("nan:step=20,tensor=layer3.weight,element=7,rank=1");
  REQUIRE(whole.ok());
  CHECK(whole->rank == 1);
  CHECK(whole->tensor == "layer3.weight");
  CHECK(whole->step == 20);
  CHECK(whole->element == 7);
  CHECK(parse_injection("nan:rank=0,tensor=a")->step == 1);
}

TEST_CASE("Injection: anything else is refused with what is allowed") {
  for (const char* const text :
       {"nan", "nan:", "flip:rank=1,tensor=a", "nan:rank=1", "nan:tensor=a", "nan:rank=-1,tensor=a",
        "nan:rank=1,tensor=", "nan:rank=1,tensor=a,step=x", "nan:rank=1,tensor=a,place=2",
        "nan:rank=1x,tensor=a", "nan:rank=1,tensor"}) {
    INFO(text);
    const auto refused = parse_injection(text);
    CHECK(refused.status().code() == Code::kInvalidArgument);
    CHECK(refused.status().message().find("allowed: nan:rank=RANK") != std::string::npos);
  }
}

TEST_CASE("Injector: one NaN is planted, in its step and tensor") {
  std::uint64_t steps = 0;
  Injector injector({.rank = 0, .tensor = "weight", .step = 3, .element = 1},
                    [&] { return steps; });
  std::vector<float> values(3, 1.0F);
  injector.plant(submission_of("weight", values));
  steps = 2;
  injector.plant(submission_of("bias", values));
  std::vector<float> short_one(1, 1.0F);
  injector.plant(submission_of("weight", short_one));
  CHECK(values == std::vector<float>(3, 1.0F));
  injector.plant(submission_of("layer.weight", values));
  CHECK(std::isnan(values[1]));
  CHECK(values[0] == 1.0F);
  values[1] = 1.0F;
  injector.plant(submission_of("weight", values));
  CHECK(values == std::vector<float>(3, 1.0F));
}

}  // namespace ronde
