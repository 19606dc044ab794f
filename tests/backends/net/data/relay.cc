#include "tests/backends/net/data/relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

namespace ronde::net {
namespace {

/// Closing it sends a reset.
void make_abrupt(const FileDescriptor& socket) {
  const linger now{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

bool send_whole(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && would_block(errno)) {
      pollfd entry{fd, POLLOUT, 0};
      if (::poll(&entry, 1, 5000) <= 0) return false;
      continue;
    }
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

Relay::Relay(const std::string& target)
    : target_(parse_endpoint(target).value()),
      listener_(listen_on(interface_endpoint("127.0.0.1").value()).value()),
      wake_(make_event()),
      address_(local_endpoint(listener_.get())->text()),
      thread_([this] { run(); }) {}

Relay::~Relay() {
  stop_.store(true);
  notify_event(wake_.get());
  thread_.join();
}

void Relay::request(std::atomic<bool>& what) {
  what.store(true);
  notify_event(wake_.get());
}

void Relay::reset() {
  request(reset_);
  while (reset_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Relay::set_down(bool on) {
  down_.store(on);
  if (on) reset();
}

void Relay::run() {
  while (!stop_.load()) turn();
}

void Relay::turn() {
  if (reset_.load()) {
    pairs_.clear();
    reset_.store(false);
  }
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (const Pair& pair : pairs_) {
    entries.push_back({pair.client.get(), POLLIN, 0});
    entries.push_back({pair.target.get(), POLLIN, 0});
  }
  if (::poll(entries.data(), entries.size(), 1000) <= 0) return;
  if (entries[0].revents != 0) clear_event(wake_.get());
  std::size_t next = 2;
  for (auto it = pairs_.begin(); it != pairs_.end(); next += 2) {
    const bool alive = (entries[next].revents == 0 || pass(*it, true)) &&
                       (entries[next + 1].revents == 0 || pass(*it, false));
    it = alive ? std::next(it) : pairs_.erase(it);
  }
  if (entries[1].revents != 0) accept_one();
}

void Relay::accept_one() {
  FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.valid()) return;
  make_abrupt(client);
  ++connections_;
  if (down_.load()) return;
  FileDescriptor target = start_connect({target_}).value();
  if (!wait_for(target.get(), POLLOUT, now() + std::chrono::seconds(5))) return;
  make_abrupt(target);
  set_no_delay(client.get());
  const std::size_t left = draw_ ? draw_() : std::numeric_limits<std::size_t>::max();
  pairs_.push_back({std::move(client), std::move(target), left});
}

/// False at the end of the connection.
bool Relay::pass(Pair& pair, bool to_target) {
  std::array<char, 65536> data{};
  const int from = to_target ? pair.client.get() : pair.target.get();
  const ssize_t got = ::recv(from, data.data(), std::min(data.size(), pair.left), 0);
  if (got < 0 && would_block(errno)) return true;
  if (got <= 0) return false;
  const auto bytes = static_cast<std::size_t>(got);
  pair.left -= bytes;
  if (swallowing_.load()) return pair.left > 0;
  bytes_ += bytes;
  if (const std::size_t at = flip_after_.load(); to_target && at != 0) {
    flip_after_.store(at > bytes ? at - bytes : 0);
    if (at <= bytes) {
      data[at - 1] = static_cast<char>(data[at - 1] ^ 4);
      ++flips_;
    }
  }
  constexpr std::size_t kLong = 20'000;
  if (spoiling_.load() && to_target && bytes > kLong) {
    data[bytes / 2] = static_cast<char>(data[bytes / 2] ^ 1);
  }
  const int to = to_target ? pair.target.get() : pair.client.get();
  return send_whole(to, data.data(), bytes) && pair.left > 0;
}

}  // namespace ronde::net
