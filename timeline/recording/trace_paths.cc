#include "timeline/recording/trace_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/base/os/folders.h"

namespace ronde {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGzip = ".gz";

/// "a/trace.json" with `mark` gives "a/trace.MARK.json".
std::string marked_path(const std::string& path, const std::string& mark) {
  const std::string_view gzip = names_gzip(path) ? kGzip : std::string_view();
  const fs::path whole(path.substr(0, path.size() - gzip.size()));
  const std::string extension = names_perfetto(path) ? ".json" : whole.extension().string();
  const std::string name = fmt::format("{}.{}{}{}", whole.stem().string(), mark, extension, gzip);
  return (whole.parent_path() / name).string();
}

/// Takes `text` from the front of `from`.
bool take_text(std::string_view& from, std::string_view text) {
  if (!from.starts_with(text)) return false;
  from.remove_prefix(text.size());
  return true;
}

std::optional<int> take_number(std::string_view& from) {
  int value = 0;
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
  if (error != std::errc()) return std::nullopt;
  from.remove_prefix(static_cast<std::size_t>(end - from.data()));
  return value;
}

/// The texts before and after the mark in the file name of marked_path().
struct Surroundings {
  std::string before;
  std::string after;
};

Surroundings surroundings(const std::string& path) {
  constexpr std::string_view kMark = "mark";
  const std::string model = fs::path(marked_path(path, std::string(kMark))).filename().string();
  const fs::path whole(names_gzip(path) ? path.substr(0, path.size() - kGzip.size()) : path);
  const std::size_t before = whole.stem().string().size() + 1;
  return {model.substr(0, before), model.substr(before + kMark.size())};
}

/// The paths of the files beside `path`, as they are written relative to its folder.
std::vector<std::string> files_beside(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::string> found;
  for (const fs::path& each : paths_in(folder.empty() ? fs::path(".") : folder)) {
    found.push_back((folder / each.filename()).string());
  }
  return found;
}

std::string name_of(const std::string& path) { return fs::path(path).filename().string(); }

}  // namespace

bool names_gzip(std::string_view path) noexcept { return path.ends_with(kGzip); }

bool names_perfetto(std::string_view path) noexcept {
  if (names_gzip(path)) path.remove_suffix(kGzip.size());
  return path.ends_with(".pftrace") || path.ends_with(".perfetto-trace");
}

std::string rank_trace_path(const std::string& path, int rank) {
  return marked_path(path, fmt::format("rank{}", rank));
}

std::string worker_trace_path(const std::string& path, int worker, int epoch) {
  return marked_path(path, fmt::format("worker{}.epoch{}", worker, epoch));
}

std::string epochs_trace_path(const std::string& path) { return marked_path(path, "epochs"); }

std::string trace_part_path(const std::string& own_path, int part) {
  return marked_path(own_path, fmt::format("part{:04}", part));
}

std::vector<std::string> trace_files(const std::string& own_path) {
  const auto [before, after] = surroundings(own_path);
  std::map<int, std::string> found;
  for (const std::string& file : files_beside(own_path)) {
    const std::string name = name_of(file);
    std::string_view rest = name;
    if (!take_text(rest, before) || !take_text(rest, "part")) continue;
    const auto part = take_number(rest);
    if (part && rest == after) found.emplace(*part, file);
  }
  std::vector<std::string> files;
  files.reserve(found.size() + 1);
  for (auto& [part, file] : found) files.push_back(std::move(file));
  std::error_code error;
  if (fs::exists(own_path, error)) files.push_back(own_path);
  return files;
}

std::vector<WorkerTracePath> find_worker_traces(const std::string& path) {
  const auto [before, after] = surroundings(path);
  std::vector<WorkerTracePath> found;
  for (const std::string& file : files_beside(path)) {
    const std::string name = name_of(file);
    std::string_view rest = name;
    if (!take_text(rest, before) || !take_text(rest, "worker")) continue;
    const auto worker = take_number(rest);
    if (!worker || !take_text(rest, ".epoch")) continue;
    const auto epoch = take_number(rest);
    if (epoch && rest == after) found.push_back({*worker, *epoch, file});
  }
  std::ranges::sort(found, {}, [](const WorkerTracePath& trace) {
    return std::tuple(trace.worker, trace.epoch);
  });
  return found;
}

void make_folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty()) fs::create_directories(folder, ignored);
}

}  // namespace ronde
