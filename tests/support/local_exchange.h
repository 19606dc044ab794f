// The arguments of Backend::open for ranks that are threads: a group and an Exchange.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/ports/backend.h"

namespace ronde::test {

/// Where the ranks of one group leave their values. Threads: any.
class ExchangeRounds {
 public:
  /// `abort` ends all waits; may be null.
  explicit ExchangeRounds(int size, std::shared_ptr<AbortToken> abort = nullptr);
  ~ExchangeRounds();
  ExchangeRounds(const ExchangeRounds&) = delete;
  ExchangeRounds& operator=(const ExchangeRounds&) = delete;

  /// Exchange::allgather of `rank`'s call number `round`, from 0.
  Result<std::vector<std::string>> allgather(int rank, std::size_t round, std::string_view mine);

 private:
  struct Round {
    std::vector<std::string> values;
    int present = 0;
  };
  void put(int rank, std::size_t round, std::string_view mine) RONDE_REQUIRES(mutex_);
  /// Blocks until all values of the round are there; false where aborted.
  bool complete(std::size_t round) RONDE_REQUIRES(mutex_);

  const int size_;
  const std::shared_ptr<AbortToken> abort_;
  int listener_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Round> rounds_ RONDE_GUARDED_BY(mutex_);
};

/// One rank's side of a rounds. Threads: one at a time.
class LocalExchange final : public Exchange {
 public:
  LocalExchange(std::shared_ptr<ExchangeRounds> rounds, int rank)
      : rounds_(std::move(rounds)), rank_(rank) {}
  Result<std::vector<std::string>> allgather(std::string_view mine) override {
    return rounds_->allgather(rank_, round_++, mine);
  }

 private:
  const std::shared_ptr<ExchangeRounds> rounds_;
  const int rank_;
  std::size_t round_ = 0;
};

/// A group of all ranks of a job of threads: shared by them, made before they start.
class LocalJob {
 public:
  /// `host_of_rank` pretends hosts (numbered by their lowest rank, from 0); empty means one.
  explicit LocalJob(int size, const std::vector<int>& host_of_rank = {});

  [[nodiscard]] int size() const noexcept { return static_cast<int>(topologies_.size()); }
  [[nodiscard]] const Topology& topology(int rank) const {
    return topologies_[static_cast<std::size_t>(rank)];
  }
  /// The group of all ranks, as `rank` sees it. Valid while the job lives.
  [[nodiscard]] GroupSpec group(int rank) const;
  /// A new Exchange for `rank`; one for each rank.
  [[nodiscard]] std::unique_ptr<Exchange> exchange(int rank) const;
  /// The token of the group.
  [[nodiscard]] AbortToken& abort() const noexcept { return *abort_; }

 private:
  std::vector<Topology> topologies_;
  std::uint64_t key_;
  std::shared_ptr<AbortToken> abort_ = std::make_shared<AbortToken>();
  std::shared_ptr<ExchangeRounds> rounds_;
};

}  // namespace ronde::test
