#include "bindings/cpp/elastic_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/cpp/internal.h"
#include "core/base/bytes.h"
#include "core/base/join_text.h"

namespace ronde::elastic {
namespace {

constexpr std::size_t kFirstPart = 2;  // segment of a copy

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
                         join_text(part.tensor.shape, "x"), static_cast<int>(part.owner));
  parts_.push_back(std::move(part));
}

/// The first segment is the worker, the second says which parts the others are.
std::vector<std::size_t> Copies::sizes() const {
  std::vector<std::size_t> sizes = {sizeof(worker_), layout_.size()};
  for (const Part& part : parts_) sizes.push_back(part.bytes().size());
  return sizes;
}

void Copies::save(std::int64_t step) {
  const auto segments = value_or_throw(store_.begin(sizes()));
  copy(std::as_bytes(std::span(&worker_, 1)), segments[0].bytes);
  copy(std::as_bytes(std::span(layout_)), segments[1].bytes);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    copy(parts_[i].bytes(), segments[i + kFirstPart].bytes);
  }
  throw_if_error(store_.commit(static_cast<std::uint64_t>(step)));
}

void Copies::restore() {
  if (!empty() && !adopted_) put(static_cast<std::int64_t>(store_.steps()[0]), false);
}

void Copies::restore(const Start& start) {
  switch (start.restore) {
    case Start::Restore::kNothing:
      return;
    case Start::Restore::kNewest:
      return restore();
    case Start::Restore::kOlder:
    case Start::Restore::kAdopted:
      return put(*start.step, false);
    case Start::Restore::kAdoptedOwn:
      return put(*start.step, true);
  }
}

void Copies::put(std::int64_t step, bool own_alone) {
  const auto segments = value_or_throw(store_.read(static_cast<std::uint64_t>(step)));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (own_alone && parts_[i].owner != Owner::kRank) continue;
    copy(segments[i + kFirstPart].bytes, parts_[i].bytes());
  }
}

void Copies::share(Member& worker) {
  if (shared_) return;
  shared_ = true;
  worker_ = worker.worker();
  store_ = worker.take_copies();
  adopted_ = !empty() && are_ours();
  if (!adopted_) store_.clear();
  throw_if_error(worker.share(store_));
}

bool Copies::are_ours() {
  const auto segments = value_or_throw(store_.read(store_.steps()[0]));
  const std::vector<std::size_t> ours = sizes();
  const bool same_sizes = std::equal(
      segments.begin(), segments.end(), ours.begin(), ours.end(),
      [](const StoredSegment& one, std::size_t size) { return one.bytes.size() == size; });
  return same_sizes && std::memcmp(segments[1].bytes.data(), layout_.data(), layout_.size()) == 0;
}

AdoptedSteps Copies::adopted_steps() const {
  AdoptedSteps adopted;
  if (!adopted_) return adopted;
  const auto steps = store_.steps();
  if (!steps.empty()) adopted.newest = static_cast<std::int64_t>(steps[0]);
  if (steps.size() == 2) adopted.older = static_cast<std::int64_t>(steps[1]);
  return adopted;
}

WorkerId Copies::adopted_worker() {
  WorkerId worker = 0;
  const auto segments = value_or_throw(store_.read(store_.steps()[0]));
  copy(segments[0].bytes, std::as_writable_bytes(std::span(&worker, 1)));
  return worker;
}

std::string Copies::pack(Owner owner) {
  const auto segments = value_or_throw(store_.read(store_.steps()[0]));
  std::string packed = layout_ + '\n';
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].owner == owner) packed += as_text(segments[i + kFirstPart].bytes);
  }
  return packed;
}

void Copies::unpack(Owner owner, std::string_view packed) {
  const auto values = split(owner, packed);
  for (const Part& part : parts_) {
    if (part.owner == owner) copy(values.at(part.name), part.bytes());
  }
}

Orphan Copies::orphan(std::string_view packed) const {
  std::map<std::string, std::vector<std::byte>> parts;
  for (const auto& [name, value] : split(Owner::kRank, packed)) {
    parts.emplace(name, std::vector(value.begin(), value.end()));
  }
  return Orphan(std::move(parts));
}

/// The values of the parts of this owner, by name.
std::map<std::string, std::span<const std::byte>> Copies::split(Owner owner,
                                                                std::string_view packed) const {
  const std::string_view theirs = packed.substr(0, packed.find("\n\n") + 1);
  if (theirs != layout_) {
    throw InvalidArgument(fmt::format(
        "the values are of a state of the parts\n{}but this one has\n{}", theirs, layout_));
  }
  auto left = as_bytes(packed.substr(theirs.size() + 1));
  std::map<std::string, std::span<const std::byte>> values;
  for (const Part& part : parts_) {
    if (part.owner != owner) continue;
    const std::size_t size = part.bytes().size();
    values.emplace(part.name, left.first(size));
    left = left.subspan(size);
  }
  return values;
}

void Copies::end_adoption(bool used) {
  if (adopted_ && !used) store_.clear();
  adopted_ = false;
}

}  // namespace ronde::elastic
