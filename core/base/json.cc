#include "core/base/json.h"

namespace ronde {

Json parse_json(std::string_view text) { return Json::parse(text, nullptr, false); }

Json parse_json_or_throw(std::string_view text) { return Json::parse(text); }

std::string print_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_document(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ronde
