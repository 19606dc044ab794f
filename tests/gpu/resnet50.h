// The sizes of a real model's gradients.
#pragma once

#include <cstddef>
#include <vector>

namespace ronde::test {

/// Elements of ResNet-50's 161 tensors, 25,557,032 together.
inline std::vector<std::size_t> resnet50() {
  std::vector<std::size_t> counts;
  const auto add = [&counts](std::size_t weights, std::size_t channels) {
    counts.insert(counts.end(),
                  {weights, channels, channels});  // weights, and a batch normalisation
  };
  add(std::size_t{3} * 64 * 7 * 7, 64);
  std::size_t in = 64;
  const std::size_t widths[] = {64, 128, 256, 512};
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::size_t width = widths[stage];
    const std::size_t out = 4 * width;
    for (int block = 0; block < blocks[stage]; ++block) {
      add(in * width, width);
      add(width * width * 9, width);
      add(width * out, out);
      if (block == 0) add(in * out, out);
      in = out;
    }
  }
  counts.insert(counts.end(), {in * 1000, 1000});
  return counts;
}

}  // namespace ronde::test
