#include "bindings/cpp/elastic_checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>

#include "bindings/cpp/internal.h"
#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/base/os/file_descriptor.h"

namespace ronde::elastic {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".state";
constexpr std::string_view kDamaged = ".damaged";

void warn(const std::string& line) { log_line(LogLevel::kWarning, line); }

std::string header(std::int64_t step, std::string_view contents) {
  return fmt::format("ronde state 1 {} {} {:016x}\n", step, contents.size(),
                     hash64(as_bytes(contents)));
}

/// The whole file. Throws Error if it cannot be read.
std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    throw Error(Code::kUnavailable, fmt::format("{} cannot be read", path.string()));
  }
  return text;
}

/// The contents of a step's file; throws Error where it is not whole.
std::string contents_of(const fs::path& path, std::int64_t step) {
  std::string text = text_of(path);
  const std::size_t begin = text.find('\n') + 1;
  const std::string_view contents = std::string_view(text).substr(begin);
  if (begin == 0 || text.compare(0, begin, header(step, contents)) != 0) {
    throw Error(Code::kMismatch, "its size or checksum is not that of its first line");
  }
  return text.erase(0, begin);
}

/// The files beside `path` whose names begin and end so.
std::vector<fs::path> in_folder_of(const fs::path& path, const std::string& prefix,
                                   std::string_view suffix) {
  std::vector<fs::path> found;
  std::error_code error;  // there is no such folder yet
  for (const auto& entry : fs::directory_iterator(path.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    const bool long_enough = name.size() >= prefix.size() + suffix.size();
    if (long_enough && name.starts_with(prefix) && name.ends_with(suffix)) {
      found.push_back(entry.path());
    }
  }
  return found;
}

/// Sets a damaged file aside. The rank that renames it says so; others find it gone.
void reject(const fs::path& path, const Error& error) {
  if (error.code() != Code::kMismatch) {
    return warn(fmt::format("the checkpoint {}; it is not used", error.what()));
  }
  const std::string text =
      fmt::format("the checkpoint {} is damaged: {}. It is not used", path.string(), error.what());
  std::error_code failure;
  std::error_code gone;
  fs::rename(path, path.string() + std::string(kDamaged), failure);
  if (!failure) {
    warn(fmt::format("{}, and set aside as {}{}", text, path.filename().string(), kDamaged));
  } else if (fs::exists(path, gone)) {
    warn(fmt::format("{}, but cannot be set aside: {}", text, failure.message()));
  }
}

/// Lets the disk have it, also after a loss of power.
void flush(int file) {
  if (::fsync(file) != 0) throw_if_error(errno_status("fsync"));
}

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0) throw_if_error(errno_status("write"));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

FileDescriptor opened(const fs::path& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!file.valid()) throw_if_error(errno_status("open"));
  return file;
}

}  // namespace

Checkpoints::Checkpoints(const std::string& path, CheckpointOptions options)
    : path_(fs::absolute(path)), options_(options) {
  if (path_.filename().empty()) {
    throw InvalidArgument(fmt::format("checkpoint(\"{}\"): the path has no name", path));
  }
  if (options.every < 1 || options.keep < 1) {
    throw InvalidArgument(fmt::format("checkpoint(): every={}, keep={}; allowed: numbers from 1",
                                      options.every, options.keep));
  }
}

Checkpoints::~Checkpoints() { wait(); }

void Checkpoints::tell(StartFacts& facts) {
  wait();
  for (const File& file : files()) {
    if (is_whole(file)) facts.checkpoint = std::max(facts.checkpoint, file.first);
  }
  facts.damaged = facts.checkpoint == 0 && any_damaged();
  facts.needs_whole = options_.needs_whole;
}

/// (step, file) of all of them, the newest first.
std::vector<Checkpoints::File> Checkpoints::files() const {
  std::vector<File> found;
  const std::string prefix = path_.filename().string() + ".";
  for (const fs::path& path : in_folder_of(path_, prefix, kSuffix)) {
    const std::string name = path.filename().string();
    const char* const end = name.data() + name.size() - kSuffix.size();
    std::int64_t step = 0;
    const auto [stop, failure] = std::from_chars(name.data() + prefix.size(), end, step);
    if (failure == std::errc() && stop == end) found.emplace_back(step, path);
  }
  std::ranges::sort(found, std::greater());
  return found;
}

/// True for files that were set aside, and for any that cannot be.
bool Checkpoints::any_damaged() const {
  const std::string aside = std::string(kSuffix) + std::string(kDamaged);
  return !files().empty() || !in_folder_of(path_, path_.filename().string() + ".", aside).empty();
}

bool Checkpoints::is_whole(const File& file) {
  const auto& [step, path] = file;
  if (whole_.contains(step)) return true;
  try {
    (void)contents_of(path, step);
    whole_.insert(step);
    return true;
  } catch (const Error& error) {
    std::error_code gone;
    if (fs::exists(path, gone)) reject(path, error);
    return false;
  }
}

std::string Checkpoints::read(std::int64_t step) const { return contents_of(file_of(step), step); }

fs::path Checkpoints::file_of(std::int64_t step) const {
  return fmt::format("{}.{:012}{}", path_.string(), step, kSuffix);
}

void Checkpoints::write(std::int64_t step, std::string contents) {
  wait();
  if (whole_.contains(step)) return;
  writer_ = std::thread([this, step, contents = std::move(contents)] {
    try {
      write_file(step, contents);
      remove_older(step);
    } catch (const std::exception& error) {
      problem_ =
          fmt::format("cannot write the checkpoint {}: {}", file_of(step).string(), error.what());
    }
  });
}

void Checkpoints::write_file(std::int64_t step, const std::string& contents) {
  const fs::path folder = path_.parent_path();
  fs::create_directories(folder);
  remove_stale_parts();
  const fs::path file = file_of(step);
  const fs::path part = folder / fmt::format(".{}.{}.part", path_.filename().string(), ::getpid());
  {
    const FileDescriptor written = opened(part, O_WRONLY | O_CREAT | O_TRUNC);
    (void)::flock(written.get(), LOCK_EX | LOCK_NB);  // its writer lives
    write_all(written.get(), header(step, contents));
    write_all(written.get(), contents);
    flush(written.get());
    fs::rename(part, file);
  }
  flush(opened(folder, O_RDONLY | O_DIRECTORY).get());
  whole_.insert(step);
}

/// Those of writers that were killed.
void Checkpoints::remove_stale_parts() const {
  for (const fs::path& part : in_folder_of(path_, "." + path_.filename().string() + ".", ".part")) {
    const FileDescriptor file(::open(part.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) fs::remove(part);
  }
}

/// Keeps the newest whole files up to this step. Later ones are of another training.
void Checkpoints::remove_older(std::int64_t step) {
  int kept = 0;
  for (const File& file : files()) {
    if (file.first > step || !is_whole(file) || ++kept <= options_.keep) continue;
    fs::remove(file.second);
    whole_.erase(file.first);
  }
}

void Checkpoints::wait() {
  if (writer_.joinable()) writer_.join();
  if (const std::string problem = std::exchange(problem_, {}); !problem.empty()) warn(problem);
}

void Checkpoints::begin_from_scratch(bool forbidden, bool says) {
  const std::string text = "no checkpoint is whole";
  if (forbidden) {
    throw JobFailed(text +
                    ", and the options forbid to begin from scratch: bring back a whole one, or "
                    "remove those that are damaged");
  }
  if (says) warn(text + ". Training begins from scratch");
}

}  // namespace ronde::elastic
