// The part of socket.h that reads addresses from settings.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "backends/net/rendezvous/socket.h"
#include "core/base/os/interfaces.h"

namespace ronde::net {
namespace {

struct HostPorts {
  std::string host;
  std::vector<std::uint16_t> ports;
};

std::optional<std::uint16_t> parse_port(const std::string& text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::optional<std::vector<std::uint16_t>> parse_ports(const std::string& text) {
  std::vector<std::uint16_t> ports;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const auto port = parse_port(text.substr(start, comma - start));
    if (!port) return std::nullopt;
    ports.push_back(*port);
    start = comma + 1;
  }
  return ports;
}

std::optional<HostPorts> split(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  std::string host = text.substr(0, colon);
  const bool brackets = host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (!brackets && host.find(':') != std::string::npos) return std::nullopt;
  auto ports = parse_ports(text.substr(colon + 1));
  if (!ports) return std::nullopt;
  return HostPorts{std::move(host), std::move(*ports)};
}

/// Those with an address for traffic between hosts, and loopback ones.
std::string interface_names() {
  std::vector<std::string> names;
  for (const Interface& each : list_interfaces()) {
    const bool listed = std::ranges::find(names, each.name) != names.end();
    if (!listed && !each.address.is_link_local()) names.push_back(each.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Status malformed(const std::string& text) {
  return {Code::kInvalidArgument,
          fmt::format("\"{}\" is not an address; allowed: host:port, 10.0.0.1:4000, [fd00::1]:4000",
                      text)};
}

}  // namespace

Result<std::vector<Endpoint>> resolve(const std::string& host_and_port) {
  const auto parts = split(host_and_port);
  if (!parts) return malformed(host_and_port);
  RONDE_ASSIGN_OR_RETURN(const std::vector<Endpoint> found, resolve_host(parts->host));
  std::vector<Endpoint> all;
  for (const std::uint16_t port : parts->ports) {
    for (const Endpoint& endpoint : found) all.push_back(endpoint.with_port(port));
  }
  return all;
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  if (text.starts_with('@')) return abstract_endpoint(text.substr(1));
  const auto parts = split(text);
  if (!parts || parts->ports.size() != 1) return malformed(text);
  RONDE_ASSIGN_OR_RETURN(const Endpoint found, numeric_host(parts->host));
  return found.with_port(parts->ports.front());
}

Result<Endpoint> interface_endpoint(const std::string& name_or_address) {
  if (auto numeric = numeric_host(name_or_address); numeric.ok()) return numeric;
  if (const auto found = interface_address(name_or_address)) return *found;
  return Status(Code::kInvalidArgument,
                fmt::format("RONDE_NETWORK_INTERFACE=\"{}\" is not an address nor an interface "
                            "with one; there are: {}",
                            name_or_address, interface_names()));
}

}  // namespace ronde::net
