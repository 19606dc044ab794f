#include "bindings/runtime/injection.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/base/log.h"

namespace ronde {
namespace {

Status refused(std::string_view text) {
  return {Code::kInvalidArgument,
          fmt::format("RONDE_INJECT=\"{}\" is not valid; allowed: "
                      "nan:rank=RANK,tensor=NAME[,step=NUMBER][,element=NUMBER]",
                      text)};
}

template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// One "name=value" of an injection.
bool read_part(std::string_view name, std::string_view value, Injection& injection) {
  if (name == "tensor") injection.tensor = value;
  if (name == "tensor") return !value.empty();
  if (name == "rank") return read(value, injection.rank) && injection.rank >= 0;
  if (name == "step") return read(value, injection.step);
  return name == "element" && read(value, injection.element);
}

/// A NaN of every floating type has all its bits set.
void put_nan(DType dtype, const void* data, std::size_t element) {
  auto* const elements = static_cast<std::byte*>(const_cast<void*>(data));
  std::memset(elements + element * size_of(dtype), 0xFF, size_of(dtype));
}

}  // namespace

Result<Injection> parse_injection(std::string_view text) {
  constexpr std::string_view kKind = "nan:";
  Injection injection{.rank = -1, .tensor = {}};
  std::string_view rest = text;
  if (!rest.starts_with(kKind)) return refused(text);
  rest.remove_prefix(kKind.size());
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos ||
        !read_part(part.substr(0, equals), part.substr(equals + 1), injection)) {
      return refused(text);
    }
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  if (injection.rank < 0 || injection.tensor.empty()) return refused(text);
  return injection;
}

bool Injector::is_meant(const Submission& submission) const {
  const Request& request = submission.request;
  return traits_of(request.kind).reduces && request.device.kind == DeviceKind::kCpu &&
         request.name.find(injection_.tensor) != std::string::npos && !request.tensors.empty() &&
         is_floating(request.tensors[0].dtype) && submission.inputs[0] != nullptr &&
         static_cast<std::size_t>(element_count(request.tensors[0].shape)) > injection_.element &&
         steps_() + 1 >= injection_.step;
}

void Injector::plant(const Submission& submission) {
  if (planted_.load(std::memory_order_relaxed) || !is_meant(submission)) return;
  if (planted_.exchange(true)) return;
  const Request& request = submission.request;
  put_nan(request.tensors[0].dtype, submission.inputs[0], injection_.element);
  log(LogLevel::kWarning, "RONDE_INJECT: planted NaN at element {} of {}", injection_.element,
      described(request));
}

}  // namespace ronde
