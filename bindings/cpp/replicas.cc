// Job::check_replicas(): hashes say if tensors differ; only then ranks exchange more.
#include "bindings/runtime/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "bindings/cpp/internal.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/injection.h"
#include "bindings/runtime/timeline.h"
#include "core/base/bytes.h"
#include "core/base/join_text.h"
#include "core/base/log.h"
#include "ops/kernels/factory.h"
#include "ronde/ronde.h"

namespace ronde {
namespace {

constexpr std::size_t kNamed = 4;  // tensors in a message

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
}

std::span<const std::byte> memory_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.in), bytes_of(tensor)};
}

std::string label_of(const NamedTensor& one) {
  return fmt::format("\"{}\" ({}{})", one.name, to_string(one.tensor.dtype),
                     to_string(one.tensor.shape));
}

std::uint64_t hash_of(std::string_view text) { return hash64(std::as_bytes(std::span(text))); }

/// "[1, 5]"; empty without dimensions.
std::string index_of(std::size_t element, const Shape& shape) {
  std::vector<std::size_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto extent = static_cast<std::size_t>(shape[i]);
    index[i] = element % extent;
    element /= extent;
  }
  return index.empty() ? "" : fmt::format("[{}]", join_text(index, ", "));
}

/// An element and its bits: those of two NaNs may differ.
std::string value_text(DType dtype, std::span<const std::byte> element) {
  double value = 0;
  create_kernels()->cast(dtype, element.data(), DType::kFloat64, &value, 1);
  std::string bits;
  for (std::size_t i = element.size(); i-- > 0;) {
    bits += fmt::format("{:02x}", static_cast<unsigned>(element[i]));
  }
  return fmt::format("{:.9g} (0x{})", value, bits);
}

/// One comparison. All exchanges are sums, in which ranks that have joined take part with zeros.
class Comparison {
 public:
  Comparison(Job& job, std::span<const NamedTensor> tensors, ProcessSet set, CallSite site)
      : job_(job), tensors_(tensors), set_(set), site_(site) {
    members_ = value_or_throw(runtime().process_sets().ranks(job.impl().id_of(set)));
    for (const NamedTensor& one : tensors) {
      hashes_.push_back({hash_of(label_of(one)), hash64(memory_of(one.tensor))});
    }
  }

  /// True if all ranks have the same.
  bool run() {
    const auto found = find();
    if (found.empty()) return true;
    const std::string text = report(found);
    runtime().timeline().mark(text);
    const std::string& action = runtime().config().replica_check;
    if (action == "fail") throw Mismatch(text + " (RONDE_REPLICA_CHECK=fail)");
    const std::string outcome = action == "repair" ? repair(found) : "";
    const auto is_odd = [&](const ReplicaDifference& one) {
      return std::ranges::count(one.ranks, job_.rank()) > 0;
    };
    if (job_.rank() == ranks_.front() || std::ranges::any_of(found, is_odd)) {
      log(LogLevel::kWarning, "{}{}", text, outcome);
    }
    return false;
  }

 private:
  [[nodiscard]] Runtime& runtime() const { return *job_.impl().runtime; }

  /// The numbers of all members, by their place in the set.
  std::vector<std::uint64_t> of_all(std::span<const std::uint64_t> mine) {
    std::vector<std::uint64_t> all(mine.size() * members_.size());
    const auto place = std::ranges::find(members_, job_.rank()) - members_.begin();
    std::ranges::copy(mine, all.begin() + place * static_cast<std::ptrdiff_t>(mine.size()));
    sum(tensor(all));
    return all;
  }
  void sum(const Tensor& tensor) {
    job_.allreduce("check_replicas", tensor, {.op = ReduceOp::kSum, .set = set_}, site_);
  }
  /// The bytes of one rank, on all.
  std::vector<std::byte> from(int root, std::span<const std::byte> mine, std::size_t size) {
    std::vector<std::byte> bytes(size);
    if (job_.rank() == root)
      std::ranges::copy(mine.first(std::min(size, mine.size())), bytes.begin());
    sum(tensor(reinterpret_cast<std::uint8_t*>(bytes.data()), {static_cast<std::int64_t>(size)}));
    return bytes;
  }

