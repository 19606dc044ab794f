#include "bindings/cpp/elastic/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/cpp/internal.h"

namespace ronde::elastic {
namespace {

/// Empty spans may have no memory at all.
void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

void check_tensor(const Part& part) {
  const Tensor& tensor = part.tensor;
  if (tensor.cuda_device >= 0) {
    throw InvalidArgument(
        fmt::format("the state's tensor \"{}\" is on CUDA device {}; allowed: "
                    "host memory",
                    part.name, tensor.cuda_device));
  }
  if (tensor.in != tensor.out || (tensor.out == nullptr && element_count(tensor.shape) > 0)) {
    throw InvalidArgument(fmt::format(
        "the state's tensor \"{}\" is not written in place; make it of memory that is not const",
        part.name));
  }
}

}  // namespace

void Copies::add(Part part) {
  check_tensor(part);
  if (!empty()) {
    throw InvalidArgument(fmt::format(
        "\"{}\" is added to a state that has been copied; add all parts before", part.name));
  }
  const auto same = [&](const Part& other) { return other.name == part.name; };
  if (std::any_of(parts_.begin(), parts_.end(), same)) {
    throw InvalidArgument(fmt::format("\"{}\" is in the state already", part.name));
  }
  parts_.push_back(std::move(part));
}

void Copies::save(std::int64_t step) {
  std::vector<std::size_t> sizes;
  for (const Part& part : parts_) sizes.push_back(part.bytes().size());
  const auto segments = value_or_throw(store_.begin(sizes));
  for (std::size_t i = 0; i < parts_.size(); ++i) copy(parts_[i].bytes(), segments[i].bytes);
  throw_if_error(store_.commit(static_cast<std::uint64_t>(step)));
}

void Copies::restore() {
  if (const auto steps = store_.steps(); !steps.empty()) restore(steps[0]);
}

void Copies::restore_older() {
  if (const auto steps = store_.steps(); steps.size() == 2) restore(steps[1]);
}

void Copies::restore(std::uint64_t step) {
  const auto segments = value_or_throw(store_.read(step));
  for (std::size_t i = 0; i < parts_.size(); ++i) copy(segments[i].bytes, parts_[i].bytes());
}

}  // namespace ronde::elastic
