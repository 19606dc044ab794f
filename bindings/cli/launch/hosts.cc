#include "bindings/cli/launch/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <sstream>

#include "core/base/os/folders.h"

namespace ronde {
namespace {

constexpr int kMaxSlots = 65536;

Status bad_host(std::string_view entry, std::string_view why) {
  return {Code::kInvalidArgument,
          fmt::format("host \"{}\": {}; allowed: NAME or NAME:SLOTS, such as node1:4", entry, why)};
}

/// Host names go into an ssh command line: nothing that could be read as an option or by a shell.
bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '@' || c == ':' || c == '%';
  };
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), allowed);
}

bool parse_slots(std::string_view text, int& slots) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  return error == std::errc() && end == text.data() + text.size() && slots >= 1 &&
         slots <= kMaxSlots;
}

/// Splits "name:slots" and "[v6]:slots"; `slots` stays empty where there is none, and `name` where
/// a bracket is not closed.
void split_entry(std::string_view entry, std::string_view& name, std::string_view& slots) {
  if (!entry.empty() && entry.front() == '[') {
    const std::size_t close = entry.find(']');
    if (close == entry.npos) return;
    name = entry.substr(1, close - 1);
    slots = entry.substr(close + 1);
    if (!slots.empty() && slots.front() == ':') slots.remove_prefix(1);
    return;
  }
  const std::size_t colon = entry.find(':');
  name = entry.substr(0, colon);
  slots = colon == entry.npos ? "" : entry.substr(colon + 1);
  if (colon != entry.npos && slots.empty()) slots = ":";
}

Result<HostSlots> parse_entry(std::string_view entry, int default_slots) {
  std::string_view name;
  std::string_view slots;
  split_entry(entry, name, slots);
  if (!is_name(name)) return bad_host(entry, "the name is not valid");
  HostSlots host{std::string(name), default_slots};
  if (!slots.empty() && !parse_slots(slots, host.slots)) {
    return bad_host(entry, fmt::format("the number of slots is not from 1 to {}", kMaxSlots));
  }
  return host;
}

Status add_host(std::vector<HostSlots>& hosts, HostSlots host) {
  for (const HostSlots& known : hosts) {
    if (known.name == host.name) return bad_host(host.name, "is named twice");
  }
  hosts.push_back(std::move(host));
  return {};
}

Result<HostSlots> parse_line(const std::string& line, int slots) {
  std::istringstream words(line);
  std::string name;
  std::string rest;
  std::string more;
  words >> name >> rest >> more;
  if (!more.empty()) return bad_host(line, "there is more than a name and slots=N");
  if (rest.empty()) return parse_entry(name, slots);
  if (rest.rfind("slots=", 0) != 0) return bad_host(line, "only slots=N may follow the name");
  return parse_entry(name + ":" + rest.substr(6), slots);
}

Result<HostSlots> parse_plain_line(const std::string& line, int slots) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  const std::size_t end = line.find_last_not_of(" \t\r");
  return parse_entry(std::string_view(line).substr(begin, end + 1 - begin), slots);
}

/// Reads the lines that are not empty.
template <class ParseLine>
Result<std::vector<HostSlots>> parse_lines(std::string_view text, ParseLine parse) {
  std::vector<HostSlots> hosts;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    auto host = parse(line);
    Status status = host.ok() ? add_host(hosts, std::move(host).value()) : host.status();
    if (!status.ok()) return status.with_context(fmt::format("line {}", number));
  }
  return hosts;
}

}  // namespace

Result<std::vector<HostSlots>> parse_hosts(std::string_view text, int slots) {
  std::vector<HostSlots> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    RONDE_ASSIGN_OR_RETURN(HostSlots host, parse_entry(text.substr(begin, comma - begin), slots));
    RONDE_RETURN_IF_ERROR(add_host(hosts, std::move(host)));
    begin = comma + 1;
  }
  return hosts;
}

Result<std::vector<HostSlots>> parse_hostfile(std::string_view text, int slots) {
  std::string plain;  // without comments
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) plain += line.substr(0, line.find('#')) + "\n";
  RONDE_ASSIGN_OR_RETURN(
      std::vector<HostSlots> hosts,
      parse_lines(plain, [slots](const std::string& line) { return parse_line(line, slots); }));
  if (hosts.empty()) return Status(Code::kInvalidArgument, "no host is named");
  return hosts;
}

Result<std::vector<HostSlots>> parse_discovered_hosts(std::string_view text, int slots) {
  return parse_lines(text,
                     [slots](const std::string& line) { return parse_plain_line(line, slots); });
}

int total_slots(const std::vector<HostSlots>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0,
                         [](int sum, const HostSlots& host) { return sum + host.slots; });
}

Status check_slots(const std::vector<HostSlots>& hosts, int needed) {
  const int slots = total_slots(hosts);
  if (needed <= slots) return {};
  return {Code::kInvalidArgument,
          fmt::format("{} ranks asked for, but the hosts have {} slots in all; give more "
                      "hosts or HOST:SLOTS",
                      needed, slots)};
}

Result<std::vector<HostRanks>> place_ranks(const std::vector<HostSlots>& hosts, int np) {
  RONDE_RETURN_IF_ERROR(check_slots(hosts, np));
  std::vector<HostRanks> placed;
  int next = 0;
  const int total = np == 0 ? total_slots(hosts) : np;
  for (const HostSlots& host : hosts) {
    const int count = std::min(host.slots, total - next);
    if (count > 0) placed.push_back({host.name, next, count});
    next += count;
  }
  return placed;
}

std::vector<std::string> host_names(const std::vector<HostRanks>& stretches) {
  std::vector<std::string> names;
  std::set<std::string_view> known;
  for (const HostRanks& stretch : stretches) {
    if (known.insert(stretch.name).second) names.push_back(stretch.name);
  }
  return names;
}

Result<std::vector<HostSlots>> read_hostfile(const std::string& path, int slots) {
  const auto text = read_file(path);
  if (!text.ok()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot read the hostfile {}: {}", path, text.status().message()));
  }
  auto hosts = parse_hostfile(*text, slots);
  if (!hosts.ok()) return hosts.status().with_context(path);
  return hosts;
}

}  // namespace ronde
