// How many connections and open files this process may have.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/connection_counts.h"

namespace ronde::net {

// The place of one data connection in the counts of its process, and the limit of their number.

/// The data connections of this process with ranks of other hosts. Threads: any.
class ConnectionBudget {
 public:
  /// `most`: connections that stay open where some are idle; 0: no limit.
  ConnectionBudget(int most, std::shared_ptr<ConnectionCounts> counts) noexcept
      : most_(most), counts_(std::move(counts)) {}

  [[nodiscard]] bool limited() const noexcept { return most_ > 0; }
  /// Connections beyond the limit, without those about to close.
  [[nodiscard]] int excess() const noexcept {
    return limited() ? std::max(0, staying_.load() - most_) : 0;
  }
  [[nodiscard]] ConnectionCounts& counts() const noexcept { return *counts_; }
  void add_staying(int change) noexcept { staying_.fetch_add(change); }

 private:
  const int most_;
  const std::shared_ptr<ConnectionCounts> counts_;
  std::atomic<int> staying_{0};
};

/// Counts one connection as open while it lives. Threads: one.
class CountedConnection {
 public:
  /// `took`: to make it.
  CountedConnection(std::shared_ptr<ConnectionBudget> budget, Duration took) noexcept
      : budget_(std::move(budget)) {
    budget_->counts().opened.fetch_add(1);
    budget_->counts().opening_ns.fetch_add(static_cast<std::uint64_t>(to_ns(took)));
    budget_->add_staying(1);
  }
  ~CountedConnection() {
    set_ending(true);
    budget_->counts().closed.fetch_add(1);
  }
  CountedConnection(const CountedConnection&) = delete;
  CountedConnection& operator=(const CountedConnection&) = delete;

  /// True: it is about to close.
  void set_ending(bool ending) noexcept {
    if (ending != ending_) budget_->add_staying(ending ? -1 : 1);
    ending_ = ending;
  }

 private:
  const std::shared_ptr<ConnectionBudget> budget_;
  bool ending_ = false;
};

// The file descriptors that this process needs for its connections with ranks of other hosts.

/// The most descriptors that this process may have open at a time. They are:
/// - those that are open now;
/// - 12 control connections of a leader of a host;
/// - data connections: one with each of `peers` other ranks, or `max_connections` if that is less
///   and not 0. Without a limit a further process set may have as many again;
/// - 64 connections in the handshake;
/// - 64 for the program and for Ronde's other files.
std::uint64_t descriptors_needed(int peers, int max_connections);

/// Raises the soft limit of open files (RLIMIT_NOFILE) to `needed` where it is lower. It becomes
/// the hard limit where that is lower still. Errors: kResourceExhausted in this case, which says
/// how to raise the hard limit.
Status provide_descriptors(std::uint64_t needed);

}  // namespace ronde::net
