// Values as bytes in the messages of the meeting: little-endian numbers, text with its length.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace ronde::net {

/// Appends values to a message.
class WireWriter {
 public:
  WireWriter& number(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes_ += static_cast<char>(static_cast<unsigned char>(value >> shift));
    }
    return *this;
  }
  WireWriter& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Takes values from a message. After reading past the end, ok() is false and values are empty.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : left_(bytes) {}

  std::uint32_t number() {
    const std::string_view bytes = take(4);
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return value;
  }
  std::string text() { return std::string(take(number())); }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  /// Whether everything was read, and nothing but.
  [[nodiscard]] bool finished() const noexcept { return ok_ && left_.empty(); }

 private:
  std::string_view take(std::size_t bytes) {
    ok_ = ok_ && bytes <= left_.size();
    if (!ok_) return {};
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  std::string_view left_;
  bool ok_ = true;
};

}  // namespace ronde::net
