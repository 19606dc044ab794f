#include "bindings/cpp/elastic/copies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/cpp/internal.h"
#include "bindings/elastic/inherited_copies.h"

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
  layout_ += fmt::format("{} {} {} {}\n", part.name, to_string(part.tensor.dtype),
                         fmt::join(part.tensor.shape, "x"), static_cast<int>(part.owner));
  parts_.push_back(std::move(part));
}

/// The first segment says which parts the others are.
std::vector<std::size_t> Copies::sizes() const {
  std::vector<std::size_t> sizes = {layout_.size()};
  for (const Part& part : parts_) sizes.push_back(part.bytes().size());
  return sizes;
}

void Copies::save(std::int64_t step) {
  const auto segments = value_or_throw(store_.begin(sizes()));
  copy(std::as_bytes(std::span(layout_)), segments[0].bytes);
  for (std::size_t i = 0; i < parts_.size(); ++i) copy(parts_[i].bytes(), segments[i + 1].bytes);
  throw_if_error(store_.commit(static_cast<std::uint64_t>(step)));
}

void Copies::restore() {
  if (const auto steps = store_.steps(); !steps.empty() && !adopted_) put(steps[0], false);
}

void Copies::restore_older() {
  if (const auto steps = store_.steps(); steps.size() == 2) put(steps[1], false);
}

void Copies::put(std::uint64_t step, bool own_alone) {
  const auto segments = value_or_throw(store_.read(step));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (own_alone && parts_[i].owner != Owner::kRank) continue;
    copy(segments[i + 1].bytes, parts_[i].bytes());
  }
}

void Copies::share(Worker& worker) {
  if (shared_) return;
  shared_ = true;
  store_ = worker.take_copies();
  adopted_ = !empty() && are_ours();
  if (!adopted_) store_.clear();
  throw_if_error(share_copies(store_, worker.member()));
}

bool Copies::are_ours() {
  const auto segments = value_or_throw(store_.read(store_.steps()[0]));
  const std::vector<std::size_t> ours = sizes();
  const bool same_sizes = std::equal(
      segments.begin(), segments.end(), ours.begin(), ours.end(),
      [](const StoredSegment& one, std::size_t size) { return one.bytes.size() == size; });
  return same_sizes && std::memcmp(segments[0].bytes.data(), layout_.data(), layout_.size()) == 0;
}

AdoptedSteps Copies::adopted_steps() const {
  AdoptedSteps adopted;
  if (!adopted_) return adopted;
  const auto steps = store_.steps();
  if (!steps.empty()) adopted.newest = static_cast<std::int64_t>(steps[0]);
  if (steps.size() == 2) adopted.older = static_cast<std::int64_t>(steps[1]);
  return adopted;
}

void Copies::put_adopted(std::int64_t step, bool own_alone) {
  put(static_cast<std::uint64_t>(step), own_alone);
}

void Copies::end_adoption(bool used) {
  if (adopted_ && !used) store_.clear();
  adopted_ = false;
}

}  // namespace ronde::elastic
