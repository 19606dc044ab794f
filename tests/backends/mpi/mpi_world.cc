#include "tests/backends/mpi/mpi_world.h"

#include <doctest/doctest.h>
#include <mpi.h>

#include <cstdlib>
#include <numeric>
#include <string>

namespace ronde::test {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// False where it is left to the backend.
bool initialize(const std::string& level) {
  int provided = 0;
  if (level == "nobody") return false;
  if (level == "single") {
    MPI_Init(nullptr, nullptr);
  } else {
    MPI_Init_thread(nullptr, nullptr,
                    level == "multiple" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &provided);
  }
  std::atexit([] { MPI_Finalize(); });
  return true;
}

}  // namespace

MpiWorld& MpiWorld::instance() {
  static MpiWorld world;
  return world;
}

MpiWorld::MpiWorld() {
  finalizes_ = initialize(variable("RONDE_TEST_MPI_LEVEL"));
  topology_.rank = std::stoi(variable("OMPI_COMM_WORLD_RANK"));
  topology_.peers.resize(std::stoul(variable("OMPI_COMM_WORLD_SIZE")));
}

GroupSpec MpiWorld::group() {
  GroupSpec group;
  group.key = ++key_;
  group.ranks.resize(topology_.peers.size());
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  group.rank = rank();
  group.topology = &topology_;
  group.abort = std::make_shared<AbortToken>();
  return group;
}

std::unique_ptr<Communicator> MpiWorld::open(Backend& backend, const GroupSpec& group) {
  REQUIRE(backend.viable(group).ok());
  MpiExchange exchange;
  auto opened = backend.open(group, exchange);
  REQUIRE_MESSAGE(opened.ok(), opened.status().to_string());
  return std::move(opened).value();
}

Result<std::vector<std::string>> MpiExchange::allgather(std::string_view mine) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto ranks = static_cast<std::size_t>(size);
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(ranks), offsets(ranks);
  MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '.');
  MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                 MPI_CHAR, MPI_COMM_WORLD);
  std::vector<std::string> values;
  for (std::size_t r = 0; r < ranks; ++r) {
    values.push_back(
        all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  }
  return values;
}

}  // namespace ronde::test
