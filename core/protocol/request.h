// The values that go into the negotiation (a rank's requests) and come out of it (agreed batches).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/base/status.h"

namespace ronde {

inline constexpr std::size_t kMaxNameBytes = 1024;
inline constexpr std::size_t kMaxDimensions = 64;

/// True while a rank is blocked: it submits nothing. Any of its threads may clear it.
using BlockedFlag = std::shared_ptr<const std::atomic<bool>>;

/// The device kind of a request whose tensors are on several devices of its rank: an error for all
/// ranks. Travels on the wire, as the kinds of core/base/dtype.h.
inline constexpr auto kSeveralDevices = static_cast<DeviceKind>(2);

/// Element type and shape of one tensor of a request.
struct TensorMeta {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool operator==(const TensorMeta&) const = default;

  static void fields(auto& wire, auto& self) {
    auto dimensions = static_cast<std::uint8_t>(self.shape.size());
    wire(self.dtype, dimensions);
    if constexpr (requires { self.shape.resize(dimensions); }) self.shape.resize(dimensions);
    for (auto& extent : self.shape) wire(extent);
  }
};

/// Bytes of one tensor.
inline std::size_t bytes_of(const TensorMeta& tensor) noexcept {
  return static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
}

/// The operations that a rank cannot submit to any set before one of its own has ended. Set it only
/// if that is certain: when two ranks block each other, both operations fail.
enum class BlocksUntilDone : std::uint8_t {
  kNothing,
  kUnnamed,     ///< Nothing without a name.
  kEverything,  ///< Nothing at all.
};
inline constexpr int kBlocksUntilDoneCount = 3;

/// Not 0 if the rank may submit an operation of this name. Threads: any.
using MaySubmit = std::int32_t (*)(const char* name);

/// One operation as a rank submits it. A grouped submission is one request with several tensors, so
/// all of them run or none.
///
/// Ranks must agree on all fields but `call_site`, `priority`, `blocks`, `may_submit` and `waits`;
/// on `weight` they must agree whether there is one. Some extents may differ: the first one of each
/// tensor in allgather, gather and alltoall. scatter: `shape` is that of each rank's output.
struct Request {
  std::string name;  ///< Empty: the k-th unnamed operation meets the k-th of the other ranks.
  Collective kind = Collective::kAllreduce;
  std::vector<TensorMeta> tensors;
  ReduceOp op = ReduceOp::kSum;
  int root = -1;  ///< The job's rank, or -1 where the kind has none.
  double prescale = 1.0;
  double postscale = 1.0;
  /// Average allreduce of floating types: this rank's weight in the mean, finite and not negative.
  /// May change with each operation.
  std::optional<double> weight;
  std::string compression;
  Device device;
  /// Higher runs sooner; need not agree, see Agreed::priority.
  std::int32_t priority = 0;
  std::string call_site;  ///< "file:line" of the user's code, for errors; may be empty.
  /// The other operations that the rank's compiled program submits with it, as text. Ranks must
  /// agree on it. Empty: not known, which fits any other.
  std::string program;
  BlocksUntilDone blocks = BlocksUntilDone::kNothing;  ///< Stays on its rank.
  /// With kUnnamed: names that it says no to are blocked too. Null: it says yes to all.
  MaySubmit may_submit = nullptr;
  /// False once the rank no longer waits for it, so that it blocks nothing. Null: the rank waits.
  std::shared_ptr<const std::atomic<bool>> waits;

