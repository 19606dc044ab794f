// Collectives that read the other ranks' buffers in place: through the kernel, or directly if they
// are in an arena. One step announces the addresses to all ranks. A last one keeps every buffer
// alive until all have read it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/shm/collectives/stream.h"
#include "backends/shm/memory/arena.h"
#include "backends/shm/memory/reach.h"
#include "core/base/status.h"
#include "core/ports/backend.h"

namespace ronde::shm {

/// How the ranks of a group reach each other's memory; the same on all of them.
struct Reach {
  bool by_kernel = false;                          ///< process_vm_readv works between all,
  bool kernel_pays = false;                        ///< and is about as fast as memcpy.
  bool checks = false;                             ///< All data has checksums: it is staged.
  bool always = false;                             ///< Small tensors too; for tests.
  std::vector<pid_t> pids;                         ///< By rank.
  std::vector<std::shared_ptr<ArenaView>> arenas;  ///< By rank, this one's too; empty: none.

  [[nodiscard]] bool any() const noexcept { return by_kernel || !arenas.empty(); }
};

/// The addresses of one rank's segments, as this rank can use them.
struct Place {
  std::vector<Segment> segments;
  bool in_mapped = false;   ///< The inputs' addresses are valid here, else at the peer.
  bool out_mapped = false;  ///< The outputs' addresses are.
  bool by_kernel = false;   ///< The kernel reads and writes all of them.
  bool in_place = true;     ///< Each output is where its input is.

  [[nodiscard]] bool reached() const noexcept { return by_kernel || (in_mapped && out_mapped); }
};

/// The segments of all ranks.
class Places {
 public:
  /// Announces this rank's `segments` to all ranks and receives theirs. Null addresses are allowed:
  /// they are not read. One step. Errors: the abort's status. `by_kernel`: use the kernel where
  /// arenas are not enough; the same on all ranks.
  static Result<Places> exchange(const Context& with, std::span<const Segment> segments,
                                 bool by_kernel);

  /// True if every rank can reach the inputs and outputs of all.
  [[nodiscard]] bool usable() const noexcept;
  [[nodiscard]] const Place& of(std::size_t rank) const noexcept { return places_[rank]; }

  /// Moves the inputs of all ranks on by so many bytes of each segment.
  void advance_inputs(std::span<const std::size_t> bytes) noexcept;

 private:
  std::vector<Place> places_;
};

/// Copies between this rank's memory and a peer's: by a copier where the peer's addresses are valid
/// here, else by the kernel.
class Transfer {
 public:
  using Direction = PeerCopy::Direction;
  /// `mapped`: the copier; null where the addresses are the peer's own.
  Transfer(Direction direction, const Context& with, std::size_t peer, const Copier* mapped)
      : mapped_(mapped), kernel_(direction, with.reach.pids[peer], with.stop) {}

  void add(const std::byte* from, std::byte* to, std::size_t bytes) {
    if (mapped_ != nullptr) return mapped_->write(from, to, bytes);
    kernel_.add(from, to, bytes);
  }
  /// Errors: as PeerCopy::finish.
  Status finish() { return kernel_.finish(); }

 private:
  const Copier* const mapped_;
  PeerCopy kernel_;
};

/// True if the kernel's copies are faster than staging for tensors outside arenas. Each moves its
/// bytes once but looks up every page, on some processors at a fraction of memcpy's speed (see
/// kernel_pays). Measured between two ranks, as long as the tensors fit into the last-level cache.
/// The same on all ranks.
bool favours_kernel(const Context& with, std::size_t bytes);

/// True if a collective of `count` segments and this size takes this path where it is possible.
/// With checksums none does: its readers would have none to compare.
bool goes_direct(const Context& with, std::size_t bytes, std::size_t count);

/// One step of all ranks: with nothing in it but what the watch has found.
/// Errors: the abort's status.
Status synchronise(const Context& with);

/// Allreduce where goes_direct; by two_shot where some buffers cannot be reached.
/// Errors: the abort's status; kRankFailure.
Status direct_allreduce(const Context& with, const Work& work);

/// Copies the others' chunks, as split() has left them in the scratch memory, to this rank's
/// outputs if it `reads` any. False, on all ranks and with nothing done, if some inputs cannot be
/// reached. Errors: the abort's status; kRankFailure.
Result<bool> direct_gather(const Context& with, const Work& work, const Copier& copier, bool reads);

/// Copies the root's inputs to the others' outputs. Result and errors as direct_gather.
Result<bool> direct_broadcast(const Context& with, const Work& work, const Copier& copier);

/// Reduces this rank's chunk, as split() has left it in the scratch memory, straight from all
/// ranks' inputs. Result and errors as direct_gather.
Result<bool> direct_reduce_scatter(const Context& with, const Work& work);

/// The bytes that an alltoall moves, by rank.
struct Parcels {
  std::size_t largest = 0;        ///< That any rank sends to another.
  std::vector<Segment> sent;      ///< `in`: what goes to that rank. Nothing to this rank itself.
  std::vector<Segment> received;  ///< `out`: where that rank's belongs.
};

/// Copies the other ranks' sends to their places in the output. Result and errors as direct_gather.
Result<bool> direct_alltoall(const Context& with, const Parcels& parcels, const Copier& copier);

}  // namespace ronde::shm
