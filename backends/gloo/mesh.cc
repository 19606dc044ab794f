#include "backends/gloo/mesh.h"

#include <fmt/format.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace ronde::gloo_backend {
namespace {

using std::chrono::milliseconds;

// Gloo waits this many times its timeout for a connection, and offers no other end of that wait.
constexpr int kConnectFactor = 5;
constexpr milliseconds kConnectTimeout{6000};
// Waits end by abort, not by time; Gloo overflows on much longer ones.
constexpr std::chrono::hours kNoTimeout{24 * 30};
// When a connection breaks, the control channel soon reports which rank died. That is the better
// error.
constexpr milliseconds kGrace{250};

/// Calls a function on abort, for a scope.
class AbortWatch {
 public:
  AbortWatch(const AbortToken& abort, std::function<void()> action)
      : abort_(abort), id_(abort.listen(std::move(action))) {}
  ~AbortWatch() { abort_.unlisten(id_); }
  AbortWatch(const AbortWatch&) = delete;
  AbortWatch& operator=(const AbortWatch&) = delete;

 private:
  const AbortToken& abort_;
  const int id_;
};

/// Gloo's timeout with which a connection is given up by `deadline`.
milliseconds connect_timeout(TimePoint deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - now()) / kConnectFactor;
  return std::clamp(left, milliseconds(1), kConnectTimeout);
}

/// "ok" or the error's text, which ranks exchange after a step.
std::string verdict(const Status& status) { return status.ok() ? "" : status.message(); }

Status first_failure(const GroupSpec& group, const std::vector<std::string>& verdicts) {
  for (std::size_t r = 0; r < verdicts.size(); ++r) {
    if (verdicts[r].empty()) continue;
    return {Code::kUnavailable, fmt::format("rank {}: {}", group.ranks[r], verdicts[r])};
  }
  return {};
}

}  // namespace

Mesh::Mesh(const GroupSpec& group)
    : gloo::Context(group.rank, group.size()), ranks_(group.ranks), topology_(group.topology) {}

Result<std::shared_ptr<Mesh>> Mesh::connect(
    const GroupSpec& group, Exchange& exchange,
    const Result<std::shared_ptr<gloo::transport::Device>>& device) {
  auto mesh = std::make_shared<Mesh>(group);
  Status status = device.status();
  std::string mine;
  try {
    if (status.ok()) mine = mesh->create_pairs(device.value(), connect_timeout(group.deadline));
  } catch (const std::exception& error) {
    status = {Code::kUnavailable, error.what()};
  }
  RONDE_ASSIGN_OR_RETURN(const auto created, exchange.allgather(verdict(status)));
  RONDE_RETURN_IF_ERROR(first_failure(group, created));
  RONDE_ASSIGN_OR_RETURN(const auto addresses, exchange.allgather(mine));
  status = mesh->connect_all(group, addresses);
  RONDE_ASSIGN_OR_RETURN(const auto connected, exchange.allgather(verdict(status)));
  if (group.abort->aborted()) return group.abort->status();
  RONDE_RETURN_IF_ERROR(first_failure(group, connected));
  return mesh;
}

std::string Mesh::create_pairs(const std::shared_ptr<gloo::transport::Device>& device,
                               milliseconds timeout) {
  device_ = device;
  abortable_ = std::make_shared<AbortableContext>(device->createContext(rank, size));
  abortable_->set_timeout(timeout);
  transportContext_ = abortable_;
  std::string addresses;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
    addresses.append(address.begin(), address.end());
  }
  return addresses;
}

void Mesh::connect_pairs(const std::vector<std::string>& addresses) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::string& theirs = addresses[static_cast<std::size_t>(peer)];
    const std::size_t length = theirs.size() / static_cast<std::size_t>(size - 1);
    const auto index = static_cast<std::size_t>(rank < peer ? rank : rank - 1);  // peer is skipped
    const std::string address = theirs.substr(index * length, length);
    transportContext_->getPair(peer)->connect({address.begin(), address.end()});
  }
}

Status Mesh::connect_all(const GroupSpec& group, const std::vector<std::string>& addresses) {
  const AbortWatch watch(*group.abort, [this] { close_pairs(); });
  try {
    connect_pairs(addresses);
    abortable_->set_timeout(kNoTimeout);
    setTimeout(kNoTimeout);
    return {};
  } catch (const std::exception& error) {
    return {Code::kUnavailable, error.what()};
  }
}

void Mesh::close_pairs() noexcept {
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) transportContext_->getPair(peer)->close();
  }
}

Status Mesh::call(const AbortToken& abort, const std::function<void()>& body, int peer) {
  const SigpipeBlock no_signal;
  std::string what;
  {
    const AbortWatch watch(abort, [this] { abortable_->break_all(); });
    try {
      body();
      return {};
    } catch (const std::exception& error) {
      what = error.what();
    }
  }
  abortable_->break_all();
  return failure(abort, what, peer);
}

Status Mesh::failure(const AbortToken& abort, const std::string& what, int peer) const {
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  while (!abort.aborted() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (abort.aborted()) return abort.status();
  const Status status(Code::kRankFailure, fmt::format("Gloo lost a connection: {}", what));
  if (peer < 0) return status;
  const int job_rank = ranks_[static_cast<std::size_t>(peer)];
  FailedRank failed{.rank = job_rank, .host = {}, .pid = 0};
  if (topology_ != nullptr && job_rank < topology_->size()) {
    const PeerInfo& info = topology_->peers[static_cast<std::size_t>(job_rank)];
    failed.host = info.host_name;
    failed.pid = info.pid;
  }
  return status.about(std::move(failed));
}

}  // namespace ronde::gloo_backend
