#include "tests/chaos/schedule.h"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ronde::chaos {
namespace {

/// An operation in flight, and what is wrong with its result.
struct Running {
  std::string what;
  Pending pending;
  /// The error in the result; empty if it is right.
  std::function<std::string(const Pending&)> wrong;
};

/// One operation, the same on all ranks.
struct Part {
  std::string name;
  int step = 0;
  std::int64_t count = 0;
  int root = 0;
};

/// Small whole numbers, so that every sum is exact in every type.
std::int64_t value_of(int rank, int step, std::int64_t index) {
  return (std::int64_t{rank} + 1) * (step % 5 + 1) + index % 3;
}

std::int64_t sum_of(int size, int step, std::int64_t index) {
  const std::int64_t ranks = static_cast<std::int64_t>(size) * (size + 1) / 2;
  return ranks * (step % 5 + 1) + size * (index % 3);
}

template <typename T>
std::shared_ptr<std::vector<T>> values_of(int rank, const Part& shape) {
  auto values = std::make_shared<std::vector<T>>(static_cast<std::size_t>(shape.count));
  for (std::int64_t i = 0; i < shape.count; ++i) {
    (*values)[static_cast<std::size_t>(i)] = static_cast<T>(value_of(rank, shape.step, i));
  }
  return values;
}

/// The first element that is not as expected, in words; empty where there is none.
template <typename T, typename Expected>
std::string first_wrong(std::span<const T> values, Expected expected) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t wanted = expected(static_cast<std::int64_t>(i));
    if (values[i] == static_cast<T>(wanted)) continue;
    return "element " + std::to_string(i) + " of " + std::to_string(values.size()) + " is " +
           std::to_string(values[i]) + ", not " + std::to_string(wanted);
  }
  return {};
}

std::string wrong_count(std::int64_t count) { return std::to_string(count) + " elements"; }

template <typename T>
Running start_allreduce(Job& job, const Part& shape) {
  auto values = values_of<T>(job.rank(), shape);
  auto pending = job.allreduce_async(shape.name, tensor(*values), {.op = ReduceOp::kSum});
  const int size = job.size();
  return {"allreduce", pending, [values, shape, size](const Pending&) {
            return first_wrong<T>(*values,
                                  [&](std::int64_t i) { return sum_of(size, shape.step, i); });
          }};
}

template <typename T>
Running start_broadcast(Job& job, const Part& shape) {
  auto values = values_of<T>(job.rank(), shape);
  auto pending = job.broadcast_async(shape.name, tensor(*values), shape.root);
  return {"broadcast", pending, [values, shape](const Pending&) {
            return first_wrong<T>(
                *values, [&](std::int64_t i) { return value_of(shape.root, shape.step, i); });
          }};
}

template <typename T>
Running start_allgather(Job& job, const Part& shape) {
  auto values = values_of<T>(job.rank(), shape);
  auto pending = job.allgather_async(shape.name, tensor(std::as_const(*values)));
  const int size = job.size();
  return {"allgather", pending, [values, shape, size](const Pending& done) {
            const Array all = done.output();
            if (all.count() != size * shape.count) return wrong_count(all.count());
            return first_wrong<T>(all.as<T>(), [&](std::int64_t i) {
              return value_of(static_cast<int>(i / shape.count), shape.step, i % shape.count);
            });
          }};
}

template <typename T>
Running start_reduce_scatter(Job& job, const Part& shape) {
  auto values = values_of<T>(job.rank(), shape);
  auto pending =
      job.reduce_scatter_async(shape.name, tensor(std::as_const(*values)), {.op = ReduceOp::kSum});
  const int size = job.size();
  const std::int64_t rank = job.rank();
  return {"reduce_scatter", pending, [values, shape, size, rank](const Pending& done) {
            const std::int64_t base = shape.count / size;
            const std::int64_t first = rank * base + std::min(rank, shape.count % size);
            const Array part = done.output();
            if (part.count() != base + (rank < shape.count % size ? 1 : 0)) {
              return wrong_count(part.count());
            }
            return first_wrong<T>(
                part.as<T>(), [&](std::int64_t i) { return sum_of(size, shape.step, first + i); });
          }};
}

