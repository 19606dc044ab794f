// Sends and receives that are waited for, and the arithmetic of parts: what all algorithms share.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/transport.h"

namespace ronde {

/// Sends `data` to `to` and waits until it may be changed.
Status send_to(Transport& transport, int to, std::span<const std::byte> data,
               const AbortToken& abort);

/// Receives exactly `into` from `from`.
Status recv_from(Transport& transport, int from, std::span<std::byte> into,
                 const AbortToken& abort);

/// One message in each direction at the same time, to and from ranks that may differ.
struct Exchanged {
  int to = 0;
  std::span<const std::byte> data;
  int from = 0;
  std::span<std::byte> into;
};

/// Posts both transfers and waits for both.
Status exchange(Transport& transport, const Exchanged& messages, const AbortToken& abort);

/// Transfers posted together, and the wait for all of them.
class Posted {
 public:
  Posted(Transport& transport, const AbortToken& abort) : transport_(transport), abort_(abort) {}
  Status send(int to, std::span<const std::byte> data);
  Status recv(int from, std::span<std::byte> into);
  /// Blocks until all that was posted is done.
  Status wait();

 private:
  Status keep(const Result<TransferId>& id);

  Transport& transport_;
  const AbortToken& abort_;
  std::vector<TransferId> ids_;
};

/// `value` modulo `size`, never negative; `value` >= -size.
constexpr int wrap(int value, int size) noexcept { return (value + size) % size; }

/// A run of elements.
struct Part {
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// Part `index` when `count` elements are divided into `parts` as evenly as can be; the first ones
/// are longer.
constexpr Part even_part(std::size_t count, std::size_t parts, std::size_t index) noexcept {
  const std::size_t base = count / parts;
  const std::size_t longer = count % parts;
  const std::size_t before = index < longer ? index : longer;
  return {index * base + before, base + (index < longer ? 1 : 0)};
}

/// All parts of an even division, by index.
std::vector<Part> even_parts(std::size_t count, std::size_t parts);

/// Consecutive parts of these lengths, in elements of `element` bytes.
std::vector<Part> parts_of(std::span<const std::size_t> lengths_bytes, std::size_t element);

/// Bytes of each part.
std::vector<std::size_t> lengths_of(std::span<const Part> parts, std::size_t element);

/// Where each of consecutive parts of these lengths begins.
std::vector<std::size_t> begins_of(std::span<const std::size_t> lengths);

/// memmove that takes null for no bytes and does nothing in place.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace ronde
