#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "bindings/cli/launch/rank_sockets.h"
#include "bindings/elastic/member.h"

namespace ronde {
namespace {

std::string receive(int fd) {
  std::string note(1 << 20, '\0');
  const ssize_t size = ::recv(fd, note.data(), note.size(), MSG_DONTWAIT);
  note.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return note;
}

}  // namespace

TEST_CASE("note socket: each note stays one message, both ways") {
  NoteSocket socket;
  auto worker = socket.open();
  REQUIRE(worker.ok());
  CHECK(socket.send("one").ok());
  CHECK(socket.send("two").ok());
  CHECK(receive(worker->get()) == "one");
  CHECK(receive(worker->get()) == "two");
  REQUIRE(::send(worker->get(), "ab", 2, 0) == 2);
  REQUIRE(::send(worker->get(), "c", 1, 0) == 1);
  CHECK(socket.next()->bytes == "ab");
  CHECK(socket.next()->bytes == "c");
  CHECK_FALSE(socket.next());
  CHECK(socket.fd() >= 0);
}

TEST_CASE("note socket: what a busy worker does not take waits, in order") {
  NoteSocket socket;
  auto worker = socket.open();
  REQUIRE(worker.ok());
  int sent = 0;
  while (!socket.wants_write()) REQUIRE(socket.send(std::string(50'000, 'x')).ok() == (++sent > 0));
  CHECK(socket.send("last").ok());
  std::string note;
  for (int got = 0; got < sent; ++got) {
    note = receive(worker->get());
    REQUIRE(note.size() == 50'000);
    REQUIRE(socket.write().ok());
  }
  CHECK_FALSE(socket.wants_write());
  CHECK(receive(worker->get()) == "last");
}

TEST_CASE("note socket: a descriptor comes with the note to which it belongs") {
  NoteSocket socket;
  auto worker = socket.open();
  REQUIRE(worker.ok());
  elastic::Member member(std::move(*worker), 1);
  auto pipe = make_pipe();
  REQUIRE(pipe.ok());
  REQUIRE(member.send(elastic::HoldsNote{}).ok());
  REQUIRE(member.send_copy(1, pipe->write.get()).ok());
  CHECK_FALSE(socket.next()->file.valid());
  const auto note = socket.next();
  REQUIRE(note);
  CHECK(elastic::decode_note<elastic::CopyNote>(note->bytes)->copy == 1);
  REQUIRE(note->file.valid());
  CHECK(::fcntl(note->file.get(), F_GETFD) == FD_CLOEXEC);
  REQUIRE(::write(note->file.get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(pipe->read.get(), &byte, 1) == 1);
}

TEST_CASE("note socket: the end of a worker closes it, after its last note") {
  NoteSocket socket;
  auto worker = socket.open();
  REQUIRE(worker.ok());
  REQUIRE(::send(worker->get(), "bye", 3, 0) == 3);
  worker->reset();
  CHECK(socket.next()->bytes == "bye");
  CHECK_FALSE(socket.next());
  CHECK(socket.fd() == -1);
  CHECK(socket.send("to nobody").ok());
}

TEST_CASE("note socket: a worker finds the end when its agent closes") {
  NoteSocket socket;
  auto worker = socket.open();
  REQUIRE(worker.ok());
  socket.close();
  char byte = 0;
  CHECK(::recv(worker->get(), &byte, 1, 0) == 0);
}

}  // namespace ronde