  /// Those that travel. Of a weight it is only said that there is one: reports have the weights.
  static void fields(auto& wire, auto& self) {
    bool weighted = self.weight.has_value();
    wire(self.name, self.kind, self.tensors, self.op, self.root, self.prescale, self.postscale,
         weighted, self.compression, self.device.kind, self.priority, self.call_site, self.program);
    if constexpr (requires { self.weight = 0.0; }) {
      if (weighted) self.weight = 0.0;
    }
  }
};

/// Checks the dtype and the shape of one tensor, for a known collective and operation.
/// Errors: kInvalidArgument with the value and what is allowed.
Status check_tensor(Collective kind, ReduceOp op, DType dtype, const Shape& shape);

/// Checks the limits of a request before it enters the negotiation.
/// Errors: kInvalidArgument naming the field, the value and what is allowed.
Status validate(const Request& request);

/// `allreduce "w" (train.py:7)`, as errors name one rank's request. A long name is cut.
std::string described(const Request& request);

/// An error of a request, with `described()` before it. An error of the job or of another rank
/// stays as it is.
Status with_request(const Status& status, const Request& request);

/// One operation that all ranks of a set agreed on. It is no Operation, as the negotiation knows
/// requests and tickets alone: the simulator runs it without memory.
struct Agreed {
  std::uint64_t ticket = 0;  ///< As given to submit(); 0 where this rank has joined.
  Request request;           ///< As agreed: of this rank where it submitted, else a representative.
  Status status;             ///< An error, the same on all ranks, or ok.
  int last_joined = -1;      ///< kJoin: the rank that joined last.
  double weights = 0.0;  ///< Of a request with a weight: the sum of all ranks' weights, positive.
  /// Not empty: the result, all tensors one after the other, as the data came with the reports.
  std::vector<std::byte> result;
  /// The coordinator's, or if it has joined, that of the first agreement. The same on all ranks. Of
  /// operations ready together, higher comes first.
  std::int32_t priority = 0;
};

/// Operations that became ready together. The coordinator sends them in one frame, so they are the
/// same on all ranks. Fusion stays within a batch.
struct Batch {
  std::vector<Agreed> items;
  /// This many more paced bundles may run, those of the items included: see RunOrder.
  std::uint32_t released = 0;
  /// After those, the next work in device memory of these sets, as order_launch() named them.
  std::vector<std::uint64_t> launches;
};

/// Counts of the agreement, for tests, doctor and metrics.
struct AgreementStats {
  std::uint64_t cached_agreements = 0;
  std::uint64_t full_agreements = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t evictions = 0;
  std::uint64_t payloads = 0;  ///< Agreements that brought their result with them.
};

/// Requests are shared between cache, reports and frames; they never change once shared.
using RequestPtr = std::shared_ptr<const Request>;

/// The identity of an operation in its process set: its name, or if that is empty its ordinal (from
/// 1) among the unnamed operations.
struct OpKey {
  std::string name;
  std::uint64_t ordinal = 0;
  bool operator==(const OpKey&) const = default;

  static void fields(auto& wire, auto& self) { wire(self.name, self.ordinal); }
};

struct OpKeyHash {
  std::size_t operator()(const OpKey& key) const noexcept {
    return std::hash<std::string>{}(key.name) ^ (key.ordinal * 0x9E3779B97F4A7C15ULL);
  }
};

/// `allreduce "w"`, or `allreduce (unnamed, number 3)`.
std::string label(Collective kind, const OpKey& key);

/// True if two submissions of one operation agree. It compares neither names, call sites and
/// priorities nor extents that may differ.
bool same_signature(const Request& a, const Request& b) noexcept;

/// True if a cached request can stand for another one. Both must know their program or neither: a
/// third request that fits one of them need not fit the other.
bool stands_for(const Request& cached, const Request& request) noexcept;

/// Equal for requests of the same signature.
std::size_t signature_hash(const Request& request) noexcept;

/// One rank's submission, for messages.
struct Submitted {
  int rank = 0;
  const Request& request;
};

/// The first difference of two submissions, with both ranks, values and call sites, such as `rank 0
/// submitted shape [2] (a.py:1), rank 1 submitted shape [3] (a.py:1)`; the lower rank first. Empty
/// where they do not differ.
std::string explain_difference(const Submitted& a, const Submitted& b);

}  // namespace ronde
