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
  if (request.kind != Collective::kAllreduce || request.op != ReduceOp::kAverage) {
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

/// The fields on which ranks must agree, in the order in which errors name them.
enum class Field : std::uint8_t {
  kNone,
  kKind,
  kProgram,
  kTensorCount,
  kDType,
  kShape,
  kOp,
  kPrescale,
  kPostscale,
  kWeight,
  kRoot,
  kCompression,
  kDevice,
};

/// The first field on which two requests differ.
struct Difference {
  Field field = Field::kNone;
  std::size_t tensor = 0;  // its index, of kDType and kShape
};

Difference tensor_difference(const Request& a, const Request& b) noexcept {
  if (a.tensors.size() != b.tensors.size()) return {Field::kTensorCount};
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].dtype != b.tensors[i].dtype) return {Field::kDType, i};
    if (!same_shape(a.kind, a.tensors[i].shape, b.tensors[i].shape)) return {Field::kShape, i};
  }
  return {};
}

Field reduction_difference(const Request& a, const Request& b) noexcept {
  if (a.op != b.op) return Field::kOp;
  if (a.prescale != b.prescale) return Field::kPrescale;
  if (a.postscale != b.postscale) return Field::kPostscale;
  return a.weight.has_value() == b.weight.has_value() ? Field::kNone : Field::kWeight;
}

Difference first_difference(const Request& a, const Request& b) noexcept {
  if (a.kind != b.kind) return {Field::kKind};
  if (!same_program(a, b)) return {Field::kProgram};
  const Difference tensors = tensor_difference(a, b);
  if (tensors.field != Field::kNone) return tensors;
  const Field reduction = traits_of(a.kind).reduces ? reduction_difference(a, b) : Field::kNone;
  if (reduction != Field::kNone) return {reduction};
  if (traits_of(a.kind).rooted() && a.root != b.root) return {Field::kRoot};
  if (a.compression != b.compression) return {Field::kCompression};
  return {a.device.kind == b.device.kind ? Field::kNone : Field::kDevice};
}

std::string of_tensor(const Request& request, std::size_t index) {
  return request.tensors.size() == 1 ? std::string() : fmt::format(" of tensor {}", index);
}

/// What a request has in the field of a difference.
std::string value_of(const Request& request, const Difference& at) {
  switch (at.field) {
    case Field::kNone:
      return {};
    case Field::kKind:
      return std::string(to_string(request.kind));
    case Field::kProgram:
      return fmt::format("it as part of {}", request.program);
    case Field::kTensorCount:
      return fmt::format("{} tensors", request.tensors.size());
    case Field::kDType:
      return fmt::format("dtype {}{}", to_string(request.tensors[at.tensor].dtype),
                         of_tensor(request, at.tensor));
    case Field::kShape:
      return fmt::format("shape {}{}", to_string(request.tensors[at.tensor].shape),
                         of_tensor(request, at.tensor));
    case Field::kOp:
      return fmt::format("op {}", to_string(request.op));
    case Field::kPrescale:
      return fmt::format("prescale {}", request.prescale);
    case Field::kPostscale:
      return fmt::format("postscale {}", request.postscale);
    case Field::kWeight:
      return request.weight ? "a weight" : "no weight";
    case Field::kRoot:
      return fmt::format("root {}", request.root);
    case Field::kCompression:
      return fmt::format("compression \"{}\"", request.compression);
    case Field::kDevice:
      return fmt::format("device {}", device_name(request.device.kind));
  }
  return {};
}

std::string says(const Submitted& who, const Difference& at) {
  const std::string& site = who.request.call_site;
  return fmt::format("rank {} submitted {}{}", who.rank, value_of(who.request, at),
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
  return first_difference(a, b).field == Field::kNone;
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
  if (found.field == Field::kNone) return {};
  return fmt::format("{}, {}", says(a, found), says(b, found));
}

std::string label(Collective kind, const OpKey& key) {
  if (key.name.empty()) return fmt::format("{} (unnamed, number {})", to_string(kind), key.ordinal);
  return fmt::format("{} \"{}\"", to_string(kind), key.name);
}

}  // namespace ronde
