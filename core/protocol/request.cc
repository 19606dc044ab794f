// The limits of one request. They keep every frame that carries it below the channel's limit.
#include "core/protocol/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/join_text.h"
#include "core/protocol/wire.h"

namespace ronde {
namespace {

constexpr std::size_t kMaxTextBytes = 1024;  // compression, call site, program

/// The types that an operation is defined on, where that is not all.
std::string dtypes_of(ReduceOp op) {
  if (traits_of(op).bitwise) return "integers and bool";
  std::vector<std::string_view> names;
  for (const DTypeTraits& row : kDTypes) {
    if (is_defined(op, row.value)) names.push_back(row.name);
  }
  return fmt::format("{} and {}", join_text(std::span(names).first(names.size() - 1), ", "),
                     names.back());
}

/// The collectives that an operation is defined for.
std::string collectives_of(ReduceOp op) {
  std::vector<std::string_view> names;
  for (const CollectiveTraits& row : kCollectives) {
    if (row.reduces && is_defined(op, row.value)) names.push_back(row.name);
  }
  return join_text(names, ", ");
}

constexpr std::size_t kShownNameBytes = 64;

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Status(Code::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

/// The beginning of a name that is too long for an error, cut between two characters.
std::string shown_name(std::string_view name) {
  if (name.size() <= kShownNameBytes) return std::string(name);
  std::size_t end = kShownNameBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return std::string(name.substr(0, end)) + "...";
}

bool is_of_request(Code code) {
  return code == Code::kInvalidArgument || code == Code::kUnsupported ||
         code == Code::kResourceExhausted;
}

Status check_texts(const Request& request) {
  struct Row {
    std::string_view what;
    const std::string& text;
    std::size_t most;
  };
  for (const Row& row : {Row{"the name", request.name, kMaxNameBytes},
                         Row{"compression", request.compression, kMaxTextBytes},
                         Row{"call_site", request.call_site, kMaxTextBytes},
                         Row{"program", request.program, kMaxTextBytes}}) {
    if (row.text.size() <= row.most) continue;
    return invalid("{} has {} bytes; at most {} are allowed", row.what, row.text.size(), row.most);
  }
  return {};
}

/// True if the tensor's bytes can be counted in 63 bits.
bool is_countable(DType dtype, const Shape& shape) noexcept {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t left =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) {
    left /= extent;
  }
  return left > 0;
}

Status check_weighted(const Request& request) {
  if (!traits_of(request.kind).outlives_join || request.op != ReduceOp::kAverage) {
    return invalid("a weight is allowed for allreduce by average only, not for op {}",
                   to_string(request.op));
  }
  for (const TensorMeta& tensor : request.tensors) {
    const bool is_known = static_cast<int>(tensor.dtype) < kDTypeCount;  // check_tensor() says so
    if (!is_known || is_floating(tensor.dtype)) continue;
    return invalid("a weight is allowed for floating types only, not for {}",
                   to_string(tensor.dtype));
  }
  return {};
}

Status check_count(const Request& request) {
  const std::size_t count = request.tensors.size();
  if (!traits_of(request.kind).moves_data()) {
    return count == 0 ? Status()
                      : invalid("{} tensors given; a {} has none", count, to_string(request.kind));
  }
  if (count == 0) return invalid("no tensor given; at least one is needed");
  const CollectiveTraits& traits = traits_of(request.kind);
  if ((traits.has_splits() || traits.has_indices()) && count != 1) {
    return invalid("{} tensors given; {} takes exactly one", count, to_string(request.kind));
  }
  return {};
}

Status check_fields(const Request& request) {
  if (traits_of(request.kind).reduces && static_cast<int>(request.op) >= kReduceOpCount) {
    return invalid("op {} is unknown; allowed are 0 to {}", static_cast<int>(request.op),
                   kReduceOpCount - 1);
  }
  if (!is_defined(request.op, request.kind)) {
    return invalid("op {} is not defined for {}; allowed is {}", to_string(request.op),
                   to_string(request.kind), collectives_of(request.op));
  }
  if (traits_of(request.kind).rooted() && request.root < 0) {
    return invalid("root {} is not a rank; allowed are 0 and above", request.root);
  }
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale)) {
    return invalid("prescale {} and postscale {} must be finite", request.prescale,
                   request.postscale);
  }
  if (request.device.kind > kSeveralDevices) {
    return invalid("device kind {} is unknown; allowed are 0 (cpu), 1 (cuda) and 2 (several)",
                   static_cast<int>(request.device.kind));
  }
  return {};
}

