#include "core/protocol/signature.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>

#include "core/protocol/request.h"

namespace ronde {
namespace {

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

bool same_tensors(const Request& a, const Request& b) noexcept {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].dtype != b.tensors[i].dtype) return false;
    if (!same_shape(a.kind, a.tensors[i].shape, b.tensors[i].shape)) return false;
  }
  return true;
}

bool same_reduction(const Request& a, const Request& b) noexcept {
  return a.op == b.op && a.prescale == b.prescale && a.postscale == b.postscale &&
         a.weight.has_value() == b.weight.has_value();
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

/// The values that differ first, as both sides would say them; empty where nothing differs.
struct Difference {
  std::string a;
  std::string b;
};

std::string of_tensor(const Request& request, std::size_t index) {
  return request.tensors.size() == 1 ? std::string() : fmt::format(" of tensor {}", index);
}

Difference tensor_difference(const Request& a, const Request& b) {
  if (a.tensors.size() != b.tensors.size()) {
    return {fmt::format("{} tensors", a.tensors.size()),
            fmt::format("{} tensors", b.tensors.size())};
  }
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorMeta& x = a.tensors[i];
    const TensorMeta& y = b.tensors[i];
    const std::string where = of_tensor(a, i);
    if (x.dtype != y.dtype) {
      return {fmt::format("dtype {}{}", to_string(x.dtype), where),
              fmt::format("dtype {}{}", to_string(y.dtype), where)};
    }
    if (!same_shape(a.kind, x.shape, y.shape)) {
      return {fmt::format("shape {}{}", to_string(x.shape), where),
              fmt::format("shape {}{}", to_string(y.shape), where)};
    }
  }
  return {};
}

Difference reduction_difference(const Request& a, const Request& b) {
  if (a.op != b.op) {
    return {fmt::format("op {}", to_string(a.op)), fmt::format("op {}", to_string(b.op))};
  }
  if (a.prescale != b.prescale) {
    return {fmt::format("prescale {}", a.prescale), fmt::format("prescale {}", b.prescale)};
  }
  if (a.postscale != b.postscale) {
    return {fmt::format("postscale {}", a.postscale), fmt::format("postscale {}", b.postscale)};
  }
  if (a.weight.has_value() != b.weight.has_value()) {
    const auto has = [](const Request& one) { return one.weight ? "a weight" : "no weight"; };
    return {has(a), has(b)};
  }
  return {};
}

Difference difference(const Request& a, const Request& b) {
  if (a.kind != b.kind) return {std::string(to_string(a.kind)), std::string(to_string(b.kind))};
  if (!same_program(a, b)) {
    return {fmt::format("it as part of {}", a.program), fmt::format("it as part of {}", b.program)};
  }
  if (Difference found = tensor_difference(a, b); !found.a.empty()) return found;
  if (traits_of(a.kind).reduces) {
    if (Difference found = reduction_difference(a, b); !found.a.empty()) return found;
  }
  if (traits_of(a.kind).rooted() && a.root != b.root) {
    return {fmt::format("root {}", a.root), fmt::format("root {}", b.root)};
  }
  if (a.compression != b.compression) {
    return {fmt::format("compression \"{}\"", a.compression),
            fmt::format("compression \"{}\"", b.compression)};
  }
  if (a.device.kind != b.device.kind) {
    return {fmt::format("device {}", device_name(a.device.kind)),
            fmt::format("device {}", device_name(b.device.kind))};
  }
  return {};
}

std::string says(const Submitted& who, const std::string& value) {
  const std::string& site = who.request.call_site;
  return fmt::format("rank {} submitted {}{}", who.rank, value,
                     site.empty() ? std::string() : fmt::format(" ({})", site));
}

}  // namespace

bool same_signature(const Request& a, const Request& b) noexcept {
  return a.kind == b.kind && same_tensors(a, b) &&
         (!traits_of(a.kind).reduces || same_reduction(a, b)) &&
         (!traits_of(a.kind).rooted() || a.root == b.root) && a.compression == b.compression &&
         a.device.kind == b.device.kind && same_program(a, b);
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
  const Difference found = difference(a.request, b.request);
  if (found.a.empty()) return {};
  return fmt::format("{}, {}", says(a, found.a), says(b, found.b));
}

std::string label(Collective kind, const OpKey& key) {
  if (key.name.empty()) return fmt::format("{} (unnamed, number {})", to_string(kind), key.ordinal);
  return fmt::format("{} \"{}\"", to_string(kind), key.name);
}

}  // namespace ronde
