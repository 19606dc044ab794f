// A relay on the path of TCP connections to one rank, which can break them.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "backends/net/connection/socket.h"

namespace ronde::net {

/// Passes bytes on between whoever connects to address() and the target. Its thread lives as long
/// as it does. Threads: any.
class Relay {
 public:
  explicit Relay(const std::string& target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  /// Ends all connections by a reset, on both sides. Returns once that is done.
  void reset();
  /// While on, connections are reset as soon as they are there.
  void set_down(bool on);
  /// While on, bytes are read and go nowhere: what was sent is lost with the next reset.
  void set_swallowing(bool on) { swallowing_.store(on); }
  /// Each later connection is reset after as many bytes, in both directions together, as `draw`
  /// returns. Call it before there is a connection.
  void reset_after(std::function<std::size_t()> draw) { draw_ = std::move(draw); }
  /// Flips one bit of the next `bytes`-th byte towards the target.
  void flip_after(std::size_t bytes) { flip_after_.store(bytes); }
  /// While on, flips one bit of all that passes towards the target in long pieces.
  void set_spoiling(bool on) { spoiling_.store(on); }

  /// The bytes that were passed on, in both directions together.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load(); }
  /// The bits that were flipped.
  [[nodiscard]] int flips() const noexcept { return flips_.load(); }
  /// The connections there were.
  [[nodiscard]] int connections() const noexcept { return connections_.load(); }

 private:
  struct Pair {
    FileDescriptor client;
    FileDescriptor target;
    std::size_t left = 0;  // bytes before its reset
  };

  void run();
  void turn();
  void accept_one();
  bool pass(Pair& pair, bool to_target);
  void request(std::atomic<bool>& what);

  const Endpoint target_;
  const FileDescriptor listener_;
  const FileDescriptor wake_;
  const std::string address_;
  std::function<std::size_t()> draw_;
  std::list<Pair> pairs_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> down_{false};
  std::atomic<bool> reset_{false};
  std::atomic<bool> swallowing_{false};
  std::atomic<bool> spoiling_{false};
  std::atomic<std::size_t> flip_after_{0};
  std::atomic<int> flips_{0};
  std::atomic<int> connections_{0};
  std::atomic<std::size_t> bytes_{0};
  std::thread thread_;
};

}  // namespace ronde::net
