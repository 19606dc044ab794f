// Compressed reduce_scatters and allgathers by executors, over one level and over hosts.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/compression/compressed_allreduce.h"
#include "ops/execution/extents.h"
#include "tests/conformance/rank.h"
#include "tests/ops/hierarchical/hierarchical_fixture.h"

namespace ronde::test {
namespace {

constexpr std::size_t kRowElements = 37;  // no multiple of a block

/// A rank's executor with residuals.
struct Chunks {
  Chunks(ConformanceFixture& fixture, Backend& backend, const GroupSpec& group, Exchange& exchange)
      : rank(group.rank), size(group.size()), abort(group.abort) {
    ExecutorOptions options;
    options.kernels = fixture.kernels();
    options.rank = rank;
    options.size = size;
    if (size > 1) options.host.whole = backend.open(group, exchange).value();
    options.residuals = residuals;
    executor = fixture.make_executor(std::move(options), group, exchange);
  }

  /// Tensors of rows of kRowElements elements.
  static Bundle bundle(Collective kind, DType dtype, const char* codec, std::int64_t rows) {
    Bundle made = bundle_of(kind, dtype, ReduceOp::kAverage);
    made.compression = codec;
    made.keys = {"w"};
    made.tensors.emplace_back().shape = {rows, kRowElements};
    return made;
  }

  Status run(Bundle& bundle, const Bytes& in, Bytes& out) const {
    bundle.tensors[0].in = in.data();
    bundle.tensors[0].out = out.data();
    return executor->execute(bundle, *abort);
  }

  const int rank;
  const int size;
  const std::shared_ptr<AbortToken> abort;
  const std::shared_ptr<ResidualStore> residuals = std::make_shared<ResidualStore>();
  std::unique_ptr<Executor> executor;
};

using Body = std::function<void(Chunks&)>;

void on_chunks(ConformanceFixture& fixture, int ranks, const Body& body) {
  fixture.run(ranks, [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    Chunks chunks(fixture, backend, group, exchange);
    body(chunks);
    CHECK(exchange.allgather("done").ok());
  });
}

/// On ranks of one level, then of two.
void on_all(const Body& body) {
  for (const int ranks : {1, 2, 3, 4}) {
    LocalFixture flat;
    LevelPartsFixture levels;
    INFO(ranks, " ranks");
    on_chunks(flat, ranks, body);
    if (ranks > 2) on_chunks(levels, ranks, body);
  }
}

/// Of very different size from block to block.
double value(int rank, std::size_t index) {
  const double wave = std::sin(static_cast<double>(index * 7 + 1) * (rank + 1.5));
  return wave * (index % 1000 < 500 ? 1.0 : 0.01);
}

Bytes values(DType dtype, int rank, std::size_t begin, std::size_t count) {
  Bytes bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) put(dtype, bytes, i, value(rank, begin + i));
  return bytes;
}

/// Half a step of a codec, of the largest magnitude of a block; whole steps if it rounds at random.
struct Rounding {
  const char* codec;
  double step;
  std::size_t block;
};
const std::vector<Rounding> kRoundings{{"fp16", 1.0 / 1024, 1},
                                       {"bf16", 1.0 / 128, 1},
                                       {"int8", 1.0 / 254, 512},
                                       {"int4", 1.0 / 14, 256},
                                       {"int4:block=64,rounding=stochastic", 1.0 / 7, 64}};
const std::vector<DType> kTypes{DType::kFloat32, DType::kFloat16, DType::kBfloat16,
                                DType::kFloat64};

double last_bit(DType dtype) {
  if (dtype == DType::kBfloat16) return 1.0 / 128;
  return dtype == DType::kFloat16 ? 1.0 / 1024 : 1e-6;
}

/// The largest magnitude in the block of a chunk that has element `index`.
double largest(int rank, std::size_t begin, std::size_t count, std::size_t index,
               std::size_t block) {
  const std::size_t first = index / block * block;
  double most = 0;
  for (std::size_t i = first; i < std::min(count, first + block); ++i) {
    most = std::max(most, std::abs(value(rank, begin + i)));
  }
  return most;
}

std::size_t elements_before(std::int64_t rows, int ranks, int rank) {
  std::int64_t before = 0;
  for (int r = 0; r < rank; ++r) before += even_rows(rows, ranks, r);
  return static_cast<std::size_t>(before) * kRowElements;
}

void check_sums(Chunks& chunks, const Rounding& by, DType dtype, std::int64_t rows) {
  const std::size_t all = static_cast<std::size_t>(rows) * kRowElements;
  const std::size_t begin = elements_before(rows, chunks.size, chunks.rank);
  const std::size_t count =
      static_cast<std::size_t>(even_rows(rows, chunks.size, chunks.rank)) * kRowElements;
  Bytes in = values(dtype, chunks.rank, 0, all);
  Bytes out(count * size_of(dtype));
  Bundle bundle = Chunks::bundle(Collective::kReduceScatter, dtype, by.codec, rows);
  bundle.keys = {};
  REQUIRE(chunks.run(bundle, in, out).ok());
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double exact = 0, bound = last_bit(dtype);
    for (int rank = 0; rank < chunks.size; ++rank) {
      exact += value(rank, begin + i) / chunks.size;
      bound += (by.step + last_bit(dtype)) * largest(rank, begin, count, i, by.block) / chunks.size;
    }
    worst = std::max(worst, std::abs(get(dtype, out, i) - exact) / bound);
  }
  CHECK_MESSAGE(worst <= 1.0, by.codec, " of ", to_string(dtype), ", ", rows, " rows");
}

