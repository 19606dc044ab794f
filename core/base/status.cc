#include "core/base/status.h"

#include <fmt/format.h>

#include <array>

namespace ronde {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(kLastCode) + 1> kCodeNames = {
    "ok",
    "invalid argument",
    "mismatch",
    "duplicate name",
    "rank failure",
    "stalled",
    "timeout",
    "aborted",
    "interrupted",
    "not initialized",
    "unsupported",
    "resource exhausted",
    "version mismatch",
    "unavailable",
    "internal",
    "not finite",
    "corrupted"};

}  // namespace

std::string_view to_string(Code code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return index < kCodeNames.size() ? kCodeNames[index] : "unknown code";
}

Status::Status(Code code, std::string message, const char* file, int line) {
  if (code == Code::kOk) return;
  rep_ = std::make_shared<const Rep>(Rep{code, std::move(message), file, line, {}, {}});
}

const std::string& Status::message() const noexcept {
  static const std::string kEmpty;
  return ok() ? kEmpty : rep_->message;
}

std::string Status::origin() const {
  return ok() ? std::string() : fmt::format("{}:{}", rep_->file, rep_->line);
}

const std::optional<FailedRank>& Status::failed_rank() const noexcept {
  static const std::optional<FailedRank> kNone;
  return ok() ? kNone : rep_->failed_rank;
}

std::optional<std::size_t> Status::tensor() const noexcept {
  return ok() ? std::nullopt : rep_->tensor;
}

Status Status::changed(auto change) const {
  if (ok()) return *this;
  Status copy = *this;
  Rep rep = *rep_;
  change(rep);
  copy.rep_ = std::make_shared<const Rep>(std::move(rep));
  return copy;
}

Status Status::about(FailedRank rank) const {
  return changed([&](Rep& rep) { rep.failed_rank = std::move(rank); });
}

Status Status::in_tensor(std::optional<std::size_t> position) const {
  return changed([&](Rep& rep) { rep.tensor = position; });
}

Status Status::with_context(std::string_view context) const {
  return changed([&](Rep& rep) { rep.message = fmt::format("{}: {}", context, rep.message); });
}

std::string Status::to_string() const {
  return ok() ? "ok" : fmt::format("{}: {}", ronde::to_string(code()), message());
}

}  // namespace ronde
