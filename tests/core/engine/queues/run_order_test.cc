#include "core/engine/queues/run_order.h"

#include <doctest/doctest.h>

#include <string>

namespace ronde {
namespace {

std::string run_all(RunOrder<char>& order) {
  std::string ran;
  while (const auto work = order.next()) ran += *work;
  return ran;
}

}  // namespace

TEST_CASE("RunOrder: higher priority first, then the order of entry") {
  RunOrder<char> order;
  order.add('a', 0, false);
  order.add('b', 5, false);
  order.add('c', -5, false);
  order.add('d', 0, false);
  CHECK(run_all(order) == "badc");
  CHECK(order.empty());
}

TEST_CASE("RunOrder: what is paced waits for releases, and is overtaken by what is more urgent") {
  RunOrder<char> order;
  for (const char part : {'1', '2', '3', '4'}) order.add(part, 0, true);
  CHECK(run_all(order).empty());
  order.release(2);
  CHECK(run_all(order) == "12");
  order.add('u', 1, false);
  CHECK(run_all(order) == "u");
  order.add('x', 0, false);  // no more urgent: its turn comes after the rest
  order.add('p', 2, true);   // urgent, but paced itself
  CHECK(run_all(order).empty());
  CHECK(order.paced() == 3);
  order.release(2);
  CHECK(run_all(order) == "p3");
  order.release(1);
  CHECK(run_all(order) == "4x");
}

TEST_CASE("RunOrder: once open, nothing is paced any more") {
  RunOrder<char> order;
  order.add('a', 0, true);
  order.add('b', 1, true);
  order.open();
  CHECK(run_all(order) == "ba");
  order.add('c', 0, true);
  CHECK(run_all(order) == "c");
  CHECK(order.paced() == 0);
}

}  // namespace ronde