void check_gathered(Chunks& chunks, const Rounding& by, DType dtype, Bytes& out) {
  const auto rows_of = [](int rank) { return static_cast<std::size_t>(rank * 11 + 1); };
  Bytes in = values(dtype, chunks.rank, 0, rows_of(chunks.rank) * kRowElements);
  std::size_t all = 0;
  for (int rank = 0; rank < chunks.size; ++rank) all += rows_of(rank) * kRowElements;
  out.assign(all * size_of(dtype), std::byte{});
  Bundle bundle = Chunks::bundle(Collective::kAllgather, dtype, by.codec,
                                 static_cast<std::int64_t>(rows_of(chunks.rank)));
  REQUIRE(chunks.run(bundle, in, out).ok());
  std::size_t at = 0;
  double worst = 0;
  for (int rank = 0; rank < chunks.size; ++rank) {
    const std::size_t count = rows_of(rank) * kRowElements;
    for (std::size_t i = 0; i < count; ++i, ++at) {
      const double bound =
          (by.step + 2 * last_bit(dtype)) * largest(rank, 0, count, i, by.block) + 1e-6;
      worst = std::max(worst, std::abs(get(dtype, out, at) - value(rank, i)) / bound);
    }
  }
  CHECK_MESSAGE(worst <= 1.0, by.codec, " of ", to_string(dtype));
}

}  // namespace

TEST_CASE("Compressed chunks: a reduce_scatter rounds others' values once, block by block") {
  on_all([](Chunks& chunks) {
    for (const Rounding& by : kRoundings) {
      for (const DType dtype : kTypes) check_sums(chunks, by, dtype, 29);
      check_sums(chunks, by, DType::kFloat32, 1);
    }
  });
}

TEST_CASE("Compressed chunks: an allgather gives all ranks the same bits, of their own rows too") {
  for (const bool in_levels : {false, true}) {
    LocalFixture flat;
    LevelPartsFixture levels;
    ConformanceFixture& fixture = in_levels ? static_cast<ConformanceFixture&>(levels) : flat;
    for (const int ranks : {1, 2, 3, 4}) {
      for (const DType dtype : kTypes) {
        std::vector<std::vector<Bytes>> of_rank(static_cast<std::size_t>(ranks));
        if (in_levels && ranks < 3) continue;
        on_chunks(fixture, ranks, [&](Chunks& chunks) {
          auto& mine = of_rank[static_cast<std::size_t>(chunks.rank)];
          for (const Rounding& by : kRoundings) {
            check_gathered(chunks, by, dtype, mine.emplace_back());
          }
        });
        for (const auto& one : of_rank) CHECK(one == of_rank[0]);
      }
    }
  }
}

