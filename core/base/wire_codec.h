// Values as bytes between processes: little-endian numbers, text and lists with their length
// before. All messages use it.
//
// A message names its fields once, for both directions:
//
//   struct Greeting {
//     int rank = 0;
//     std::string host;
//     static void fields(auto& wire, auto& self) { wire(self.rank, self.host); }
//   };
//   const auto bytes = encode_wire(greeting);
//   RONDE_ASSIGN_OR_RETURN(Greeting got, decode_wire<Greeting>(bytes, "greeting"));
//
// The format carries no version: ranks check that they run one build before they exchange more.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"

namespace ronde {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

/// A value of fixed width. bool is none: not every byte is one.
template <typename T>
concept WireNumber =
    (std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T> || std::is_enum_v<T>;

/// Appends values. `Buffer` is std::vector<std::byte> or std::string.
template <typename Buffer = std::vector<std::byte>>
class WireWriter {
 public:
  /// Reserves room for `bytes`.
  explicit WireWriter(std::size_t bytes = 0) { bytes_.reserve(bytes); }
  /// Replaces the contents of `reused` and keeps its room.
  explicit WireWriter(Buffer&& reused) : bytes_(std::move(reused)) { bytes_.clear(); }

  template <typename... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  /// Appends bytes without their number. The reader knows it, or takes rest().
  void raw(std::span<const std::byte> bytes) {
    const auto* data = reinterpret_cast<const typename Buffer::value_type*>(bytes.data());
    if constexpr (requires { bytes_.append(data, bytes.size()); }) {
      bytes_.append(data, bytes.size());
    } else {
      bytes_.insert(bytes_.end(), data, data + bytes.size());
    }
  }
  /// Appends a value as it lies in memory: for facts that ranks of one host exchange.
  template <typename T>
  void object(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    raw(std::as_bytes(std::span(&value, 1)));
  }

  [[nodiscard]] Buffer take() { return std::move(bytes_); }

 private:
  template <WireNumber T>
  void put(T value) {
    object(value);
  }
  template <std::same_as<bool> T>  // nothing else converts to it
  void put(T value) {
    put(static_cast<std::uint8_t>(value));
  }
  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    raw(as_bytes(text));
  }
  template <typename T>
  void put(std::span<const T> list) {
    put(static_cast<std::uint32_t>(list.size()));
    if constexpr (WireNumber<T>) {
      raw(std::as_bytes(list));
    } else {
      for (const T& each : list) put(each);
    }
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put(std::span<const T>(list));
  }
  template <typename T>
  void put(const std::shared_ptr<const T>& value) {
    put(value != nullptr);
    if (value != nullptr) put(*value);
  }
  template <typename K, typename V>
  void put(const std::map<K, V>& map) {
    put(static_cast<std::uint32_t>(map.size()));
    for (const auto& [key, value] : map) (*this)(key, value);
  }
  template <typename T, std::size_t size>
  void put(const std::array<T, size>& list) {
    for (const T& each : list) put(each);
  }
  void put(const Status& status) {
    const std::optional<FailedRank>& failed = status.failed_rank();
    const bool has_rank = failed && failed->rank >= 0;
    (*this)(status.code(), status.message(), has_rank);
    if (has_rank) (*this)(failed->rank, failed->host, failed->pid);
  }
  template <typename T>
  requires requires(WireWriter& writer, const T& value) { T::fields(writer, value); }
  void put(const T& value) { T::fields(*this, value); }

  Buffer bytes_;
};

/// Takes values in the order in which they were written. Bytes from a faulty peer are safe. After a
/// value that does not fit, all values are zero or empty, and status() names the fault.
class WireReader {
 public:
  /// `what` is the message's name in errors. Both outlive the reader.
  WireReader(std::span<const std::byte> bytes, std::string_view what) noexcept
      : bytes_(bytes), left_(bytes), what_(what) {}

  template <typename... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  /// Fills `out` with bytes that were written without their number.
  void raw(std::span<std::byte> out) noexcept {
    const auto bytes = take(out.size());
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), out.size());
  }
  template <typename T>
  void object(T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    raw(std::as_writable_bytes(std::span(&value, 1)));
  }
  /// All bytes that are left.
  std::span<const std::byte> rest() noexcept { return take(left_.size()); }
  /// Declares the message malformed unless `good`. `why` outlives the reader.
  void require(bool good, std::string_view why) noexcept {
    if (good || !ok()) return;
    why_ = why;
    failed_at_ = bytes_.size() - left_.size();
    left_ = {};
  }

  [[nodiscard]] bool ok() const noexcept { return why_.empty(); }
  /// Errors: kInvalidArgument naming the message, the byte and the reason.
  [[nodiscard]] Status status() const;
  /// As status(); bytes that are left are an error too.
  [[nodiscard]] Status finish() {
    require(left_.empty(), "there are bytes after its end");
    return status();
  }

 private:
  std::span<const std::byte> take(std::size_t count) noexcept {
    require(count <= left_.size(), "it ends too early");
    if (!ok()) return {};
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  /// The number of elements of a list, each of which takes at least a byte.
  std::uint32_t count() noexcept {
    std::uint32_t value = 0;
    get(value);
    require(value <= left_.size(), "a length exceeds it");
    return ok() ? value : 0;
  }

  template <WireNumber T>
  void get(T& value) noexcept {
    value = T{};
    object(value);
  }
  void get(bool& value) noexcept {
    std::uint8_t byte = 0;
    get(byte);
    require(byte <= 1, "a truth value is neither 0 nor 1");
    value = byte == 1;
  }
  void get(std::string& text) { text = as_text(take(count())); }
  template <WireNumber T>
  void get(std::vector<T>& list) {
    const auto bytes = take(sizeof(T) * count());
    list.resize(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  }
  template <typename T>
  void get(std::vector<T>& list) {
    list.clear();
    for (std::uint32_t left = count(); left > 0 && ok(); --left) get(list.emplace_back());
  }
  template <typename T>
  void get(std::shared_ptr<const T>& value) {
    bool given = false;
    get(given);
    value = nullptr;
    if (!given) return;
    auto made = std::make_shared<T>();
    get(*made);
    value = std::move(made);
  }
  template <typename K, typename V>
  void get(std::map<K, V>& map) {
    map.clear();
    for (std::uint32_t left = count(); left > 0 && ok(); --left) {
      K key{};
      get(key);
      get(map[std::move(key)]);
    }
  }
  template <typename T, std::size_t size>
  void get(std::array<T, size>& list) {
    for (T& each : list) get(each);
  }
  void get(Status& status);
  template <typename T>
  requires requires(WireReader& reader, T& value) { T::fields(reader, value); }
  void get(T& value) { T::fields(*this, value); }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> left_;
  std::string_view what_;
  std::string_view why_;  // empty while all is well
  std::size_t failed_at_ = 0;
};

/// A message as bytes.
template <typename Buffer = std::vector<std::byte>, typename T>
Buffer encode_wire(const T& message) {
  WireWriter<Buffer> writer;
  writer(message);
  return writer.take();
}

/// The message that all of `bytes` are. Errors: as WireReader::status().
template <typename T>
Result<T> decode_wire(std::span<const std::byte> bytes, std::string_view what) {
  WireReader reader(bytes, what);
  T message{};
  reader(message);
  RONDE_RETURN_IF_ERROR(reader.finish());
  return message;
}

/// The most of Config::inline_payload_bytes. All of it fits into one frame.
inline constexpr std::size_t kMaxPayloadBytes = std::size_t{16} << 10;

}  // namespace ronde
