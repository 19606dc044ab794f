#include "tests/chaos/mismatch.h"

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/chaos/events.h"
#include "tests/chaos/schedule.h"

namespace ronde::chaos {
namespace {

enum class Kind {
  kAllreduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kAllgather,
  kGather,
  kAlltoall,
  kScatter,
  kGrouped,
};
constexpr std::uint64_t kKinds = 9;
constexpr std::size_t kMostElements = 60;

/// One rank's idea of the operation.
struct Idea {
  Kind kind = Kind::kAllreduce;
  DType dtype = DType::kFloat32;
  Shape shape{12, 5};
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1;
  double postscale = 1;
  int root = 0;
  std::size_t tensors = 2;  // of a group
  std::string compression = "none";
  CallSite site{"one.py", 10};
};

constexpr std::array<DType, 5> kTypes = {DType::kFloat32, DType::kInt32, DType::kFloat64,
                                         DType::kInt64, DType::kFloat16};
constexpr std::array<ReduceOp, 4> kOps = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax,
                                          ReduceOp::kMin};

bool reduces(Kind kind) {
  return kind == Kind::kAllreduce || kind == Kind::kReduce || kind == Kind::kReduceScatter ||
         kind == Kind::kGrouped;
}

bool has_root(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kGather ||
         kind == Kind::kScatter;
}

/// True if the operation may be compressed.
bool compresses(const Idea& idea) {
  return idea.kind == Kind::kAllreduce && idea.dtype == DType::kFloat32 &&
         (idea.op == ReduceOp::kSum || idea.op == ReduceOp::kAverage);
}

/// Something other than `old` among the first `bound` numbers.
std::uint64_t other(Draw& draw, std::uint64_t old, std::uint64_t bound) {
  return (old + 1 + draw.below(bound - 1)) % bound;
}

template <std::size_t kCount, typename T>
T other_of(Draw& draw, const std::array<T, kCount>& all, T old) {
  std::uint64_t at = 0;
  while (all[at] != old) ++at;
  return all[other(draw, at, kCount)];
}

Idea draw_idea(Draw& draw, int size) {
  Idea idea;
  idea.kind = static_cast<Kind>(draw.below(kKinds));
  idea.dtype = kTypes[draw.below(kTypes.size())];
  if (reduces(idea.kind)) idea.op = kOps[draw.below(kOps.size())];
  if (has_root(idea.kind)) idea.root = static_cast<int>(draw.below(static_cast<unsigned>(size)));
  return idea;
}

/// Changes one thing of `idea` and returns what.
std::string spoil_one(Draw& draw, Idea& idea, int size) {
  const std::uint64_t choice = draw.below(10);
  if (choice == 0 && has_root(idea.kind)) {
    idea.root = static_cast<int>(
        other(draw, static_cast<unsigned>(idea.root), static_cast<unsigned>(size)));
    return "root";
  }
  if (choice == 1 && reduces(idea.kind)) {
    idea.op = other_of(draw, kOps, idea.op);
    return "op";
  }
  if (choice == 2 && reduces(idea.kind)) {
    idea.prescale = 0.5;
    return "prescale";
  }
  if (choice == 3 && reduces(idea.kind)) {
    idea.postscale = 2;
    return "postscale";
  }
  if (choice == 4) {
    idea.dtype = other_of(draw, kTypes, idea.dtype);
    return "dtype";
  }
  if (choice == 5) {
    idea.kind = static_cast<Kind>(other(draw, static_cast<unsigned>(idea.kind), kKinds));
    return "kind";
  }
  if (choice == 7) {
    idea.shape = {12, 5, 1};
    return "dimensions";
  }
  if (choice == 8 && idea.kind == Kind::kGrouped) {
    ++idea.tensors;
    return "tensors";
  }
  if (choice == 9 && compresses(idea)) {
    idea.compression = "fp16";
    return "compression";
  }
  idea.shape[1] = 4;  // not the first extent: gathering and alltoall leave that to each rank
  return "shape";
}

/// Changes one thing of `idea`, or two; returns what.
std::string spoil(Draw& draw, Idea& idea, int size) {
  idea.site = {"two.py", 20};
  std::string what = spoil_one(draw, idea, size);
  if (draw.below(3) != 0 || what == "compression") return what;  // more would make it invalid
  const Idea once = idea;
  const std::string also = spoil_one(draw, idea, size);
  if (also != what) return what + " and " + also;
  idea = once;  // twice the same could undo it
  return what;
}

Pending submit(Job& job, const std::string& name, const Idea& idea, double* memory) {
  const Tensor tensor{memory, memory, idea.dtype, idea.shape};
  const ReduceOptions reduce{idea.op, idea.prescale, idea.postscale, 0, {}, idea.compression};
  switch (idea.kind) {
    case Kind::kAllreduce:
      return job.allreduce_async(name, tensor, reduce, idea.site);
    case Kind::kReduce:
      return job.reduce_async(name, tensor, idea.root, reduce, idea.site);
    case Kind::kReduceScatter:
      return job.reduce_scatter_async(name, tensor, reduce, idea.site);
    case Kind::kBroadcast:
      return job.broadcast_async(name, tensor, idea.root, {}, idea.site);
    case Kind::kAllgather:
      return job.allgather_async(name, tensor, {}, idea.site);
    case Kind::kGather:
      return job.gather_async(name, tensor, idea.root, {}, idea.site);
    case Kind::kScatter:
      return job.scatter_async(name, memory + kMostElements, tensor, idea.root, {}, idea.site);
    case Kind::kGrouped: {
      std::vector<Tensor> all;
      for (std::size_t i = 0; i < idea.tensors; ++i) {
        double* own = memory + i * kMostElements;
        all.push_back({own, own, idea.dtype, idea.shape});
      }
      return job.grouped_allreduce_async(name, all, reduce, idea.site);
    }
    case Kind::kAlltoall:
      break;
  }
  return job.alltoall_async(name, tensor, {}, {}, idea.site);
}

/// Does it, and returns the "code" and "message" of its error, or "ok".
nlohmann::json outcome_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return {{"code", to_string(error.code())}, {"message", error.what()}};
  }
  return {{"code", "ok"}};
}

}  // namespace

