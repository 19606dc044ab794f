// The wire codec, which reads all messages: a message with each kind of field.
#include <cstdlib>

#include "core/base/wire_codec.h"
#include "tests/fuzz/input.h"

namespace {

struct Inner {
  std::int64_t number = 0;
  std::string text;
  static void fields(auto& wire, auto& self) { wire(self.number, self.text); }
};

struct Everything {
  int rank = 0;
  bool flag = false;
  std::array<std::byte, 3> id{};
  std::vector<std::string> words;
  std::vector<std::vector<Inner>> inner;
  std::map<int, Inner> by_rank;
  std::vector<std::int64_t> numbers;
  std::shared_ptr<const Inner> shared;
  ronde::Status status;
  static void fields(auto& wire, auto& self) {
    wire(self.rank, self.flag, self.id, self.words, self.inner, self.by_rank, self.numbers,
         self.shared, self.status);
  }
};

/// An accepted message must read back alike, and a truncated one must be refused.
void check(const Everything& message) {
  auto bytes = ronde::encode_wire(message);
  const auto again = ronde::decode_wire<Everything>(bytes, "message");
  if (!again.ok() || ronde::encode_wire(*again) != bytes) std::abort();
  bytes.pop_back();
  if (ronde::decode_wire<Everything>(bytes, "message").ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto message = ronde::decode_wire<Everything>(bytes, "message"); message.ok()) {
    check(*message);
  }
  ronde::FuzzInput input(data, size);
  while (!input.empty()) {
    ronde::WireReader reader(input.piece(), "message");
    Inner inner;
    reader(inner);
    reader.require(!inner.text.empty(), "it says nothing");
    if (!reader.ok() && (!reader.rest().empty() || reader.finish().ok())) std::abort();
  }
  return 0;
}
