// MPI's transport between processes that mpirun started: order, sizes, several groups, aborts.
#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "backends/mpi/factory.h"
#include "core/base/bytes.h"
#include "tests/backends/mpi/mpi_world.h"

namespace ronde {
namespace {

std::span<std::byte> writable(std::string& text) {
  return std::as_writable_bytes(std::span<char>(text.data(), text.size()));
}

TransferId posted(const Result<TransferId>& id) {
  REQUIRE_MESSAGE(id.ok(), id.status().to_string());
  return id.value();
}

/// Passes `length` bytes to the next rank and checks what the one before passed.
void pass_on(Transport& transport, std::size_t length, const AbortToken& abort) {
  const int size = transport.size(), rank = transport.rank();
  if (size == 1) return;
  const int before = (rank + size - 1) % size;
  const std::string mine(length, static_cast<char>('a' + rank));
  std::string theirs(length, '.');
  const auto in = posted(transport.recv(before, writable(theirs)));
  const auto out = posted(transport.send((rank + 1) % size, as_bytes(mine)));
  CHECK(transport.wait(out, abort).ok());
  CHECK(transport.wait(in, abort).ok());
  CHECK(theirs == std::string(length, static_cast<char>('a' + before)));
}

TEST_CASE("mpi transport: messages of all sizes go round the ring") {
  test::MpiWorld& world = test::MpiWorld::instance();
  const auto backend = create_mpi_backend({});
  const GroupSpec spec = world.group();
  const auto group = world.open(*backend, spec);
  CHECK(group->transport()->rank() == world.rank());
  for (const std::size_t length : {0U, 1U, 13U, 4096U, 3'000'001U, 13U, 0U}) {
    pass_on(*group->transport(), length, *spec.abort);
  }
}

TEST_CASE("mpi transport: messages of a pair match in order, waited for in any order") {
  test::MpiWorld& world = test::MpiWorld::instance();
  const auto backend = create_mpi_backend({});
  const GroupSpec spec = world.group();
  const auto group = world.open(*backend, spec);
  const int partner = world.rank() ^ 1;
  if (partner >= world.size()) return;
  Transport& transport = *group->transport();
  std::string first(2, '.'), second(100'000, '.');
  const auto in1 = posted(transport.recv(partner, writable(first)));
  const auto in2 = posted(transport.recv(partner, writable(second)));
  const std::string long_text(second.size(), 'z');
  const auto out1 = posted(transport.send(partner, as_bytes("ab")));
  const auto out2 = posted(transport.send(partner, as_bytes(long_text)));
  for (const auto id : {in2, out1, in1, out2}) CHECK(transport.wait(id, *spec.abort).ok());
  CHECK(first == "ab");
  CHECK(second == long_text);
}

TEST_CASE("mpi transport: groups do not see each other's messages") {
  test::MpiWorld& world = test::MpiWorld::instance();
  const auto backend = create_mpi_backend({});
  const GroupSpec spec1 = world.group(), spec2 = world.group();
  const auto group1 = world.open(*backend, spec1);
  const auto group2 = world.open(*backend, spec2);
  if (world.size() == 1) return;
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  std::string text1(1, '.'), text2(1, '.');
  const auto in2 = posted(group2->transport()->recv(before, writable(text2)));
  const auto in1 = posted(group1->transport()->recv(before, writable(text1)));
  const auto out1 = posted(group1->transport()->send(next, as_bytes("1")));
  const auto out2 = posted(group2->transport()->send(next, as_bytes("2")));
  for (const auto id : {in1, out1}) CHECK(group1->transport()->wait(id, *spec1.abort).ok());
  for (const auto id : {in2, out2}) CHECK(group2->transport()->wait(id, *spec2.abort).ok());
  CHECK((text1 == "1" && text2 == "2"));
}

TEST_CASE("mpi transport: used from a thread other than the one that initialised MPI") {
  test::MpiWorld& world = test::MpiWorld::instance();
  const auto backend = create_mpi_backend({});
  const GroupSpec spec = world.group();
  const auto group = world.open(*backend, spec);
  std::thread([&] { pass_on(*group->transport(), 70'000, *spec.abort); }).join();
}

TEST_CASE("mpi transport: an abort ends a wait for a message that nobody sends") {
  test::MpiWorld& world = test::MpiWorld::instance();
  if (!world.finalizes() || world.size() == 1) return;  // the backend, rightly, would not finalise
  const auto backend = create_mpi_backend({});
  const GroupSpec spec = world.group();
  const auto group = world.open(*backend, spec);
  std::string text(64, '.');
  const auto id =
      posted(group->transport()->recv((world.rank() + 1) % world.size(), writable(text)));
  std::thread breaker([&] { spec.abort->abort({Code::kRankFailure, "rank 9 died"}); });
  CHECK(group->transport()->wait(id, *spec.abort).message() == "rank 9 died");
  breaker.join();
  CHECK(text == std::string(64, '.'));
}

}  // namespace
}  // namespace ronde
