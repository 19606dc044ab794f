// Takes a fuzzer's bytes apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ronde {

/// Reads from the front of what is left; zeros once nothing is.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size)
      : left_(reinterpret_cast<const std::byte*>(data), size) {}

  [[nodiscard]] bool empty() const noexcept { return left_.empty(); }
  std::uint8_t byte() {
    const auto taken = bytes(1);
    return taken.empty() ? 0 : std::to_integer<std::uint8_t>(taken[0]);
  }
  /// At most `count` bytes.
  std::span<const std::byte> bytes(std::size_t count) {
    const auto taken = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  /// A piece whose length stands before it, in two bytes.
  std::span<const std::byte> piece() {
    const std::size_t low = byte();
    return bytes(low | (std::size_t{byte()} << 8));
  }
  std::span<const std::byte> rest() { return bytes(left_.size()); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace ronde
