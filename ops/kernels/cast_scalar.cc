// Conversions between any two element types, one element at a time: rarely used pairs, where
// rounding only once matters more than speed.
#include <cstring>
#include <type_traits>

#include "core/base/element.h"
#include "ops/kernels/entries.h"

namespace ronde::kernels {
namespace {

/// Conversions pass through fp64 for floating types, through the type itself for others.
template <typename T>
auto open(T from) {
  auto value = element::load(from);
  if constexpr (std::is_floating_point_v<decltype(value)>) {
    return static_cast<double>(value);
  } else {
    return value;
  }
}

template <typename From, typename To>
void cast_all(const std::byte* in, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, in + i * sizeof(From), sizeof(From));
    const To value = element::store<To>(open(from));
    std::memcpy(out + i * sizeof(To), &value, sizeof(To));
  }
}

}  // namespace

void cast_scalar(DType from, const void* in, DType to, void* out, std::size_t count) {
  element::with_type(from, [&]<typename From>() {
    element::with_type(to, [&]<typename To>() {
      cast_all<From, To>(static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count);
    });
  });
}

}  // namespace ronde::kernels
