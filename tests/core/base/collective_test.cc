#include "core/base/collective.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ronde {
namespace {

/// The names of the collectives for which `fact` holds.
template <typename Fact>
std::string all_with(Fact fact) {
  std::string names;
  for (const CollectiveTraits& row : kCollectives) {
    if (!fact(row)) continue;
    if (!names.empty()) names += ' ';
    names += row.name;
  }
  return names;
}

}  // namespace

TEST_CASE("collective: every name parses back to its value") {
  for (const CollectiveTraits& row : kCollectives) {
    CHECK(to_string(row.value) == row.name);
    CHECK(parse_collective(row.name).value() == row.value);
  }
  CHECK(to_string(static_cast<Collective>(kCollectiveCount)) == "?");
}

TEST_CASE("collective: an unknown name is an error that lists what is allowed") {
  const Status status = parse_collective("allreduces").status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message() ==
        "collective \"allreduces\" is unknown; allowed: allreduce, allgather, broadcast, "
        "reduce_scatter, alltoall, reduce, gather, scatter, barrier, join, sparse_allreduce");
}

TEST_CASE("collective: events have Horovod's names") {
  CHECK(traits_of(Collective::kReduceScatter).negotiation == "NEGOTIATE_REDUCESCATTER");
  CHECK(traits_of(Collective::kReduceScatter).event() == "REDUCESCATTER");
  for (const CollectiveTraits& row : kCollectives) {
    CHECK(row.negotiation == "NEGOTIATE_" + std::string(row.event()));
  }
}

TEST_CASE("collective: rows say which facts hold") {
  CHECK(all_with([](const auto& row) { return row.reduces; }) ==
        "allreduce reduce_scatter reduce sparse_allreduce");
  CHECK(all_with([](const auto& row) { return row.rooted(); }) ==
        "broadcast reduce gather scatter");
  CHECK(all_with([](const auto& row) { return row.moves_data(); }) ==
        "allreduce allgather broadcast reduce_scatter alltoall reduce gather scatter "
        "sparse_allreduce");
  CHECK(all_with([](const auto& row) { return row.fuses; }) ==
        "allreduce allgather broadcast reduce_scatter reduce");
  CHECK(all_with([](const auto& row) { return row.codecs == Codecs::kAny; }) == "allreduce");
  CHECK(all_with([](const auto& row) { return row.codecs == Codecs::kRounding; }) ==
        "allgather reduce_scatter");
  CHECK(all_with([](const auto& row) { return row.outlives_join; }) ==
        "allreduce sparse_allreduce");
  CHECK(all_with([](const auto& row) { return row.has_splits(); }) == "alltoall");
  CHECK(all_with([](const auto& row) { return row.has_indices(); }) == "sparse_allreduce");
  CHECK(all_with([](const auto& row) { return row.has_chunks(); }) ==
        "allgather reduce_scatter gather scatter");
  CHECK(all_with([](const auto& row) { return row.element_wise(); }) ==
        "allreduce broadcast reduce");
  CHECK(all_with([](const auto& row) { return row.root_copies(); }) == "broadcast");
  CHECK(all_with([](const auto& row) { return row.has_free_first_extent(); }) ==
        "allgather alltoall gather sparse_allreduce");
  CHECK(all_with([](const auto& row) { return row.divides_rows(); }) ==
        "allgather reduce_scatter alltoall gather sparse_allreduce");
}

TEST_CASE("collective: bus factors are those of the field") {
  CHECK(traits_of(Collective::kAllreduce).bus_factor(4) == doctest::Approx(1.5));
  CHECK(traits_of(Collective::kReduceScatter).bus_factor(4) == doctest::Approx(0.75));
  CHECK(traits_of(Collective::kAlltoall).bus_factor(2) == doctest::Approx(0.5));
  CHECK(traits_of(Collective::kBroadcast).bus_factor(4) == doctest::Approx(1));
  CHECK(traits_of(Collective::kAllreduce).bus_factor(1) == doctest::Approx(0));
}

}  // namespace ronde
