// The place of one data connection in the counts of its process, and the limit of their number.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "core/ports/connection_counts.h"

namespace ronde::net {

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
  CountedConnection() = default;  ///< Counts nothing.
  explicit CountedConnection(std::shared_ptr<ConnectionBudget> budget) noexcept
      : budget_(std::move(budget)) {
    if (!budget_) return;
    budget_->counts().opened.fetch_add(1);
    budget_->add_staying(1);
  }
  ~CountedConnection() { reset(); }
  CountedConnection(CountedConnection&& other) noexcept
      : budget_(std::move(other.budget_)), ending_(std::exchange(other.ending_, false)) {}
  CountedConnection& operator=(CountedConnection&& other) noexcept {
    if (this == &other) return *this;
    reset();
    budget_ = std::move(other.budget_);
    ending_ = std::exchange(other.ending_, false);
    return *this;
  }
  CountedConnection(const CountedConnection&) = delete;
  CountedConnection& operator=(const CountedConnection&) = delete;

  /// True: it is about to close.
  void set_ending(bool ending) noexcept {
    if (budget_ && ending != ending_) budget_->add_staying(ending ? -1 : 1);
    ending_ = ending;
  }

 private:
  void reset() noexcept {
    if (!budget_) return;
    set_ending(true);
    budget_->counts().closed.fetch_add(1);
    budget_.reset();
    ending_ = false;
  }

  std::shared_ptr<ConnectionBudget> budget_;
  bool ending_ = false;
};

}  // namespace ronde::net
