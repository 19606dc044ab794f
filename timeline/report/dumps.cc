#include "timeline/report/dumps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

namespace ronde::report {
namespace {

namespace fs = std::filesystem;

/// A rank writes at most 64 dumps of at most a few MB each.
constexpr std::uintmax_t kMostBytes = std::uintmax_t{512} << 20;
constexpr std::string_view kHead = "{\"type\":\"dump\"";

/// Whether the file is a dump, by its name or its first bytes. A dump may be cut off at once.
bool is_dump(const std::string& path) {
  if (path.ends_with(".jsonl")) return true;
  std::ifstream file(path, std::ios::binary);
  std::string head(kHead.size(), '\0');
  return file.read(head.data(), static_cast<std::streamsize>(head.size())) && head == kHead;
}

std::vector<std::string> dumps_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("ronde-dump.") && name.ends_with(".jsonl")) {
      found.push_back(entry.path().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::vector<Dump>> read_file(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (!error && bytes > kMostBytes) {
    return Status(Code::kResourceExhausted,
                  fmt::format("{}: {} bytes are more than a rank's dumps can be ({})", path, bytes,
                              kMostBytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return Status(Code::kUnavailable, fmt::format("cannot read the dump {}", path));
  auto dumps = read_dumps(text.str());
  if (!dumps.ok()) return dumps.status().with_context(path);
  if (dumps->empty()) {
    return Status(Code::kInvalidArgument, fmt::format("{}: there is no dump in it", path));
  }
  return dumps;
}

/// Whether `later` is more informative than the earlier `known`.
bool says_more(const Dump& later, const Dump& known) {
  return !later.failure.empty() || known.failure.empty();
}

}  // namespace

Result<std::vector<std::string>> take_dumps(std::vector<std::string>& paths) {
  std::vector<std::string> dumps;
  std::vector<std::string> traces;
  for (std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      const std::vector<std::string> found = dumps_in(path);
      if (found.empty()) {
        return Status(Code::kInvalidArgument,
                      fmt::format("{}: the folder holds no ronde-dump.*.jsonl", path));
      }
      dumps.insert(dumps.end(), found.begin(), found.end());
    } else {
      (is_dump(path) ? dumps : traces).push_back(std::move(path));
    }
  }
  paths = std::move(traces);
  return dumps;
}

Result<JobDumps> load_dumps(const std::vector<std::string>& paths) {
  std::map<std::string, std::map<int, Dump>> jobs;
  std::pair<std::int64_t, std::string> newest;
  for (const std::string& path : paths) {
    RONDE_ASSIGN_OR_RETURN(std::vector<Dump> dumps, read_file(path));
    for (Dump& dump : dumps) {
      newest = std::max(newest, {dump.epoch_ns, dump.job});
      auto& ranks = jobs[dump.job];
      const auto known = ranks.find(dump.rank);
      if (known == ranks.end() || says_more(dump, known->second)) {
        ranks[dump.rank] = std::move(dump);
      }
    }
  }
  JobDumps result;
  for (auto& [job, ranks] : jobs) {
    if (job != newest.second) {
      result.notes.push_back(fmt::format("dumps of another job, {}, were left out: {} wrote last",
                                         job, newest.second));
      continue;
    }
    for (auto& [rank, dump] : ranks) result.ranks.push_back(std::move(dump));
  }
  return result;
}

}  // namespace ronde::report
