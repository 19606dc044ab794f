// JSON as Ronde reads and writes it. The library's parser and printer are compiled once, in
// json.cc: each source that used them by itself would take seconds longer to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ronde {

/// Objects keep the order of their members.
using Json = nlohmann::ordered_json;

/// Reads a text. A malformed one gives a value that is_discarded().
Json parse_json(std::string_view text);

/// As parse_json(). Throws Json::parse_error for a malformed text, which names line and column.
Json parse_json_or_throw(std::string_view text);

/// The value on one line. Bytes that are not UTF-8 become U+FFFD.
std::string print_json(const Json& value);

/// As print_json(), for people as well: indented, and with a line end.
std::string json_document(const Json& value);

/// Reads the member `name` of an object: a whole number, a text, or the texts in a list. Where
/// there is none of that type, `to` stays as it is, and the result is false. For bool a number but
/// 0 is true.
template <typename T>
bool read_member(const Json& object, std::string_view name, T& to) {
  const auto found = object.find(name);
  if (found == object.end()) return false;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    if (!found->is_array()) return false;
    to.clear();
    for (const Json& text : *found) {
      if (text.is_string()) to.push_back(text.template get<std::string>());
    }
    return true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (found->is_string()) to = found->template get<std::string>();
    return found->is_string();
  } else {
    using Number = std::conditional_t<std::is_same_v<T, bool>, int, T>;
    if (found->is_number_integer()) to = static_cast<T>(found->template get<Number>());
    return found->is_number_integer();
  }
}

}  // namespace ronde
