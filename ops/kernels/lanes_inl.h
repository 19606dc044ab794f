// How vectors of each element type are loaded, stored, combined and scaled. Compiled once for each
// instruction set: include it after hwy/foreach_target.h, and use it from HWY_NAMESPACE only.
//
// An element type E has: Elem (in memory), V (in registers), step() (elements in one V), load,
// store, combine<Op> and scale; where kStreams, also stream (aligned, past the caches).
#if defined(RONDE_OPS_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDE_OPS_KERNELS_LANES_INL_H_
#undef RONDE_OPS_KERNELS_LANES_INL_H_
#else
#define RONDE_OPS_KERNELS_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/kernels/scalar.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Unlike hn::LoadU and hn::StoreU, free of alignment assumptions on the scalar target too.
template <class D>
HWY_INLINE hn::Vec<D> load_unaligned(D d, const void* from) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  T lane;
  std::memcpy(&lane, from, sizeof(lane));
  return hn::Set(d, lane);
#else
  return hn::LoadU(d, static_cast<const T*>(from));
#endif
}

template <class D>
HWY_INLINE void store_unaligned(hn::Vec<D> v, D d, void* to) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  const auto lane = hn::GetLane(v);
  std::memcpy(to, &lane, sizeof(lane));
#else
  hn::StoreU(v, d, static_cast<hn::TFromD<D>*>(to));
#endif
}

/// Streams where the instruction set can stream this many bytes; `to` is aligned to them.
template <class D>
HWY_INLINE void stream_aligned(hn::Vec<D> v, D d, hn::TFromD<D>* to) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >= 16) {
    hn::Stream(v, d, to);
  } else {
    store_unaligned(v, d, to);
  }
}

struct Sum {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

/// NaN in either input gives NaN, which hn::Min and hn::Max leave open.
template <class D, class V>
HWY_INLINE V keep_nan(D d, V a, V b, V otherwise) {
  if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    (void)d;
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, otherwise));
  } else {
    return otherwise;
  }
}

struct Min {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    return keep_nan(d, a, b, hn::Min(a, b));
  }
};

struct Max {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    return keep_nan(d, a, b, hn::Max(a, b));
  }
};

struct Product {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    using T = hn::TFromD<D>;
    if constexpr (std::is_floating_point_v<T>) {
      return hn::Mul(a, b);
    } else {
      HWY_ALIGN T left[hn::MaxLanes(D())];
      HWY_ALIGN T right[hn::MaxLanes(D())];
      hn::Store(a, d, left);
      hn::Store(b, d, right);
      for (std::size_t i = 0; i < hn::Lanes(d); ++i) left[i] = wrapping_product(left[i], right[i]);
      return hn::Load(d, left);
    }
  }
};

struct BitAnd {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

struct BitOr {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

struct BitXor {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

/// Elements that are computed with as they are: fp32, fp64 and integers.
template <typename T>
struct Plain {
  using Elem = T;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  /// Integers are no gradients: not worth the code.
  static constexpr bool kStreams = std::is_floating_point_v<T>;
  /// An average is divided, so that it is the nearest number there is.
  static constexpr bool kDivides = std::is_floating_point_v<T>;

  static HWY_INLINE std::size_t step() { return hn::Lanes(D()); }
  static HWY_INLINE V load(const Elem* from) { return load_unaligned(D(), from); }
  static HWY_INLINE void store(V v, Elem* to) { store_unaligned(v, D(), to); }
  static HWY_INLINE void stream(V v, Elem* to) { stream_aligned(v, D(), to); }

  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    return Op::apply(D(), a, b);
  }

  static HWY_INLINE V divide(V v, double divisor) {
    return hn::Div(v, hn::Set(D(), static_cast<T>(divisor)));
  }

  static HWY_INLINE V scale(V v, double factor) {
    const D d;
    if constexpr (std::is_floating_point_v<T>) {
      return hn::Mul(v, hn::Set(d, static_cast<T>(factor)));
    } else {
      HWY_ALIGN T lanes[hn::MaxLanes(D())];
      hn::Store(v, d, lanes);
      for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = scale_integer(lanes[i], factor);
      return hn::Load(d, lanes);
    }
  }
};

/// bool in one byte: any non-zero byte is true, results are 0 or 1. Scaling does nothing.
struct Bool : Plain<std::uint8_t> {
  static HWY_INLINE V load(const Elem* from) {
    const D d;
    const V bytes = Plain<std::uint8_t>::load(from);
    return hn::IfThenElseZero(hn::Ne(bytes, hn::Zero(d)), hn::Set(d, std::uint8_t{1}));
  }
  static HWY_INLINE V scale(V v, double) { return v; }
};

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
