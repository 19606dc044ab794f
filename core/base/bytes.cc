#include "core/base/bytes.h"

#include <array>
#include <bit>
#include <cstring>

namespace ronde {
namespace {

// The specification's primes.
constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

constexpr std::size_t kStripe = 32;  // bytes of the four lanes

template <typename Word>
std::uint64_t word_at(const std::byte* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

std::uint64_t mixed_with(std::uint64_t lane, std::uint64_t word) noexcept {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

/// Mixes all whole stripes. Independent lanes keep the processor's multipliers busy.
std::uint64_t of_stripes(std::span<const std::byte> stripes) noexcept {
  std::array<std::uint64_t, 4> lanes = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  for (std::size_t at = 0; at < stripes.size(); at += kStripe) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      lanes[i] = mixed_with(lanes[i], word_at<std::uint64_t>(stripes.data() + at + 8 * i));
    }
  }
  std::uint64_t mixed = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                        std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) mixed = (mixed ^ mixed_with(0, lane)) * kPrime1 + kPrime4;
  return mixed;
}

/// Mixes the bytes after the last stripe.
std::uint64_t with_rest(std::uint64_t mixed, std::span<const std::byte> rest) noexcept {
  for (; rest.size() >= 8; rest = rest.subspan(8)) {
    mixed ^= mixed_with(0, word_at<std::uint64_t>(rest.data()));
    mixed = std::rotl(mixed, 27) * kPrime1 + kPrime4;
  }
  if (rest.size() >= 4) {
    mixed ^= word_at<std::uint32_t>(rest.data()) * kPrime1;
    mixed = std::rotl(mixed, 23) * kPrime2 + kPrime3;
    rest = rest.subspan(4);
  }
  for (const std::byte one : rest) {
    mixed ^= std::to_integer<std::uint64_t>(one) * kPrime5;
    mixed = std::rotl(mixed, 11) * kPrime1;
  }
  return mixed;
}

}  // namespace

std::uint64_t hash64(std::span<const std::byte> bytes) noexcept {
  const std::size_t whole = bytes.size() - bytes.size() % kStripe;
  std::uint64_t mixed = whole == 0 ? kPrime5 : of_stripes(bytes.first(whole));
  mixed = with_rest(mixed + bytes.size(), bytes.subspan(whole));
  mixed = (mixed ^ (mixed >> 33)) * kPrime2;
  mixed = (mixed ^ (mixed >> 29)) * kPrime3;
  return mixed ^ (mixed >> 32);
}

}  // namespace ronde