std::size_t first_fixed_extent(Collective kind) noexcept {
  return traits_of(kind).has_free_first_extent() ? 1 : 0;
}

bool same_shape(Collective kind, const Shape& a, const Shape& b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = first_fixed_extent(kind); i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

bool same_program(const Request& a, const Request& b) noexcept {
  return a.program == b.program || a.program.empty() || b.program.empty();
}

void mix(std::size_t& hash, std::size_t value) noexcept {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
}

std::string_view device_name(DeviceKind kind) noexcept {
  if (kind == kSeveralDevices) return "\"several devices\"";
  return kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

std::string of_tensor(const Request& request, std::size_t index) {
  return request.tensors.size() == 1 ? std::string() : fmt::format(" of tensor {}", index);
}

/// The first field on which two requests differ, but must agree.
struct Difference {
  /// Returns the text of a request's field; null: the requests do not differ.
  std::string (*value)(const Request& request, std::size_t tensor) = nullptr;
  std::size_t tensor = 0;  // the index of the tensor that differs, if one does
};

using Given = const Request&;

Difference tensor_difference(const Request& a, const Request& b) noexcept {
  if (a.tensors.size() != b.tensors.size()) {
    return {[](Given of, std::size_t) { return fmt::format("{} tensors", of.tensors.size()); }};
  }
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].dtype != b.tensors[i].dtype) {
      return {[](Given of, std::size_t tensor) {
                return fmt::format("dtype {}{}", to_string(of.tensors[tensor].dtype),
                                   of_tensor(of, tensor));
              },
              i};
    }
    if (!same_shape(a.kind, a.tensors[i].shape, b.tensors[i].shape)) {
      return {[](Given of, std::size_t tensor) {
                return fmt::format("shape {}{}", to_string(of.tensors[tensor].shape),
                                   of_tensor(of, tensor));
              },
              i};
    }
  }
  return {};
}

Difference reduction_difference(const Request& a, const Request& b) noexcept {
  if (a.op != b.op) {
    return {[](Given of, std::size_t) { return fmt::format("op {}", to_string(of.op)); }};
  }
  if (a.prescale != b.prescale) {
    return {[](Given of, std::size_t) { return fmt::format("prescale {}", of.prescale); }};
  }
  if (a.postscale != b.postscale) {
    return {[](Given of, std::size_t) { return fmt::format("postscale {}", of.postscale); }};
  }
  if (a.weight.has_value() == b.weight.has_value()) return {};
  return {[](Given of, std::size_t) { return std::string(of.weight ? "a weight" : "no weight"); }};
}

Difference first_difference(const Request& a, const Request& b) noexcept {
  if (a.kind != b.kind) {
    return {[](Given of, std::size_t) { return std::string(to_string(of.kind)); }};
  }
  if (!same_program(a, b)) {
    return {[](Given of, std::size_t) { return fmt::format("it as part of {}", of.program); }};
  }
  if (const Difference found = tensor_difference(a, b); found.value != nullptr) return found;
  if (traits_of(a.kind).reduces) {
    if (const Difference found = reduction_difference(a, b); found.value != nullptr) return found;
  }
  if (traits_of(a.kind).rooted() && a.root != b.root) {
    return {[](Given of, std::size_t) { return fmt::format("root {}", of.root); }};
  }
  if (a.compression != b.compression) {
    return {
        [](Given of, std::size_t) { return fmt::format("compression \"{}\"", of.compression); }};
  }
  if (a.device.kind == b.device.kind) return {};
  return {
      [](Given of, std::size_t) { return fmt::format("device {}", device_name(of.device.kind)); }};
}

std::string says(const Submitted& who, const Difference& at) {
  const std::string& site = who.request.call_site;
  return fmt::format("rank {} submitted {}{}", who.rank, at.value(who.request, at.tensor),
                     site.empty() ? std::string() : fmt::format(" ({})", site));
}

}  // namespace

