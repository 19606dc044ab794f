// Asks the ranks on this host for their dumps: `ronde doctor --job` does, and a rank that stalls.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/runtime/diagnosis/diagnostics_address.h"
#include "core/base/clock.h"
#include "timeline/dump.h"

namespace ronde::diagnosis {

/// One rank's answer.
struct RankAnswer {
  DiagnosticsAddress who;
  std::string text;          ///< The dump as received; empty if there is none.
  std::optional<Dump> dump;  ///< The dump, parsed.
  std::string silence;       ///< The reason why there is no dump.
  int worker = 0;            ///< Its number in an elastic job; 0: unknown.
};

/// The abstract names of sockets that listen in this host's network namespace.
std::vector<std::string> listening_names();

/// The ranks with a socket in this host's network namespace, of all users, by job and rank.
std::vector<DiagnosticsAddress> find_ranks();

/// Sends `request` to the sockets of these abstract names at once. The answers, as far as they have
/// come by `deadline`; nothing for sockets of other users. Blocks: until `deadline` or `stop`.
std::vector<std::optional<std::string>> ask_sockets(const std::vector<std::string>& names,
                                                    std::string_view request, TimePoint deadline,
                                                    const std::stop_token& stop = {});

/// As ask_sockets() for all ranks, without those of other users. Ranks that do
/// not answer by `deadline` are described by /proc.
std::vector<RankAnswer> ask_ranks(const std::vector<DiagnosticsAddress>& ranks,
                                  std::string_view request, TimePoint deadline,
                                  const std::stop_token& stop = {});

/// The ranks of this host that `awaited` waits for: "rank 1 (train.py:2 in load), rank 2 (is
/// frozen)". Those have not begun it, do not answer, or have a thread that is stopped. Empty if
/// none is known.
std::string awaited_ranks(const Awaited& awaited, const std::vector<RankAnswer>& answers);

}  // namespace ronde::diagnosis
