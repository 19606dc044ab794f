#include "core/base/os/endpoint.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <string>

#include "core/base/os/file_descriptor.h"

namespace ronde {
namespace {

Endpoint numeric(const std::string& host) {
  const auto found = numeric_host(host);
  REQUIRE(found.ok());
  return *found;
}

TEST_CASE("endpoint: text, host and port of each family") {
  CHECK(numeric("10.0.0.1").with_port(4000).text() == "10.0.0.1:4000");
  CHECK(numeric("fd00::1").with_port(4000).text() == "[fd00::1]:4000");
  CHECK(numeric("fd00::1").host() == "fd00::1");
  CHECK(numeric("10.0.0.1").port() == 0);
  CHECK(numeric("::1").with_port(65535).port() == 65535);
  CHECK(abstract_endpoint("name").text() == "@name");
  CHECK(abstract_endpoint("name").with_port(7).text() == "@name");
  CHECK(abstract_endpoint("name").host().empty());
}

TEST_CASE("endpoint: the text of an address keeps errno, for messages") {
  errno = EDOM;
  (void)numeric("::1").text();
  CHECK(errno == EDOM);
}

TEST_CASE("endpoint: an abstract name is cut to what fits") {
  const Endpoint endpoint = abstract_endpoint(std::string(1000, 'x'));
  CHECK(endpoint.length == sizeof(sockaddr_un));
  CHECK(endpoint.text().size() == sizeof(sockaddr_un::sun_path));
}

TEST_CASE("endpoint: addresses of all interfaces, of one link, and of one host") {
  CHECK(numeric("0.0.0.0").is_wildcard());
  CHECK(numeric("::").is_wildcard());
  CHECK_FALSE(numeric("127.0.0.1").is_wildcard());
  CHECK_FALSE(abstract_endpoint("x").is_wildcard());
  for (const char* own : {"127.0.0.1", "127.0.1.1", "::1"}) CHECK(numeric(own).is_loopback());
  for (const char* other : {"128.0.0.1", "::2", "0.0.0.0"}) {
    CHECK_FALSE(numeric(other).is_loopback());
  }
  CHECK_FALSE(abstract_endpoint("127.0.0.1").is_loopback());
  CHECK(numeric("fe80::1").is_link_local());
  CHECK_FALSE(numeric("fd00::1").is_link_local());
  CHECK_FALSE(numeric("169.254.0.1").is_link_local());
  CHECK(numeric("10.0.0.1").same_host(numeric("10.0.0.1").with_port(9)));
  CHECK_FALSE(numeric("10.0.0.1").same_host(numeric("10.0.0.2")));
  CHECK(numeric("fd00::1").same_host(numeric("fd00:0::1")));
  CHECK_FALSE(numeric("::1").same_host(numeric("127.0.0.1")));
}

TEST_CASE("endpoint: a name is resolved, a number needs no name service") {
  const auto found = resolve_host("localhost");
  REQUIRE(found.ok());
  CHECK_FALSE(found->empty());
  CHECK(numeric_host("localhost").status().code() == Code::kUnavailable);
  CHECK(numeric_host("").status().code() == Code::kUnavailable);
  const Status unknown = resolve_host("no-such-host.invalid").status();
  CHECK(unknown.code() == Code::kUnavailable);
  CHECK(unknown.message().find("no-such-host.invalid") != std::string::npos);
}

TEST_CASE("endpoint: a socket knows its own address and its peer's user") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const FileDescriptor one(ends[0]);
  const FileDescriptor other(ends[1]);
  CHECK(is_same_user(one.get()));
  CHECK(local_endpoint(one.get())->text() == "@");
  CHECK_FALSE(is_same_user(-1));
  CHECK(local_endpoint(-1).status().code() == Code::kUnavailable);
}

}  // namespace
}  // namespace ronde