void disagree_about_sets(Job& job) {
  say("sets", outcome_of([&job] { (void)job.add_process_set({job.rank()}); }));
}

void submit_twice(Job& job, int victim) {
  std::vector<float> once{1.0F};
  std::vector<float> again{1.0F};
  const auto start = [&job](std::vector<float>& values, CallSite site) {
    return job.allreduce_async("twice", tensor(values), {.op = ReduceOp::kSum}, site);
  };
  std::optional<Pending> first;
  if (job.rank() == victim) {
    first = start(once, {"one.py", 10});
    say("twice", outcome_of([&] { start(again, {"two.py", 20}).wait(); }));
  }
  check_sum(job, "between");
  if (!first) first = start(once, {"one.py", 10});
  say("twice", outcome_of([&] { first->wait(); }));
}

void disagree(Job& job, std::uint64_t seed, int index) {
  Draw draw(seed, static_cast<std::uint64_t>(index));
  Idea mine = draw_idea(draw, job.size());
  Idea theirs = mine;
  const std::string what = spoil(draw, theirs, job.size());
  const std::uint64_t first_odd = 1 + draw.below(static_cast<unsigned>(job.size() - 1));
  if (static_cast<std::uint64_t>(job.rank()) >= first_odd) mine = theirs;
  // Half of them under a name that meets agreement first, so that it is cached.
  const bool known = draw.below(2) == 0;
  const std::string name = known ? "known" + std::to_string(index) : "m" + std::to_string(index);
  // A tensor, and after it the whole that is scattered, or the rest of a group.
  std::vector<double> memory(kMostElements * (static_cast<std::size_t>(job.size()) + 3));
  if (known) {
    Draw fresh(seed, static_cast<std::uint64_t>(index));
    const Idea agreed = draw_idea(fresh, job.size());
    for (int i = 0; i < 2; ++i) submit(job, name, agreed, memory.data()).wait();
  }
  auto fields = outcome_of([&] { submit(job, name, mine, memory.data()).wait(); });
  fields.update({{"index", index}, {"what", what}, {"known", known}});
  say("mismatch", std::move(fields));
}

}  // namespace ronde::chaos
