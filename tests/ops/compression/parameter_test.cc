#include "ops/compression/parameter.h"

#include <doctest/doctest.h>

#include <string>

namespace ronde {
namespace {

using Spec = CompressionSpec;

bool takes(const CodecParameter& parameter, const char* value) {
  Spec spec;
  return parameter.read(value, spec);
}

}  // namespace

TEST_CASE("A whole number is a multiple between its limits") {
  const CodecParameter block{"b", "b", "", WholeNumbers{&Spec::block, 64, 256, 64}};
  for (const char* value : {"64", "128", "256"}) CHECK(takes(block, value));
  for (const char* value : {"0", "63", "65", "320", "-64", "64.0", " 64", "64 ", "x", ""}) {
    CAPTURE(value);
    CHECK_FALSE(takes(block, value));
  }
  CHECK(block.allowed() == "multiples of 64 from 64 to 256");
  const CodecParameter any{"s", "s", "", WholeNumbers{&Spec::seed}};
  CHECK(takes(any, "18446744073709551615"));
  CHECK_FALSE(takes(any, "18446744073709551616"));
  CHECK(any.allowed() == "whole numbers from 0");
}

TEST_CASE("A real number is finite and keeps its limits, with them or without") {
  const CodecParameter open{"r", "r", "", RealNumbers{&Spec::ratio, 0, 1, true, true}};
  const CodecParameter closed{"r", "r", "", RealNumbers{&Spec::ratio, 0, 1}};
  const CodecParameter endless{"r", "r", "", RealNumbers{&Spec::clip}};
  for (const char* value : {"0", "1"}) {
    CHECK(takes(closed, value));
    CHECK_FALSE(takes(open, value));
  }
  CHECK(takes(open, "1e-9"));
  CHECK(takes(endless, "1e300"));
  for (const char* value : {"nan", "inf", "-inf", "1.01", "-0.01", "x", ""}) {
    CAPTURE(value);
    CHECK_FALSE(takes(closed, value));
  }
  CHECK(open.allowed() == "above 0 to below 1");
  CHECK(closed.allowed() == "from 0, up to 1");
  CHECK(endless.allowed() == "from 0");
}

TEST_CASE("Words stand for values in both directions") {
  const CodecParameter accuracy{
      "a", "a", "", words_for<&Spec::accuracy, Accuracy::kSafe, Accuracy::kLossless>({"s", "l"})};
  Spec spec{.accuracy = Accuracy::kSafe};
  REQUIRE(accuracy.read("l", spec));
  CHECK(spec.accuracy == Accuracy::kLossless);
  CHECK(accuracy.write(spec) == "l");
  CHECK_FALSE(accuracy.read("x", spec));
  CHECK_FALSE(accuracy.read("", spec));
  CHECK(accuracy.allowed() == "s, l");
}

TEST_CASE("A switch knows which of its words is on") {
  CHECK(kOnOff<&Spec::nesterov>.on == 0);
  CHECK(std::get<Words>(parameters::kRounding.values).on == 1);
  CHECK(std::get<Words>(parameters::kResidual.values).on == -1);
}

}  // namespace ronde
