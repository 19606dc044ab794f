#include "bindings/runtime/groups/tuning.h"

#include <fmt/format.h>

#include <limits>

#include "core/base/join_text.h"
#include "core/base/json.h"
#include "core/base/os/folders.h"

namespace ronde {
namespace {

Status bad(std::string_view origin, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("tuning file {}: {}", origin, what)};
}

Status bad_value(std::string_view key, const Json& value, std::string_view allowed) {
  return {Code::kInvalidArgument,
          fmt::format("{} is {}; allowed: {}", key, value.is_null() ? "missing" : print_json(value),
                      allowed)};
}

Json member(const Json& row, const char* key) { return row.contains(key) ? row.at(key) : Json(); }

std::vector<std::string_view> names_for(Collective kind) {
  std::vector<std::string_view> names;
  for (const Algorithm& known : algorithms()) {
    if (known.kind == kind) names.push_back(known.name);
  }
  return names;
}

/// A whole number from 1 to `most`, or `most` where there is none.
template <typename T>
Status read_limit(const Json& row, const char* key, T most, T& to) {
  to = most;
  const Json value = member(row, key);
  if (value.is_null()) return {};
  const auto highest = static_cast<std::uint64_t>(most);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 ||
      value.get<std::uint64_t>() > highest) {
    return bad_value(key, value, fmt::format("whole numbers from 1 to {}", highest));
  }
  to = static_cast<T>(value.get<std::uint64_t>());
  return {};
}

Result<SelectionRow> read_row(const Json& from) {
  SelectionRow row;
  if (!from.is_object()) return bad_value("the row", from, "an object");
  for (const auto& [key, value] : from.items()) {
    if (key != "collective" && key != "algorithm" && key != "max_bytes" && key != "max_ranks") {
      return bad_value(key, value, "collective, algorithm, max_bytes, max_ranks");
    }
  }
  const Json collective = member(from, "collective");
  const auto kind = parse_collective(collective.is_string() ? collective.get<std::string>() : "");
  if (!kind.ok() || names_for(*kind).empty()) {
    return bad_value("collective", collective, "one that has algorithms, such as allreduce");
  }
  row.kind = *kind;
  const Json name = member(from, "algorithm");
  const Algorithm* algorithm =
      find_algorithm(row.kind, name.is_string() ? name.get<std::string>() : "");
  if (algorithm == nullptr) {
    return bad_value("algorithm", name, join_text(names_for(row.kind), ", "));
  }
  row.algorithm = algorithm->name;
  RONDE_RETURN_IF_ERROR(read_limit(from, "max_bytes", row.max_bytes, row.max_bytes));
  RONDE_RETURN_IF_ERROR(read_limit(from, "max_ranks", row.max_ranks, row.max_ranks));
  return row;
}

Json to_json(const SelectionRow& row) {
  Json json;
  json["collective"] = to_string(row.kind);
  if (row.max_ranks != SelectionRow{}.max_ranks) json["max_ranks"] = row.max_ranks;
  if (row.max_bytes != SelectionRow{}.max_bytes) json["max_bytes"] = row.max_bytes;
  json["algorithm"] = row.algorithm;
  return json;
}

}  // namespace

std::string format_tuning(std::span<const SelectionRow> rows, const TuningFacts& facts) {
  Json measured;
  measured["host"] = facts.host;
  measured["cores"] = facts.cores;
  measured["ranks"] = facts.ranks;
  measured["backend"] = facts.backend;
  std::string text = fmt::format(
      "{{\n  \"about\": \"The first row that fits wins; what fits none goes by Ronde's own "
      "table.\",\n  \"measured\": {},\n  \"rows\": [",
      print_json(measured));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("{}\n    {}", i == 0 ? "" : ",", print_json(to_json(rows[i])));
  }
  return text + "\n  ]\n}\n";
}

Result<std::vector<SelectionRow>> parse_tuning(std::string_view text, std::string_view origin) {
  Json json;
  try {
    json = parse_json_or_throw(text);
  } catch (const Json::parse_error& error) {
    return bad(origin, error.what());  // names line and column
  }
  if (!json.is_object() || !json.contains("rows") || !json.at("rows").is_array()) {
    return bad(origin, "there is no list \"rows\"");
  }
  std::vector<SelectionRow> rows;
  for (const Json& row : json.at("rows")) {
    auto read = read_row(row);
    if (!read.ok()) {
      return bad(origin, fmt::format("row {}: {}", rows.size() + 1, read.status().message()));
    }
    rows.push_back(*read);
  }
  return rows;
}

Result<std::string> read_tuning(const std::string& path) {
  auto text = read_file(path);
  if (!text.ok()) return bad(path, text.status().message());
  if (text->size() <= kMaxTuningBytes) return text;
  return bad(path, fmt::format("{} bytes; allowed: up to {}", text->size(), kMaxTuningBytes));
}

}  // namespace ronde
