#include "bindings/cli/launch/frame.h"

#include <bit>
#include <cstring>

namespace ronde {
namespace {

constexpr std::size_t kHeaderBytes = 5;
static_assert(std::endian::native == std::endian::little);

std::uint32_t length_at(std::string_view bytes) {
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length;
}

}  // namespace

std::string encode_frame(FrameType type, std::string_view payload) {
  const auto length = static_cast<std::uint32_t>(payload.size());
  std::string frame(1, static_cast<char>(type));
  frame.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return frame.append(payload);
}

Result<std::optional<Frame>> AgentFrameReader::next() {
  if (buffer_.size() < kHeaderBytes) return std::optional<Frame>();
  const std::size_t length = length_at(std::string_view(buffer_).substr(1));
  if (length > kMaxAgentFrameBytes) return Status(Code::kInvalidArgument, "a frame is too long");
  if (buffer_.size() < kHeaderBytes + length) return std::optional<Frame>();
  std::optional<Frame> frame(
      {static_cast<FrameType>(buffer_[0]), buffer_.substr(kHeaderBytes, length)});
  buffer_.erase(0, kHeaderBytes + length);
  return frame;
}

FieldWriter& FieldWriter::number(std::int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return *this;
}

FieldWriter& FieldWriter::text(std::string_view value) {
  number(static_cast<std::int64_t>(value.size()));
  bytes_.append(value);
  return *this;
}

FieldWriter& FieldWriter::texts(const std::vector<std::string>& values) {
  number(static_cast<std::int64_t>(values.size()));
  for (const std::string& value : values) text(value);
  return *this;
}

std::string_view FieldReader::take(std::size_t count) {
  ok_ = ok_ && count <= rest_.size();
  if (!ok_) return {};
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::int64_t FieldReader::number() {
  std::int64_t value = 0;
  const std::string_view bytes = take(sizeof(value));
  if (ok_) std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::string FieldReader::text() {
  const auto length = static_cast<std::size_t>(number());
  return std::string(take(length));
}

std::vector<std::string> FieldReader::texts() {
  const std::int64_t count = number();
  std::vector<std::string> values;
  for (std::int64_t i = 0; i < count && ok_; ++i) values.push_back(text());
  return values;
}

}  // namespace ronde
