// The limits of one request. They keep every frame that carries it below the channel's limit.
#include "core/protocol/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

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
  return fmt::format("{} and {}", fmt::join(names.begin(), std::prev(names.end()), ", "),
                     names.back());
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
  if (request.name.size() > kMaxNameBytes) {
    return invalid("the name has {} bytes; at most {} are allowed", request.name.size(),
                   kMaxNameBytes);
  }
  if (request.compression.size() > kMaxTextBytes) {
    return invalid("compression has {} bytes; at most {} are allowed", request.compression.size(),
                   kMaxTextBytes);
  }
  if (request.call_site.size() > kMaxTextBytes) {
    return invalid("call_site has {} bytes; at most {} are allowed", request.call_site.size(),
                   kMaxTextBytes);
  }
  if (request.program.size() > kMaxTextBytes) {
    return invalid("program has {} bytes; at most {} are allowed", request.program.size(),
                   kMaxTextBytes);
  }
  return {};
}

/// Whether the tensor's bytes can be counted in 63 bits.
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
  if (request.kind != Collective::kAllreduce || request.op != ReduceOp::kAverage) {
    return invalid("a weight is allowed for allreduce by average only, not for op {}",
                   to_string(request.op));
  }
  for (const TensorMeta& tensor : request.tensors) {
    if (is_floating(tensor.dtype)) continue;
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
  if (traits_of(request.kind).has_splits() && count != 1) {
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
    return invalid("op {} is not defined for {}; allowed is allreduce", to_string(request.op),
                   to_string(request.kind));
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

}  // namespace ronde
