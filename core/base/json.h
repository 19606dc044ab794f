// JSON as Ronde reads and writes it. The library's parser and printer are compiled once, in
// json.cc: each source that used them by itself would take seconds longer to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

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

}  // namespace ronde
