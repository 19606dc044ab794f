// Tables with one row for each value of an enumeration. A row has `value` and `name`.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/status.h"

namespace ronde {

/// True if row i of `table` is that of value i.
template <typename Row, std::size_t N>
constexpr bool is_in_order(const std::array<Row, N>& table) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    if (static_cast<std::size_t>(table[i].value) != i) return false;
  }
  return true;
}

/// The row's name; "?" for a value without a row.
template <typename Row, std::size_t N>
constexpr std::string_view name_in(const std::array<Row, N>& table,
                                   decltype(Row::value) value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? table[index].name : "?";
}

/// All names, separated by commas.
template <typename Row, std::size_t N>
std::string names_in(const std::array<Row, N>& table) {
  std::string names;
  for (const Row& row : table) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

/// The value named `text`. Errors: kInvalidArgument, which calls the value `what`, with its text
/// and what is allowed.
template <typename Row, std::size_t N>
Result<decltype(Row::value)> parse_in(const std::array<Row, N>& table, std::string_view text,
                                      std::string_view what) {
  for (const Row& row : table) {
    if (row.name == text) return row.value;
  }
  std::string message(what);
  message.append(" \"").append(text).append("\" is unknown; allowed: ").append(names_in(table));
  return Status(Code::kInvalidArgument, std::move(message));
}

}  // namespace ronde
