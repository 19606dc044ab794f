#include "core/base/bytes.h"

#define RONDE_BYTES_ISA bytes_plain
#include "core/base/bytes_inl.h"

namespace ronde {

#if RONDE_BYTES_X86
extern const ByteLoops kLoopsAvx2;
extern const ByteLoops kLoopsAvx512;
#endif

namespace {

/// The fastest loops of this processor: all give the same bits.
const ByteLoops& loops() noexcept {
#if RONDE_BYTES_X86
  static const ByteLoops& kFastest = __builtin_cpu_supports("avx512f") ? kLoopsAvx512
                                     : __builtin_cpu_supports("avx2")  ? kLoopsAvx2
                                                                       : bytes_plain::kLoops;
  return kFastest;
#else
  return bytes_plain::kLoops;
#endif
}

}  // namespace

std::uint64_t hash64(std::span<const std::byte> bytes) noexcept {
  return loops().hash(bytes.data(), bytes.size());
}

void Checksum::add(std::span<const std::byte> block) noexcept {
  loops().add(sums_, nullptr, block.data(), block.size());
  bytes_ += block.size();
}

void Checksum::copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  loops().copy(sums_, to, from, bytes);
  bytes_ += bytes;
}

void Checksum::copy_from_afar(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  loops().copy_from_afar(sums_, to, from, bytes);
  bytes_ += bytes;
}

std::uint64_t checksum64(std::span<const std::byte> bytes) noexcept {
  Checksum sum;
  for (; bytes.size() > Checksum::kBlockBytes; bytes = bytes.subspan(Checksum::kBlockBytes)) {
    sum.add(bytes.first(Checksum::kBlockBytes));
  }
  sum.add(bytes);
  return sum.value();
}

std::uint64_t Checksum::value() const noexcept {
  const std::span<const Sums> sums(&sums_, 1);
  return hash64(std::as_bytes(sums)) ^ (bytes_ * 0x9e3779b97f4a7c15U);
}

}  // namespace ronde
