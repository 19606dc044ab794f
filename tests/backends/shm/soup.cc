#include "tests/backends/shm/soup.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace ronde::test {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::size_t sum(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

std::size_t before(const std::vector<std::size_t>& sizes, int r) {
  return std::accumulate(sizes.begin(), sizes.begin() + r, std::size_t{0});
}

/// The input of `rank` in segment `s`.
Values input(const Dish& dish, int rank, std::size_t s, std::size_t count) {
  if (rank == dish.absent) return Values(count, 0);
  std::uint32_t state = dish.seed * 31 + static_cast<std::uint32_t>(rank) * 7919 +
                        static_cast<std::uint32_t>(s) * 104'729 + 1;
  Values values(count);
  for (Value& v : values) {
    state = state * 1'664'525 + 1'013'904'223;
    v = static_cast<Value>(state >> 12);
  }
  return values;
}

/// Elements that `rank` puts into segment `s`; the whole tensor where the kind reads that.
std::size_t input_count(const Dish& dish, int rank, std::size_t s) {
  const bool part = dish.kind == Collective::kAllgather || dish.kind == Collective::kGather;
  if (dish.kind == Collective::kAlltoall) return sum(dish.sends[index(rank)]);
  return part ? dish.parts[s][index(rank)] : dish.segments[s];
}

std::size_t output_count(const Dish& dish, int ranks, int rank, std::size_t s) {
  const bool part = dish.kind == Collective::kReduceScatter || dish.kind == Collective::kScatter;
  if (dish.kind == Collective::kAlltoall) {
    std::size_t count = 0;
    for (int r = 0; r < ranks; ++r) count += dish.sends[index(r)][index(rank)];
    return count;
  }
  return part ? dish.parts[s][index(rank)] : dish.segments[s];
}

bool writes_output(const Dish& dish, int rank) {
  const bool rooted = dish.kind == Collective::kReduce || dish.kind == Collective::kGather;
  return !rooted || rank == dish.root;
}

Values reduced(const Dish& dish, int ranks, std::size_t s) {
  Values total(dish.segments[s], 0);
  for (int r = 0; r < ranks; ++r) {
    const Values in = input(dish, r, s, dish.segments[s]);
    for (std::size_t i = 0; i < in.size(); ++i) total[i] += in[i];
  }
  return total;
}

Values slice(const Values& whole, const std::vector<std::size_t>& parts, int rank) {
  const auto from = whole.begin() + static_cast<std::ptrdiff_t>(before(parts, rank));
  return {from, from + static_cast<std::ptrdiff_t>(parts[index(rank)])};
}

void append(Values& to, const Values& more) { to.insert(to.end(), more.begin(), more.end()); }

Values expected(const Dish& dish, int ranks, int rank, std::size_t s) {
  Values out;
  switch (dish.kind) {
    case Collective::kAllreduce:
    case Collective::kReduce:
      return reduced(dish, ranks, s);
    case Collective::kReduceScatter:
      return slice(reduced(dish, ranks, s), dish.parts[s], rank);
    case Collective::kBroadcast:
      return input(dish, dish.root, s, dish.segments[s]);
    case Collective::kScatter:
      return slice(input(dish, dish.root, s, dish.segments[s]), dish.parts[s], rank);
    case Collective::kAllgather:
    case Collective::kGather:
      for (int r = 0; r < ranks; ++r) append(out, input(dish, r, s, dish.parts[s][index(r)]));
      return out;
    default:
      for (int r = 0; r < ranks; ++r) {
        const Values in = input(dish, r, s, sum(dish.sends[index(r)]));
        append(out, slice(in, dish.sends[index(r)], rank));
      }
      return out;
  }
}

/// The buffers of one rank for one dish.
struct Table {
  std::vector<Values> in;
  std::vector<Values> out;
  std::vector<Segment> segments;
  std::vector<std::size_t> chunk_bytes;
  std::vector<std::size_t> send_bytes;
  std::vector<std::size_t> recv_bytes;
};

constexpr Value kUntouched = -77;

Segment place(Values& in, Values& out, bool in_place, std::size_t bytes) {
  if (!in_place) {
    return {.in = reinterpret_cast<std::byte*>(in.data()),
            .out = reinterpret_cast<std::byte*>(out.data()),
            .bytes = bytes};
  }
  std::copy(in.begin(), in.end(), out.begin());
  auto* const both = reinterpret_cast<std::byte*>(out.data());
  return {.in = both, .out = both, .bytes = bytes};
}