Status check_tensor(Collective kind, ReduceOp op, DType dtype, const Shape& shape) {
  if (static_cast<int>(dtype) >= kDTypeCount) {
    return invalid("dtype {} is unknown; allowed are 0 to {}", static_cast<int>(dtype),
                   kDTypeCount - 1);
  }
  if (shape.size() > kMaxDimensions) {
    return invalid("shape has {} dimensions; at most {} are allowed", shape.size(), kMaxDimensions);
  }
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; })) {
    return invalid("shape {} has a negative extent", to_string(shape));
  }
  if (!is_countable(dtype, shape)) {
    return invalid("shape {} has too many elements", to_string(shape));
  }
  if (traits_of(kind).divides_rows() && shape.empty()) {
    return invalid("shape [] has no first dimension to divide; at least one is needed");
  }
  if (traits_of(kind).reduces && !is_defined(op, dtype)) {
    return invalid("op {} is not defined on dtype {}; allowed are {}", to_string(op),
                   to_string(dtype), dtypes_of(op));
  }
  return {};
}

Status validate(const Request& request) {
  const int kind = static_cast<int>(request.kind);
  if (kind >= kCollectiveCount || request.kind == Collective::kJoin) {
    return invalid("collective {} cannot be submitted; allowed are 0 to {} but not {}", kind,
                   kCollectiveCount - 1, static_cast<int>(Collective::kJoin));
  }
  RONDE_RETURN_IF_ERROR(check_texts(request));
  RONDE_RETURN_IF_ERROR(check_fields(request));
  RONDE_RETURN_IF_ERROR(check_count(request));
  if (request.weight) RONDE_RETURN_IF_ERROR(check_weighted(request));
  for (const TensorMeta& tensor : request.tensors) {
    RONDE_RETURN_IF_ERROR(check_tensor(request.kind, request.op, tensor.dtype, tensor.shape));
  }
  if (wire_bytes(request) > kMaxRequestBytes) {
    return invalid("{} tensors take {} bytes to describe; at most {} are allowed per group",
                   request.tensors.size(), wire_bytes(request), kMaxRequestBytes);
  }
  return {};
}

std::string described(const Request& request) {
  const std::string name =
      request.name.empty() ? "" : fmt::format(" \"{}\"", shown_name(request.name));
  const std::string site = request.call_site.empty() ? "" : fmt::format(" ({})", request.call_site);
  return fmt::format("{}{}{}", to_string(request.kind), name, site);
}

Status with_request(const Status& status, const Request& request) {
  return is_of_request(status.code()) ? status.with_context(described(request)) : status;
}

bool same_signature(const Request& a, const Request& b) noexcept {
  return first_difference(a, b).value == nullptr;
}

bool stands_for(const Request& cached, const Request& request) noexcept {
  return cached.program == request.program && same_signature(cached, request);
}

std::size_t signature_hash(const Request& request) noexcept {
  auto hash = static_cast<std::size_t>(request.kind);
  for (const TensorMeta& tensor : request.tensors) {
    mix(hash, static_cast<std::size_t>(tensor.dtype));
    mix(hash, tensor.shape.size());
    for (std::size_t i = first_fixed_extent(request.kind); i < tensor.shape.size(); ++i) {
      mix(hash, static_cast<std::size_t>(tensor.shape[i]));
    }
  }
  if (traits_of(request.kind).reduces) mix(hash, static_cast<std::size_t>(request.op));
  if (traits_of(request.kind).rooted()) mix(hash, static_cast<std::size_t>(request.root));
  return hash;
}

std::string explain_difference(const Submitted& a, const Submitted& b) {
  if (b.rank < a.rank) return explain_difference(b, a);
  const Difference found = first_difference(a.request, b.request);
  if (found.value == nullptr) return {};
  return fmt::format("{}, {}", says(a, found), says(b, found));
}

std::string label(Collective kind, const OpKey& key) {
  if (key.name.empty()) return fmt::format("{} (unnamed, number {})", to_string(kind), key.ordinal);
  return fmt::format("{} \"{}\"", to_string(kind), key.name);
}

}  // namespace ronde
