// The launcher's end of a worker's notes, for tests.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "core/base/os/file_descriptor.h"
#include "core/elastic/notes.h"

namespace ronde::test {

/// A pair of sockets. Threads: any.
class LauncherEnd {
 public:
  LauncherEnd() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    mine_.reset(ends[0]);
    worker_.reset(ends[1]);
  }

  /// The worker's end, once.
  [[nodiscard]] FileDescriptor worker_end() { return std::move(worker_); }
  void close() { mine_.reset(); }
  void send_raw(const std::string& message) {
    REQUIRE(::send(mine_.get(), message.data(), message.size(), MSG_NOSIGNAL) > 0);
  }
  template <typename Note>
  void send(const Note& note) {
    send_raw(elastic::encode_note(note));
  }
  /// The next note, which must be of this type; others' copies are passed over. Waits up to 20 s.
  template <typename Note>
  Note receive() {
    for (;;) {
      const std::string message = receive_message();
      const elastic::NoteType type = elastic::note_type(message).value();
      if (type == elastic::NoteType::kCopy && Note::kType != type) continue;
      REQUIRE(type == Note::kType);
      return elastic::decode_note<Note>(message).value();
    }
  }
  /// True if the worker has sent nothing.
  [[nodiscard]] bool quiet() const {
    pollfd wanted{mine_.get(), POLLIN, 0};
    return ::poll(&wanted, 1, 0) == 0;
  }

 private:
  std::string receive_message() {
    pollfd wanted{mine_.get(), POLLIN, 0};
    REQUIRE(::poll(&wanted, 1, 20'000) == 1);
    std::string message(elastic::kMaxNoteBytes, '\0');
    const ssize_t got = ::recv(mine_.get(), message.data(), message.size(), 0);
    REQUIRE(got > 0);
    message.resize(static_cast<std::size_t>(got));
    return message;
  }

  FileDescriptor mine_;
  FileDescriptor worker_;
};

/// A place in an epoch whose workers are numbered from 1 by rank.
inline elastic::EpochNote place(elastic::EpochId epoch, int rank, int size) {
  elastic::EpochNote note;
  note.epoch = epoch;
  note.rank = rank;
  note.job_id = "job-" + std::to_string(epoch);
  note.secret = std::string(64, 'a');
  note.why = "start";
  for (int i = 0; i < size; ++i) {
    note.workers.push_back({static_cast<elastic::WorkerId>(i + 1), "here", false});
  }
  return note;
}

}  // namespace ronde::test