Table lay(const Dish& dish, int ranks, int rank) {
  Table table;
  table.in.reserve(dish.segments.size());
  table.out.reserve(dish.segments.size());
  for (std::size_t s = 0; s < dish.segments.size(); ++s) {
    Values& in = table.in.emplace_back(input(dish, rank, s, input_count(dish, rank, s)));
    Values& out = table.out.emplace_back(output_count(dish, ranks, rank, s), kUntouched);
    if (dish.in_place) out.resize(std::max(in.size(), out.size()), kUntouched);
    Segment segment = place(in, out, dish.in_place, dish.segments[s] * sizeof(Value));
    if (rank == dish.absent) segment.in = nullptr;
    table.segments.push_back(segment);
  }
  for (const auto& parts : dish.parts) {
    for (const std::size_t p : parts) table.chunk_bytes.push_back(p * sizeof(Value));
  }
  if (dish.sends.empty()) return table;
  for (const std::size_t n : dish.sends[index(rank)]) table.send_bytes.push_back(n * sizeof(Value));
  for (const auto& row : dish.sends) table.recv_bytes.push_back(row[index(rank)] * sizeof(Value));
  return table;
}

std::size_t pick(std::mt19937& random, std::size_t largest) {
  const std::size_t scale = std::size_t{1} << (random() % 20);
  return random() % (std::min(scale, largest) + 1);
}

}  // namespace

Dish cook(std::mt19937& random, int ranks, std::size_t largest) {
  Dish dish;
  dish.seed = static_cast<std::uint32_t>(random());
  dish.kind = static_cast<Collective>(random() % 9);
  dish.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
  dish.in_place = random() % 2 == 0;
  if (random() % 8 == 0) dish.absent = static_cast<int>(random() % static_cast<unsigned>(ranks));
  const std::size_t count = dish.kind == Collective::kBarrier ? 0 : 1 + random() % 4;
  const bool all_to_all = dish.kind == Collective::kAlltoall;
  for (std::size_t s = 0; s < (all_to_all ? 1 : count); ++s) {
    dish.segments.push_back(pick(random, largest));
    if (!traits_of(dish.kind).has_chunks()) continue;
    auto& parts = dish.parts.emplace_back();
    for (int r = 0; r < ranks; ++r) parts.push_back(pick(random, largest / index(ranks)));
    dish.segments.back() = sum(parts);
  }
  for (int r = 0; all_to_all && r < ranks; ++r) {
    auto& row = dish.sends.emplace_back();
    for (int to = 0; to < ranks; ++to) row.push_back(pick(random, largest / index(ranks)));
  }
  return dish;
}

void serve(Communicator& group, const Dish& dish, int ranks, int rank) {
  Table table = lay(dish, ranks, rank);
  const Work work{.kind = dish.kind,
                  .reduction = {.dtype = DType::kInt32, .op = ReduceOp::kSum, .scaling = {}},
                  .root = dish.root,
                  .segments = table.segments,
                  .chunk_bytes = table.chunk_bytes,
                  .send_bytes = table.send_bytes,
                  .recv_bytes = table.recv_bytes};
  const Status status = group.run(work, kNoStream, AbortToken());
  INFO("kind " << std::string(to_string(dish.kind)) << ", rank " << rank << " of " << ranks
               << ", root " << dish.root << ", in place " << dish.in_place << ", absent "
               << dish.absent << ", seed " << dish.seed);
  REQUIRE(status.ok());
  if (!writes_output(dish, rank)) return;
  for (std::size_t s = 0; s < dish.segments.size(); ++s) {
    Values got = table.out[s];
    got.resize(output_count(dish, ranks, rank, s));
    INFO("segment " << s << ", " << got.size() << " elements");
    REQUIRE((got == expected(dish, ranks, rank, s)));
  }
  if (dish.in_place || traits_of(dish.kind).reduces) return;
  for (std::size_t s = 0; s < dish.segments.size(); ++s) {
    CHECK((rank == dish.absent || table.in[s] == input(dish, rank, s, table.in[s].size())));
  }
}

}  // namespace ronde::test
