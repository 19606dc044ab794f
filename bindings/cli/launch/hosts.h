// The hosts of a job (-H, --hostfile), and the ranks on each of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/elastic/host_table.h"

namespace ronde {

/// One host as the user named it, and how many ranks fit.
using HostSlots = elastic::HostPlaces;

/// Ranks of one host: first_rank .. first_rank + ranks - 1.
struct HostRanks {
  std::string name;
  int first_rank = 0;
  int ranks = 0;
};

/// The names of the hosts, each once, in ascending order of their lowest ranks. `stretches` holds
/// all ranks in order; a host may have several.
std::vector<std::string> host_names(const std::vector<HostRanks>& stretches);

/// Reads "a:2,b,[::1]:4"; a host without a number has `slots`.
/// Errors: kInvalidArgument naming the entry and what is allowed; a host named twice.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text, int slots = 1);

/// Reads the text of a hostfile: one host a line, "name", "name:2" or "name slots=2"; '#' starts a
/// comment. Errors: as parse_hosts, naming the line.
Result<std::vector<HostSlots>> parse_hostfile(std::string_view text, int slots = 1);
/// The same of a file. Errors: kInvalidArgument naming the file.
Result<std::vector<HostSlots>> read_hostfile(const std::string& path, int slots);

/// Reads what a discovery script prints: one host a line, "name" or "name:2". There may be none.
/// Errors: as parse_hosts, naming the line.
Result<std::vector<HostSlots>> parse_discovered_hosts(std::string_view text, int slots = 1);

int total_slots(const std::vector<HostSlots>& hosts);

/// Errors: kInvalidArgument where the hosts have fewer slots than `needed`.
Status check_slots(const std::vector<HostSlots>& hosts, int needed);

/// Places `np` ranks (0: as many as there are slots) host by host, in order. Hosts that get none
/// are left out. Errors: kInvalidArgument where the slots do not suffice.
Result<std::vector<HostRanks>> place_ranks(const std::vector<HostSlots>& hosts, int np);

}  // namespace ronde