template <typename T>
Running start_alltoall(Job& job, const Part& shape) {
  const int size = job.size();
  Part rounded = shape;
  rounded.count = shape.count / size * size;
  auto values = values_of<T>(job.rank(), rounded);
  auto pending = job.alltoall_async(shape.name, tensor(std::as_const(*values)));
  const std::int64_t each = rounded.count / size;
  const std::int64_t rank = job.rank();
  return {"alltoall", pending, [values, rounded, each, rank](const Pending& done) {
            const Array all = done.output();
            if (all.count() != rounded.count) return wrong_count(all.count());
            return first_wrong<T>(all.as<T>(), [&](std::int64_t i) {
              return value_of(static_cast<int>(i / each), rounded.step, rank * each + i % each);
            });
          }};
}

template <typename T>
Running start_as(Job& job, std::uint64_t kind, const Part& shape) {
  switch (kind) {
    case 0:
      return start_broadcast<T>(job, shape);
    case 1:
      return start_allgather<T>(job, shape);
    case 2:
      return start_reduce_scatter<T>(job, shape);
    case 3:
      return start_alltoall<T>(job, shape);
    default:
      return start_allreduce<T>(job, shape);
  }
}

Running start_operation(Job& job, std::uint64_t kind, std::uint64_t type, const Part& shape) {
  switch (type) {
    case 0:
      return start_as<double>(job, kind, shape);
    case 1:
      return start_as<std::int32_t>(job, kind, shape);
    case 2:
      return start_as<std::int64_t>(job, kind, shape);
    default:
      return start_as<float>(job, kind, shape);
  }
}

std::int64_t draw_count(Draw& draw, std::int64_t max_elements) {
  switch (draw.below(4)) {
    case 0:
      return static_cast<std::int64_t>(draw.below(8));
    case 1:
      return static_cast<std::int64_t>(draw.below(5000));
    case 2:
      return 65'537;
    default:
      return static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(max_elements)));
  }
}

/// Half of the operations come back in every step with the same name and shape, as gradients do.
Running start_drawn(Job& job, std::uint64_t seed, int step, std::uint64_t index,
                    std::int64_t max_elements) {
  Draw choice(seed, static_cast<std::uint64_t>(step) * 64 + index);
  const bool recurs = choice.below(2) == 0;
  Draw draw(seed, recurs ? (std::uint64_t{1} << 40) + index : choice.below(~std::uint64_t{0}));
  const std::string name = recurs ? "w" + std::to_string(index)
                                  : "s" + std::to_string(step) + "." + std::to_string(index);
  Part shape{name, step, std::min(draw_count(draw, max_elements), max_elements), 0};
  shape.root = static_cast<int>(draw.below(static_cast<std::uint64_t>(job.size())));
  const std::uint64_t kind = draw.below(8);
  Running running = start_operation(job, kind, draw.below(4), shape);
  running.what += " " + name + " of step " + std::to_string(step);
  return running;
}

/// Waits for all; then throws the first failure. Memory given to the job is still in use till then.
void finish(std::vector<Running>& all, std::exception_ptr first) {
  for (Running& running : all) {
    try {
      running.pending.wait();
    } catch (const Error&) {
      if (!first) first = std::current_exception();
      continue;
    }
    const std::string wrong = running.wrong(running.pending);
    if (!wrong.empty()) throw WrongResult(running.what + ": " + wrong);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

Draw::Draw(std::uint64_t seed, std::uint64_t stream)
    : state_(seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) {}

/// Source: splitmix64, Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
std::uint64_t Draw::below(std::uint64_t bound) {
  state_ += 0x9E3779B97F4A7C15;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return (mixed ^ (mixed >> 31)) % bound;
}

void run_step(Job& job, std::uint64_t seed, int step, std::int64_t max_elements, Midway midway) {
  Draw draw(seed, static_cast<std::uint64_t>(step) * 64 + 63);
  const std::uint64_t count = 1 + draw.below(6);
  std::vector<Running> all;
  std::exception_ptr first;
  try {
    for (std::uint64_t i = 0; i < count; ++i) {
      all.push_back(start_drawn(job, seed, step, i, max_elements));
    }
    midway(step);
  } catch (const Error&) {
    first = std::current_exception();
  }
  finish(all, first);
}

void check_sum(Job& job, const std::string& name) {
  std::vector<float> values(3, static_cast<float>(job.rank() + 1));
  job.allreduce(name, tensor(values), {.op = ReduceOp::kSum});
  const auto expected = static_cast<float>(sum_of(job.size(), 0, 0));
  if (values.front() != expected || values.back() != expected) throw WrongResult(name);
}

}  // namespace ronde::chaos