TEST_CASE("Compressed chunks: in place, as apart") {
  on_all([](Chunks& chunks) {
    for (const Collective kind : {Collective::kReduceScatter, Collective::kAllgather}) {
      const bool gathers = kind == Collective::kAllgather;
      const std::int64_t rows = gathers ? 3 : 3 * chunks.size;
      const std::size_t own = 3 * kRowElements * sizeof(float);
      const std::size_t whole = own * static_cast<std::size_t>(chunks.size);
      const Bytes in = values(DType::kFloat32, chunks.rank, 0, (gathers ? own : whole) / 4);
      Bytes apart(gathers ? whole : own), same = in;
      same.resize(whole);
      Bundle bundle = Chunks::bundle(kind, DType::kFloat32, "int8:ef=off", rows);
      REQUIRE(chunks.run(bundle, in, apart).ok());
      REQUIRE(chunks.run(bundle, same, same).ok());
      CHECK(std::memcmp(same.data(), apart.data(), apart.size()) == 0);
    }
  });
}

TEST_CASE("Compressed chunks: what steps lose comes with the next ones") {
  for (const char* codec : {"int8", "int4", "bf16:ef=on"}) {
    for (const bool in_levels : {false, true}) {
      const int ranks = 4, steps = 5;
      const std::int64_t rows = 25;
      const std::size_t all = 25 * kRowElements;
      std::vector<double> given(all), got(all), left(all);
      std::vector<std::vector<float>> kept(static_cast<std::size_t>(ranks));
      LocalFixture flat;
      LevelPartsFixture levels;
      ConformanceFixture& fixture = in_levels ? static_cast<ConformanceFixture&>(levels) : flat;
      on_chunks(fixture, ranks, [&](Chunks& chunks) {
        const std::size_t begin = elements_before(rows, ranks, chunks.rank);
        Bundle bundle = Chunks::bundle(Collective::kReduceScatter, DType::kFloat32, codec, rows);
        for (int step = 0; step < steps; ++step) {
          const Bytes in = values(DType::kFloat32, chunks.rank, all * std::size_t(step), all);
          Bytes out(static_cast<std::size_t>(even_rows(rows, ranks, chunks.rank)) * kRowElements *
                    4);
          REQUIRE(chunks.run(bundle, in, out).ok());
          for (std::size_t i = 0; i < out.size() / 4; ++i) {
            got[begin + i] += get(DType::kFloat32, out, i);
          }
        }
        kept[static_cast<std::size_t>(chunks.rank)] =
            chunks.residuals->find(0, "w", all)->values().value();
      });
      for (std::size_t i = 0; i < all; ++i) {
        for (int rank = 0; rank < ranks; ++rank) {
          left[i] += kept[static_cast<std::size_t>(rank)][i];
          for (std::size_t step = 0; step < steps; ++step) {
            given[i] += value(rank, all * step + i) / ranks;
          }
        }
      }
      INFO(codec, in_levels ? " in levels" : "");
      for (std::size_t i = 0; i < all; ++i) {
        REQUIRE(got[i] + left[i] == doctest::Approx(given[i]).epsilon(1e-5).scale(1.0));
      }
    }
  }
}

