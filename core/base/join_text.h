// Lists as text. fmt::join does the same, but each source that uses it takes the compiler half a
// second longer for each type of list.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

namespace ronde {

/// The elements of `list`, with `separator` between them.
std::string join_text(const auto& list, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& element : list) {
    if (!std::exchange(first, false)) text += separator;
    if constexpr (std::convertible_to<decltype(element), std::string_view>) {
      text += element;
    } else {
      text += fmt::format("{}", element);
    }
  }
  return text;
}

}  // namespace ronde
