#include "bindings/runtime/diagnosis/diagnostics_address.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/base/os/endpoint.h"

namespace ronde::diagnosis {
namespace {

constexpr std::size_t kJobBytes = 40;

std::string cleaned(std::string_view job) {
  std::string text(job.substr(0, kJobBytes));
  for (char& c : text) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  return text;
}

/// The number at the beginning, with the slash after it; false where there is none.
bool take_number(std::string_view& text, int& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  const auto used = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || used >= text.size() || text[used] != '/') return false;
  text.remove_prefix(used + 1);
  return into >= 0;
}

}  // namespace

std::string DiagnosticsAddress::text() const {
  return fmt::format("{}{}/{}/{}/{}/{}", kDiagnosticsPrefix, pid, number, rank, size, cleaned(job));
}

std::optional<DiagnosticsAddress> DiagnosticsAddress::parse(std::string_view text) {
  if (text.rfind(kDiagnosticsPrefix, 0) != 0) return std::nullopt;
  text.remove_prefix(kDiagnosticsPrefix.size());
  DiagnosticsAddress name;
  for (int* field : {&name.pid, &name.number, &name.rank, &name.size}) {
    if (!take_number(text, *field)) return std::nullopt;
  }
  name.job = text;
  return name.job == cleaned(name.job) ? std::optional(name) : std::nullopt;
}

Result<ReplySocket> open_diagnostics(const std::string& name) {
  return ReplySocket::open(abstract_endpoint(name), "cannot listen for ronde doctor");
}

ReplySocket::Answer to_requests(ReplySocket::Answer make) {
  return [make = std::move(make)](std::string_view sent) -> ReplySocket::Reply {
    const std::string_view request = sent.substr(0, kDiagnosticsRequest.size());
    if (!kDiagnosticsRequest.starts_with(request) && !kProbeRequest.starts_with(request)) {
      return std::make_shared<const std::string>();  // another request
    }
    return request.size() < kDiagnosticsRequest.size() ? nullptr : make(request);
  };
}

}  // namespace ronde::diagnosis
