// All algorithms share these: blocking transfers, the arithmetic of chunks, and scratch memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
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
struct Chunk {
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// Chunk `index` when `count` elements are divided into `chunks` as evenly as can be; the first
/// ones are longer.
constexpr Chunk even_chunk(std::size_t count, std::size_t chunks, std::size_t index) noexcept {
  const std::size_t base = count / chunks;
  const std::size_t longer = count % chunks;
  const std::size_t before = index < longer ? index : longer;
  return {index * base + before, base + (index < longer ? 1 : 0)};
}

/// All chunks of an even division, by index.
std::vector<Chunk> even_chunks(std::size_t count, std::size_t chunks);

/// Consecutive chunks of these lengths, in elements of `element` bytes.
std::vector<Chunk> chunks_of(std::span<const std::size_t> lengths_bytes, std::size_t element);

/// Bytes of each chunk.
std::vector<std::size_t> lengths_of(std::span<const Chunk> chunks, std::size_t element);

/// The beginnings of consecutive chunks of these lengths.
std::vector<std::size_t> begins_of(std::span<const std::size_t> lengths);

/// memmove that takes null for no bytes and does nothing in place.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// A few independent blocks of heap memory, aligned to a cache line. They grow and stay.
/// Threads: one at a time.
class Scratch {
 public:
  static constexpr std::size_t kBlocks = 3;

  /// At least `bytes` of block `index` (below kBlocks); contents are unspecified. Valid until the
  /// next call for the same block. Owns: the scratch.
  std::byte* block(std::size_t index, std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
  };
  std::array<Block, kBlocks> blocks_;
};

}  // namespace ronde