TEST_CASE(
    "Compressed chunks: a step with infinity leaves all residuals of its tensor as they were") {
  for (const bool in_levels : {false, true}) {
    LocalFixture flat;
    LevelPartsFixture levels;
    ConformanceFixture& fixture = in_levels ? static_cast<ConformanceFixture&>(levels) : flat;
    on_chunks(fixture, 4, [](Chunks& chunks) {
      const std::size_t all = 16 * kRowElements;
      Bundle bundle = Chunks::bundle(Collective::kReduceScatter, DType::kFloat32, "int4", 16);
      Bytes in = values(DType::kFloat32, chunks.rank, 0, all), out(all);
      REQUIRE(chunks.run(bundle, in, out).ok());
      const auto before = chunks.residuals->find(0, "w", all)->values().value();
      // One element of one rank, in the chunk of another.
      if (chunks.rank == 1) put(DType::kFloat32, in, 3, std::numeric_limits<double>::infinity());
      REQUIRE(chunks.run(bundle, in, out).ok());
      CHECK(chunks.residuals->find(0, "w", all)->values().value() == before);
      if (chunks.rank == 0) CHECK_FALSE(std::isfinite(get(DType::kFloat32, out, 3)));
    });
  }
}

TEST_CASE("Compressed chunks: a sum that float16 cannot hold leaves the residuals as they were") {
  for (const bool in_levels : {false, true}) {
    LocalFixture flat;
    LevelPartsFixture levels;
    ConformanceFixture& fixture = in_levels ? static_cast<ConformanceFixture&>(levels) : flat;
    on_chunks(fixture, 4, [](Chunks& chunks) {
      const std::size_t all = 16 * kRowElements;
      Bundle bundle = Chunks::bundle(Collective::kReduceScatter, DType::kFloat16, "int4", 16);
      bundle.op = ReduceOp::kSum;
      Bytes in = values(DType::kFloat16, chunks.rank, 0, all), out(all);
      REQUIRE(chunks.run(bundle, in, out).ok());
      const auto before = chunks.residuals->find(0, "w", all)->values().value();
      put(DType::kFloat16, in, 3, 20'000);
      REQUIRE(chunks.run(bundle, in, out).ok());
      CHECK(chunks.residuals->find(0, "w", all)->values().value() == before);
      if (chunks.rank == 0) CHECK(std::isinf(get(DType::kFloat16, out, 3)));
    });
  }
}

TEST_CASE("Compressed chunks: the wire carries the encoded bytes") {
  LocalFixture flat;
  on_chunks(flat, 4, [](Chunks& chunks) {
    const std::size_t all = 4096 * kRowElements;
    const auto encoded = static_cast<double>(all) * (1 + 4.0 / 512);
    const Bytes in = values(DType::kFloat32, chunks.rank, 0, all);
    Bytes out(all * 4);
    Bundle scatter = Chunks::bundle(Collective::kReduceScatter, DType::kFloat32, "int8", 4096);
    REQUIRE(chunks.run(scatter, in, out).ok());
    CHECK(static_cast<double>(chunks.executor->last_compression().wire_bytes) <=
          1.01 * encoded * 3 / 4);
    Bundle gather = Chunks::bundle(Collective::kAllgather, DType::kFloat32, "int8", 1024);
    REQUIRE(chunks.run(gather, in, out).ok());
    CHECK(static_cast<double>(chunks.executor->last_compression().wire_bytes) <=
          1.01 * encoded * 3 / 4);
  });
}

TEST_CASE(
    "Compressed chunks: codecs that select or factor are refused, and what is allowed named") {
  LocalFixture flat;
  on_chunks(flat, 2, [](Chunks& chunks) {
    const Bytes in(2 * kRowElements * 4);
    Bytes out(2 * kRowElements * 4);
    for (const char* codec : {"topk:ratio=0.1", "randomk:ratio=0.1", "powersgd", "onebit"}) {
      for (const Collective kind : {Collective::kReduceScatter, Collective::kAllgather}) {
        Bundle bundle = Chunks::bundle(kind, DType::kFloat32, codec, 2);
        const Status status = chunks.run(bundle, in, out);
        CHECK(status.code() == Code::kInvalidArgument);
        CHECK(status.message().find("allowed: fp16, bf16, int8, int4, auto, none") !=
              std::string::npos);
      }
    }
  });
}

}  // namespace ronde::test
