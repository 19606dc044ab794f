#include <cstdint>
#include <vector>

#include "core/ports/phases.h"
#include "ops/algorithms.h"

namespace ronde {

namespace {

using Block = std::vector<std::byte>;

/// The blocks on one rank. Slot d holds a block that began d ranks below its destination. It still
/// has to travel by the bits of d that have had no round yet.
class Slots {
 public:
  Slots(Transport& transport, const FlatWork& work)
      : transport_(transport), work_(work), me_(transport.rank()), size_(transport.size()) {
    const std::vector<std::size_t> begins = begins_of(work.send_bytes);
    for (int distance = 0; distance < size_; ++distance) {
      const auto to = static_cast<std::size_t>((me_ + distance) % size_);
      const std::byte* const from = work.in + begins[to];
      slots_.emplace_back(from, from + work.send_bytes[to]);
    }
  }

  /// Sends the slots whose number has this bit to the rank that many above, and receives those of
  /// the rank that many below.
  Status pass_on(int bit) {
    std::vector<std::uint64_t> sent;
    Block data;
    for (int slot = bit; slot < size_; slot = next(slot, bit)) {
      sent.push_back(at(slot).size());
      data.insert(data.end(), at(slot).begin(), at(slot).end());
    }
    std::vector<std::uint64_t> received(sent.size());
    RONDE_RETURN_IF_ERROR(
        swap(bit, std::as_bytes(std::span(sent)), std::as_writable_bytes(std::span(received))));
    std::size_t total = 0;
    for (const std::uint64_t bytes : received) total += bytes;
    Block arrived(total);
    RONDE_RETURN_IF_ERROR(swap(bit, data, arrived));
    unpack(bit, received, arrived);
    return {};
  }

  void deliver() const {
    const std::vector<std::size_t> begins = begins_of(work_.recv_bytes);
    for (int distance = 0; distance < size_; ++distance) {
      const Block& block = slots_[static_cast<std::size_t>(distance)];
      const auto from = static_cast<std::size_t>(wrap(me_ - distance, size_));
      copy_bytes(work_.out + begins[from], block.data(), block.size());
    }
  }

 private:
  Block& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }

  /// The slot after `slot` whose number has this bit.
  static int next(int slot, int bit) { return (slot + 1) | bit; }

  Status swap(int bit, std::span<const std::byte> data, std::span<std::byte> into) {
    return exchange(
        transport_,
        {.to = (me_ + bit) % size_, .data = data, .from = wrap(me_ - bit, size_), .into = into},
        work_.abort);
  }

  void unpack(int bit, const std::vector<std::uint64_t>& lengths, const Block& data) {
    const std::byte* from = data.data();
    std::size_t index = 0;
    for (int slot = bit; slot < size_; slot = next(slot, bit)) {
      at(slot).assign(from, from + lengths[index]);
      from += lengths[index++];
    }
  }

  Transport& transport_;
  const FlatWork& work_;
  const int me_;
  const int size_;
  std::vector<Block> slots_;
};

}  // namespace

Status bruck_alltoall(Transport& transport, const FlatWork& work, Scratch&) {
  Slots slots(transport, work);
  for (int bit = 1; bit < transport.size(); bit *= 2) {
    RONDE_RETURN_IF_ERROR(slots.pass_on(bit));
  }
  slots.deliver();
  return {};
}

}  // namespace ronde
