#include "backends/net/control/tcp_link.h"

#include <algorithm>
#include <asio/post.hpp>
#include <cstring>
#include <utility>

#include "core/ports/control_channel.h"

namespace ronde::net {
namespace {

bool ends_link(FrameKind kind) {
  return kind == FrameKind::kGoodbye || kind == FrameKind::kClose || kind == FrameKind::kSpare ||
         kind == FrameKind::kAnswer;
}

Loss loss_of(const Status& error) {
  if (error.code() == Code::kInvalidArgument) return Loss::kAltered;
  return error.code() == Code::kTimeout ? Loss::kUnreachable : Loss::kClosed;
}

}  // namespace

TcpLink::TcpLink(asio::io_context& io, Link link, const LossLimits& limits, const LinkSink& sink)
    : rank_(link.rank),
      dialed_(link.dialed),
      sink_(sink),
      io_(io),
      begun_(dialed_),
      stream_(std::move(link.stream)),
      waiter_(io),
      liveness_(limits),
      input_(kReadBytes) {
  asio::error_code error;
  waiter_.assign(stream_.fd(), error);
}

TcpLink::~TcpLink() {
  if (waiter_.is_open()) waiter_.release();
}

bool TcpLink::look(bool watched, TimePoint time) {
  const TcpProgress is = tcp_progress(stream_.fd());
  // Input from the peer proves nothing if only our own direction is cut.
  if (shows_life(std::exchange(progress_, is), is)) ++answers_;
  LifeSigns signs{.answers = answers_};
  if (watched) signs.beats = received_;
  const bool changed = liveness_.look(signs, time);
  if (liveness_.loss()) end(*liveness_.loss());
  return changed && !ended_;
}

void TcpLink::send(const FrameHead& head, std::span<const std::byte> bytes) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  queue_.push_back({head, {bytes.begin(), bytes.end()}});
  queue_.back().head.length = bytes.size();
  if (flushing_) return;
  if (write_queue()) return;
  flushing_ = true;
  asio::post(io_, [this] { flush_later(); });
}

/// True if nothing is left. A broken connection leaves nothing either: the reading side reports it.
bool TcpLink::write_queue() {
  while (!queue_.empty()) {
    Outgoing& front = queue_.front();
    const auto written = write_on(stream_, encode_head(front.head), front.body, front.written);
    if (!written.ok()) {
      queue_.clear();
    } else if (*written == Written::kBlocked) {
      return false;
    } else if (*written == Written::kAll) {
      queue_.pop_front();
    }
  }
  return true;
}

void TcpLink::flush_later() {
  if (ended_) return;
  waiter_.async_wait(asio::posix::descriptor_base::wait_write,
                     [this](const asio::error_code& error) {
                       if (!error) flush();
                     });
}

void TcpLink::flush() {
  const MutexLock lock(mutex_);
  if (closed_) return;
  flushing_ = !write_queue();
  if (flushing_) flush_later();
}

void TcpLink::read_later() {
  if (ended_) return;
  waiter_.async_wait(asio::posix::descriptor_base::wait_read,
                     [this](const asio::error_code& error) {
                       if (!error) read_now();
                     });
}

void TcpLink::read_now() {
  do {
    if (ended_) return;
    const iovec room{input_.data() + input_used_, input_.size() - input_used_};
    const auto got = stream_.receive({&room, 1});
    if (!got.ok()) return end(loss_of(got.status()));
    if (*got != 0) on_read(*got);
  } while (stream_.has_unread());
  read_later();
}

void TcpLink::on_read(std::size_t bytes) {
  ++received_;
  input_used_ += bytes;
  take_messages();
}

void TcpLink::take_messages() {
  std::size_t done = 0;
  std::size_t needed = kReadBytes;
  while (input_used_ - done >= kFrameHeadBytes) {
    const auto rest = std::span<const std::byte>(input_).subspan(done, input_used_ - done);
    const FrameHead head = decode_head(rest);
    if (head.length > kMaxFrameBytes) return end(Loss::kClosed);
    const std::size_t whole = kFrameHeadBytes + head.length;
    if (rest.size() < whole) {
      needed = std::max(needed, whole);
      break;
    }
    if (!take_message(head, rest.first(whole).subspan(kFrameHeadBytes))) return;
    done += whole;
  }
  std::memmove(input_.data(), input_.data() + done, input_used_ - done);
  input_used_ -= done;
  if (input_.size() < needed) input_.resize(needed);
}

/// False once the link has ended.
bool TcpLink::take_message(const FrameHead& head, std::span<const std::byte> bytes) {
  if (!std::exchange(begun_, true)) sink_.on_begin(*this);
  sink_.on_message(*this, head, bytes);
  if (ended_ || !ends_link(head.kind)) return !ended_;
  ended_by_ = head.kind;
  end(Loss::kLeft);
  return false;
}

void TcpLink::end(Loss how) {
  if (std::exchange(ended_, true)) return;
  liveness_.lose(how);
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    queue_.clear();
    if (waiter_.is_open()) waiter_.release();
    stream_.close();
  }
  if (begun_) sink_.on_end(*this);
}

}  // namespace ronde::net
