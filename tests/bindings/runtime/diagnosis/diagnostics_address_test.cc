#include "bindings/runtime/diagnosis/diagnostics_address.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "core/base/os/endpoint.h"

namespace ronde::diagnosis {
namespace {

DiagnosticsAddress name() {
  static int number = 0;
  return {.pid = ::getpid(), .number = 1000 + number++, .rank = 1, .size = 2, .job = "a job"};
}

FileDescriptor connect_to(const DiagnosticsAddress& address) {
  const Endpoint endpoint = abstract_endpoint(address.text());
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool in = ::connect(fd.get(), endpoint.raw(), endpoint.length) == 0;
  return in ? std::move(fd) : FileDescriptor();
}

void send_text(const FileDescriptor& client, std::string_view text) {
  (void)::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

std::string received(const FileDescriptor& client) {
  std::string text(100, '\0');
  const ssize_t got = ::recv(client.get(), text.data(), text.size(), 0);
  return got < 0 ? "(nothing)" : text.substr(0, static_cast<std::size_t>(got));
}

const ReplySocket::Answer kDump = to_requests([](std::string_view request) {
  return std::make_shared<const std::string>(request == kProbeRequest ? "a probe" : "a dump");
});

}  // namespace

TEST_CASE("DiagnosticsAddress: its text is read back, and others are not") {
  const DiagnosticsAddress address{
      .pid = 12, .number = 0, .rank = 3, .size = 4, .job = "my job/\n"};
  CHECK(address.text() == "ronde-doctor/12/0/3/4/my_job__");
  const auto read = DiagnosticsAddress::parse(address.text());
  REQUIRE(read);
  CHECK(read->pid == 12);
  CHECK(read->rank == 3);
  CHECK(read->job == "my_job__");
  for (const char* other :
       {"", "ronde-doctor/", "ronde-doctor/1/2/3", "ronde-doctor/1/2/3/x/j",
        "ronde-doctor/-1/2/3/4/j", "ronde-doctor/1/2/3/4/a b", "other/1/2/3/4/"}) {
    CAPTURE(other);
    CHECK_FALSE(DiagnosticsAddress::parse(other));
  }
}

TEST_CASE("ReplySocket: a request, whole or in pieces, is answered with the dump") {
  const DiagnosticsAddress where = name();
  ReplySocket socket = open_diagnostics(where.text()).value();
  const FileDescriptor client = connect_to(where);
  send_text(client, kDiagnosticsRequest.substr(0, 5));
  socket.turn(now(), kDump);
  CHECK(received(client) == "(nothing)");
  send_text(client, kDiagnosticsRequest.substr(5));
  socket.turn(now() + std::chrono::milliseconds(100), kDump);
  CHECK(received(client) == "a dump");
  CHECK(received(client).empty());  // hung up
}

TEST_CASE("ReplySocket: the answer of a probe is another one") {
  const DiagnosticsAddress where = name();
  ReplySocket socket = open_diagnostics(where.text()).value();
  const FileDescriptor client = connect_to(where);
  send_text(client, kProbeRequest);
  socket.turn(now(), kDump);
  CHECK(received(client) == "a probe");
}

TEST_CASE("ReplySocket: another request, or none, gets no answer") {
  const DiagnosticsAddress where = name();
  ReplySocket socket = open_diagnostics(where.text()).value();
  const FileDescriptor wrong = connect_to(where);
  const FileDescriptor silent = connect_to(where);
  send_text(wrong, "GET / HTTP/1.0\r\n\r\n");
  socket.turn(now(), kDump);
  CHECK(received(wrong) != "a dump");
  CHECK(received(silent) == "(nothing)");
  socket.turn(now() + std::chrono::minutes(1), kDump);
  CHECK(received(silent).empty());
}

TEST_CASE("ReplySocket: silent clients are bounded, and a request among them is answered") {
  const DiagnosticsAddress where = name();
  ReplySocket socket = open_diagnostics(where.text()).value();
  TimePoint time = now();
  std::vector<FileDescriptor> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(connect_to(where));
    if (!crowd.back().valid()) break;  // the queue is full
  }
  const std::size_t waiting = crowd.size();
  CHECK(waiting < 100);
  std::vector<pollfd> polled;
  for (int i = 0; i < 20; ++i) socket.turn(time += std::chrono::milliseconds(20), kDump);
  socket.gather(polled);
  CHECK(polled.size() <= 17);
  const FileDescriptor client = connect_to(where);
  send_text(client, kDiagnosticsRequest);
  socket.turn(time += std::chrono::milliseconds(20), kDump);
  CHECK(received(client) == "a dump");
}

}  // namespace ronde::diagnosis
