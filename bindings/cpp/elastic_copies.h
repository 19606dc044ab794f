// The registered parts of a rank's state and their committed copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/elastic/commit_store.h"
#include "bindings/elastic/member.h"
#include "core/elastic/progress.h"
#include "ronde/elastic.h"
#include "ronde/tensor.h"

namespace ronde::elastic {

/// A tensor of the state.
struct Part {
  std::string name;
  Tensor tensor;
  Owner owner = Owner::kJob;

  [[nodiscard]] std::span<std::byte> bytes() const {
    const auto count = static_cast<std::size_t>(element_count(tensor.shape));
    return {static_cast<std::byte*>(tensor.out), count * size_of(tensor.dtype)};
  }
};

/// Copies parts to and from the two newest copies, which have numbers. Threads: one.
class Copies {
 public:
  /// Throws InvalidArgument: a name given twice, memory of a device, a tensor that is not written
  /// in place, or once there is a copy.
  void add(Part part);
  [[nodiscard]] const std::vector<Part>& parts() const noexcept { return parts_; }

  /// Copies all parts in place of the older copy. Throws Error without memory; both copies stay.
  void save(std::int64_t step);
  /// Gives all parts the values of the newest copy; nothing before the first one.
  void restore();
  /// Gives the parts the values of a copy, as it was chosen.
  void restore(const Start& start);

  /// The newest copy's parts of one owner, one after another; what the parts are comes first.
  [[nodiscard]] std::string pack(Owner owner);
  /// Gives the parts of this owner such values. Throws InvalidArgument for those of other parts.
  void unpack(Owner owner, std::string_view packed);
  /// Own parts of another worker. Throws InvalidArgument for those of other parts.
  [[nodiscard]] Orphan orphan(std::string_view packed) const;

  [[nodiscard]] bool empty() const { return store_.steps().empty(); }

  /// From now on the host's agent keeps the copies, for the worker that replaces this one. Adopts
  /// those of a worker that has died, if they are of the same parts. Call it before the first copy.
  void share(Member& worker);
  /// The copies that were adopted, until end_adoption().
  [[nodiscard]] AdoptedSteps adopted_steps() const;
  /// The worker that made them.
  [[nodiscard]] WorkerId adopted_worker();
  /// Drops adopted copies that were not used.
  void end_adoption(bool used);

 private:
  [[nodiscard]] std::vector<std::size_t> sizes() const;
  [[nodiscard]] bool are_ours();
  void put(std::int64_t step, bool own_alone);
  [[nodiscard]] std::map<std::string, std::span<const std::byte>> split(
      Owner owner, std::string_view packed) const;

  std::vector<Part> parts_;
  std::string layout_;  // of the parts, for people and programs
  CommitStore store_;
  WorkerId worker_ = 0;
  bool shared_ = false;
  bool adopted_ = false;
};

}  // namespace ronde::elastic