  std::vector<ReplicaDifference> find() {
    const std::uint64_t digest = hash64(std::as_bytes(std::span(hashes_)));
    const std::vector<std::uint64_t> facts =
        of_all(std::array{std::uint64_t{1}, std::uint64_t{hashes_.size()}, digest});
    std::size_t most = 0;
    std::vector<std::size_t> places;  // of ranks that have not joined
    for (std::size_t place = 0; place < members_.size(); ++place) {
      if (facts[place * 3] == 0) continue;
      places.push_back(place);
      ranks_.push_back(members_[place]);
      most = std::max<std::size_t>(most, facts[place * 3 + 1]);
    }
    const auto as_first = [&](std::size_t place) {
      return std::equal(&facts[place * 3], &facts[place * 3] + 3, &facts[places.front() * 3]);
    };
    if (std::ranges::all_of(places, as_first)) return {};
    std::vector<std::uint64_t> mine(most * 2);
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      mine[i * 2] = hashes_[i].key;
      mine[i * 2 + 1] = hashes_[i].hash;
    }
    const std::vector<std::uint64_t> all = of_all(mine);
    std::vector<std::vector<HashedTensor>> tables;
    for (const std::size_t place : places) {
      auto& table = tables.emplace_back();
      for (std::size_t i = 0; i < facts[place * 3 + 1]; ++i) {
        const std::size_t at = (place * most + i) * 2;
        table.push_back({all[at], all[at + 1]});
      }
    }
    return find_differences(ranks_, tables);
  }

  /// This rank's tensor; null: it has none.
  [[nodiscard]] const NamedTensor* own(const ReplicaDifference& difference) const {
    const auto at = std::ranges::find(hashes_, difference.key, &HashedTensor::key);
    return at == hashes_.end() ? nullptr
                               : &tensors_[static_cast<std::size_t>(at - hashes_.begin())];
  }

  std::string label(const ReplicaDifference& difference) {
    constexpr std::size_t kMost = 1024;
    const NamedTensor* const mine = own(difference);
    const std::string text = mine == nullptr ? "" : label_of(*mine);
    const auto bytes = from(difference.holder, std::as_bytes(std::span(text)), kMost);
    const auto* const sent = reinterpret_cast<const char*>(bytes.data());
    return {sent, std::find(sent, sent + bytes.size(), '\0')};
  }

  std::string report(const std::vector<ReplicaDifference>& found) {
    const ReplicaDifference& first = found.front();
    std::string text = fmt::format("the replicas differ after step {}: {}",
                                   runtime().timeline().steps(), describe(first, label(first)));
    if (!first.missing) text += ": " + first_element(first, own(first)->tensor);
    std::vector<std::string> others;
    for (std::size_t i = 1; i < found.size() && i <= kNamed; ++i) {
      others.push_back(fmt::format("{} on {}", label(found[i]), list_ranks(found[i].ranks)));
    }
    if (!others.empty()) {
      text += fmt::format("; {} more differ: {}{}", found.size() - 1, join_text(others, ", "),
                          found.size() > kNamed + 1 ? ", ..." : "");
    }
    return text;
  }

  std::string first_element(const ReplicaDifference& difference, const Tensor& tensor) {
    const auto mine = memory_of(tensor);
    const std::size_t width = size_of(tensor.dtype);
    const auto usual = from(difference.usual, mine, mine.size());
    const auto differs = std::ranges::mismatch(mine, usual).in1 - mine.begin();
    const auto place = static_cast<std::uint64_t>(differs);
    std::uint64_t least = mine.size();
    for (const std::uint64_t one : of_all(std::array{mine.size() - place})) {
      least = std::min<std::uint64_t>(least, mine.size() - one);
    }
    if (least == mine.size()) return "its values are alike again";
    const std::size_t element = least / width;
    std::uint64_t bits = 0;
    std::memcpy(&bits, &mine[element * width], width);
    const auto all = of_all(std::array{bits});
    const auto text_at = [&](int rank) {
      const auto at = std::ranges::find(members_, rank) - members_.begin();
      const auto value = std::as_bytes(std::span(&all[static_cast<std::size_t>(at)], 1));
      return fmt::format("{} on rank {}", value_text(tensor.dtype, value.first(width)), rank);
    };
    std::vector<std::string> values = {text_at(difference.usual)};
    for (const int rank : difference.ranks) values.push_back(text_at(rank));
    const std::string index = index_of(element, tensor.shape);
    return fmt::format("{} is {}", index.empty() ? "its value" : "element " + index,
                       join_text(values, ", "));
  }

  std::string repair(const std::vector<ReplicaDifference>& found) {
    std::size_t left = 0;
    for (const ReplicaDifference& one : found) {
      const NamedTensor* const mine = own(one);
      if (one.missing) {
        ++left;
        continue;
      }
      const auto usual = from(one.usual, memory_of(mine->tensor), bytes_of(mine->tensor));
      if (std::ranges::count(one.ranks, job_.rank()) == 0) continue;
      std::memcpy(mine->tensor.out, usual.data(), usual.size());
    }
    std::string text = fmt::format("; repaired: {} tensors have the values of most ranks now",
                                   found.size() - left);
    if (left > 0)
      text += fmt::format("; {} that some ranks do not have are left as they are", left);
    return text;
  }

  Job& job_;
  const std::span<const NamedTensor> tensors_;
  const ProcessSet set_;
  const CallSite site_;
  std::vector<int> members_;
  std::vector<HashedTensor> hashes_;  // by tensor
  std::vector<int> ranks_;            // that have not joined
};

/// Faults of `ronde run --inject`.
void plant(Runtime& runtime, std::span<const NamedTensor> tensors) {
  Injector* const injector = runtime.injector();
  if (injector == nullptr) return;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.out == nullptr) continue;
    const std::span data(static_cast<std::byte*>(tensor.out), bytes_of(tensor));
    injector->plant_in({name, to_string(tensor.dtype), size_of(tensor.dtype), data},
                       runtime.timeline().steps());
  }
}

}  // namespace

bool Job::check_replicas(std::span<const NamedTensor> tensors, ProcessSet set, CallSite site) {
  const bool repairs = impl_->runtime->config().replica_check == "repair";
  std::set<std::string_view> names;
  for (const NamedTensor& one : tensors) {
    const Tensor& tensor = one.tensor;
    const auto refuse = [&one](std::string_view why) {
      throw InvalidArgument(fmt::format("check_replicas: \"{}\" {}", one.name, why));
    };
    if (!names.insert(one.name).second) refuse("is the name of two tensors");
    if (tensor.cuda_device >= 0) refuse("is in the memory of a device; allowed is host memory");
    if (tensor.out == nullptr && repairs) refuse("cannot be written, so it cannot be repaired");
    if (tensor.out != nullptr && tensor.out != tensor.in) {
      refuse("is read in one place and written in another; allowed is one memory");
    }
  }
  plant(*impl_->runtime, tensors);
  return Comparison(*this, tensors, set, site).run();
}

}  // namespace ronde
