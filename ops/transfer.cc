#include "ops/transfer.h"

#include <cstring>

namespace ronde {

Status send_to(Transport& transport, int to, std::span<const std::byte> data,
               const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const TransferId id, transport.send(to, data));
  return transport.wait(id, abort);
}

Status recv_from(Transport& transport, int from, std::span<std::byte> into,
                 const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const TransferId id, transport.recv(from, into));
  return transport.wait(id, abort);
}

Status exchange(Transport& transport, const Exchanged& messages, const AbortToken& abort) {
  RONDE_ASSIGN_OR_RETURN(const TransferId in, transport.recv(messages.from, messages.into));
  RONDE_ASSIGN_OR_RETURN(const TransferId out, transport.send(messages.to, messages.data));
  RONDE_RETURN_IF_ERROR(transport.wait(in, abort));
  return transport.wait(out, abort);
}

Status Posted::keep(const Result<TransferId>& id) {
  if (!id.ok()) return id.status();
  ids_.push_back(id.value());
  return {};
}

Status Posted::send(int to, std::span<const std::byte> data) {
  return keep(transport_.send(to, data));
}

Status Posted::recv(int from, std::span<std::byte> into) {
  return keep(transport_.recv(from, into));
}

Status Posted::wait() {
  for (const TransferId id : ids_) RONDE_RETURN_IF_ERROR(transport_.wait(id, abort_));
  ids_.clear();
  return {};
}

std::vector<Chunk> even_chunks(std::size_t count, std::size_t chunks) {
  std::vector<Chunk> all;
  for (std::size_t index = 0; index < chunks; ++index) {
    all.push_back(even_chunk(count, chunks, index));
  }
  return all;
}

std::vector<Chunk> chunks_of(std::span<const std::size_t> lengths_bytes, std::size_t element) {
  std::vector<Chunk> chunks;
  std::size_t begin = 0;
  for (const std::size_t bytes : lengths_bytes) {
    chunks.push_back({begin, bytes / element});
    begin += bytes / element;
  }
  return chunks;
}

std::vector<std::size_t> lengths_of(std::span<const Chunk> chunks, std::size_t element) {
  std::vector<std::size_t> lengths;
  for (const Chunk& chunk : chunks) lengths.push_back(chunk.count * element);
  return lengths;
}

std::vector<std::size_t> begins_of(std::span<const std::size_t> lengths) {
  std::vector<std::size_t> begins;
  begins.reserve(lengths.size());
  std::size_t at = 0;
  for (const std::size_t length : lengths) {
    begins.push_back(at);
    at += length;
  }
  return begins;
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes != 0 && to != from) std::memmove(to, from, bytes);
}

void Scratch::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete (memory, std::align_val_t{64});
}

std::byte* Scratch::block(std::size_t index, std::size_t bytes) {
  Block& block = blocks_.at(index);
  if (block.bytes < bytes) {
    block.memory.reset();
    block.bytes = 0;
    block.memory.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
    block.bytes = bytes;
  }
  return block.memory.get();
}

}  // namespace ronde
