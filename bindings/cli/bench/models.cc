#include "bindings/cli/bench/models.h"

#include <initializer_list>

namespace ronde::bench {
namespace {

// Each line of the data is one parameter: {extents}, outermost first.
constexpr std::initializer_list<std::initializer_list<std::int64_t>> kResnet50 = {
#include "bindings/cli/bench/models/resnet50.inc"
};

}  // namespace

std::vector<Shape> model_shapes(std::string_view model) {
  std::vector<Shape> shapes;
  if (model == "resnet50") shapes.assign(kResnet50.begin(), kResnet50.end());
  return shapes;
}

}  // namespace ronde::bench
