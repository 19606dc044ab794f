#include "bindings/elastic/checkpoint_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

#include "core/base/bytes.h"
#include "core/base/join_text.h"
#include "core/base/json.h"
#include "core/base/os/file_descriptor.h"

namespace ronde::elastic {
namespace {

namespace fs = std::filesystem;
using Sums = std::map<std::string, std::string>;  // by files' names

constexpr const char* kSums = "ronde.json";
constexpr std::string_view kDamaged = ".damaged";
constexpr std::size_t kLongestHeader = 200;
constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::size_t kMostNamed = 4;

/// A system call's result. Throws std::system_error for -1.
int checked(int result) {
  if (result < 0) throw std::system_error(errno, std::generic_category());
  return result;
}

std::string reason(const std::exception& error) {
  const auto* const known = dynamic_cast<const std::system_error*>(&error);
  return known == nullptr ? error.what() : known->code().message();
}

/// A SHA-256.
class Digest {
 public:
  Digest() { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void add(std::span<const std::byte> bytes) {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), bytes.data(), &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free};
};

/// Reads throw std::system_error.
std::ifstream opened(const fs::path& path) {
  std::ifstream file;
  file.exceptions(std::ios::badbit);
  file.open(path, std::ios::binary);
  checked(file.is_open() ? 0 : -1);
  return file;
}

/// Of what is left of a file.
std::string digest_of(std::ifstream file) {
  Digest digest;
  std::string piece(kPieceBytes, '\0');
  while (file) {
    file.read(piece.data(), std::ssize(piece));
    digest.add(as_bytes(piece).first(static_cast<std::size_t>(file.gcount())));
  }
  return digest.hex();
}

/// The first line of a file.
struct Header {
  std::int64_t step = 0;
  std::size_t bytes = 0;  // of the state
  std::string digest;

  [[nodiscard]] std::string line() const {
    return fmt::format("ronde checkpoint 1 {} {} {}\n", step, bytes, digest);
  }
  /// That at the start of a text; nothing if there is none.
  static std::optional<Header> in(std::string_view text) {
    Header header;
    std::string word;
    std::istringstream words{std::string(text.substr(0, text.find('\n') + 1))};
    words >> word >> word >> word >> header.step >> header.bytes >> header.digest;
    return words.str() == header.line() ? std::optional(header) : std::nullopt;
  }
};

std::string problem_of_file(const fs::path& path, std::int64_t step) {
  std::ifstream file = opened(path);
  std::string start(kLongestHeader, '\0');
  file.read(start.data(), std::ssize(start));
  const auto header = Header::in(start);
  if (!header) return file.gcount() == 0 ? "it is empty" : "it does not begin as a checkpoint";
  if (header->step != step) return fmt::format("it holds step {}, not {}", header->step, step);
  const std::size_t begin = header->line().size();
  const std::size_t bytes = fs::file_size(path) - begin;
  if (bytes != header->bytes) {
    return fmt::format("it has {} bytes of state, not {}", bytes, header->bytes);
  }
  file.clear();
  file.seekg(static_cast<std::streamoff>(begin));
  const bool same = digest_of(std::move(file)) == header->digest;
  return same ? "" : "its checksum is not that of its content";
}

/// False for links to nowhere.
bool is_file(const fs::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) return S_ISREG(facts.st_mode);
  return errno == ENOENT || errno == ELOOP ? false : checked(-1) == 0;
}

std::string problem_of_folder(const fs::path& path, std::int64_t step) {
  std::int64_t written = step;
  Sums sums;
  try {
    std::ifstream list = is_file(path / kSums) ? opened(path / kSums) : std::ifstream();
    const Json facts = parse_json(std::string(std::istreambuf_iterator<char>(list), {}));
    written = facts.value("step", step);
    facts.at("sha256").get_to(sums);
  } catch (const Json::exception&) {
    return fmt::format("its {} is missing or damaged", kSums);
  }
  if (written != step) return fmt::format("it holds step {}, not {}", written, step);
  for (const auto& [name, digest] : sums) {
    if (!is_file(path / name)) return fmt::format("its file {} is missing", name);
    if (digest_of(opened(path / name)) != digest) {
      return fmt::format("the checksum of {} is not that of its content", name);
    }
  }
  return sums.empty() ? fmt::format("its {} names no files", kSums) : "";
}

/// Says why this is no whole checkpoint of this step; empty for one that is. Throws
/// std::system_error if it cannot be found out.
std::string problem_of(const fs::path& path, std::int64_t step) {
  std::error_code error;
  if (fs::is_directory(path, error)) return problem_of_folder(path, step);
  return is_file(path) ? problem_of_file(path, step) : "it is no file";
}

/// Ascending; nothing of folders that cannot be read.
std::vector<fs::path> listed(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// Makes a file or folder survive a loss of power.
void flush(const fs::path& path) {
  const FileDescriptor file(checked(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  checked(::fsync(file.get()));
}

/// False if its writer lives. Some file systems have no locks: their parts are never stale.
bool lock(int file) { return ::flock(file, LOCK_EX | LOCK_NB) == 0; }

/// A folder for what is not whole yet. It goes with its owner.
class Part {
 public:
  explicit Part(const fs::path& whole) {
    std::string name = whole.parent_path() / fmt::format(".{}.XXXXXX", whole.filename().string());
    if (::mkdtemp(name.data()) == nullptr) checked(-1);
    path_ = name;
    lock_.reset(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    (void)lock(lock_.get());
  }
  ~Part() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  FileDescriptor lock_;
};

void write_file(const fs::path& path, mode_t mode, std::string_view text) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  const FileDescriptor file(checked(::open(path.c_str(), flags, mode)));
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0) checked(-1);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Lists the files of a folder, with their checksums.
void write_sums(const fs::path& folder, std::int64_t step) {
  Sums sums;
  for (const fs::path& file : listed(folder)) {
    sums[file.filename().string()] = digest_of(opened(file));
  }
  write_file(folder / kSums, 0644, print_json({{"version", 1}, {"step", step}, {"sha256", sums}}));
}

/// Moves a folder into a part: what is left of it then is no checkpoint.
void move_away(const fs::path& folder, const Part& part) {
  std::error_code error;
  if (fs::is_directory(folder, error)) fs::rename(folder, part.path() / "old");
}

/// Gives what a part has its name. Ranks whose launcher is gone write the same step at once: the
/// first one's folder stays.
void publish(const fs::path& made, const fs::path& path, const Part& part) {
  for (const fs::path& file : listed(made)) flush(file);
  flush(made);
  move_away(path, part);
  if (::rename(made.c_str(), path.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST) {
    checked(-1);
  }
  flush(path.parent_path());
}

/// The first free name for a damaged file.
fs::path name_aside(const fs::path& path) {
  fs::path aside = path.string() + std::string(kDamaged);
  for (int number = 2; is_there(aside); ++number) {
    aside = fmt::format("{}{}.{}", path.string(), kDamaged, number);
  }
  return aside;
}

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

/// The step in a file's name; the greatest for numbers that are too large.
std::optional<std::int64_t> CheckpointFiles::step_in(const std::string& name) const {
  const std::string prefix = path_.filename().string() + ".";
  for (const std::string& suffix : suffixes_) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    if (name.size() < prefix.size() + suffix.size()) continue;
    const auto digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (!are_digits(digits)) continue;
    std::int64_t step = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), step);
    return read.ec == std::errc() ? step : std::numeric_limits<std::int64_t>::max();
  }
  return std::nullopt;
}

/// The newest first.
std::vector<CheckpointFiles::File> CheckpointFiles::files() const {
  std::vector<File> found;
  for (const Path& path : listed(path_.parent_path())) {
    if (const auto step = step_in(path.filename().string())) found.emplace_back(*step, path);
  }
  std::ranges::sort(found, std::greater());
  return found;
}

std::int64_t CheckpointFiles::newest_step() {
  const std::vector<File> all = files();
  const auto whole = std::ranges::find_if(all, [&](const File& file) { return is_whole(file); });
  return whole == all.end() ? 0 : whole->first;
}

std::vector<CheckpointFiles::Path> CheckpointFiles::damaged() {
  for (const File& file : files()) (void)is_whole(file);
  std::vector<Path> found;
  for (const Path& path : listed(path_.parent_path())) {
    const std::string name = path.filename().string();
    if (step_in(name.substr(0, name.rfind(kDamaged))) && !whole_.contains(path)) {
      found.push_back(path);
    }
  }
  return found;
}

void CheckpointFiles::tell(StartFacts& facts) {
  facts.checkpoint = newest_step();
  facts.damaged = facts.checkpoint == 0 && !damaged().empty();
  facts.needs_whole = needs_whole_;
}

std::optional<CheckpointFiles::Path> CheckpointFiles::whole(std::int64_t step) {
  for (const File& file : files()) {
    if (file.first == step && is_whole(file)) return file.second;
  }
  return std::nullopt;
}

Result<std::string> CheckpointFiles::read(std::int64_t step) {
  const auto path = whole(step);
  if (!path) return Status(Code::kUnavailable, "it cannot be read");
  try {
    std::ifstream file = opened(*path);
    std::string contents;
    std::getline(file, contents);
    contents.resize(fs::file_size(*path) - contents.size() - 1);
    file.read(contents.data(), std::ssize(contents));
    return contents;
  } catch (const std::system_error& error) {
    return Status(Code::kUnavailable, reason(error));
  }
}

std::optional<CheckpointFiles::Signature> CheckpointFiles::signature_of(const Path& path) {
  std::error_code error;
  std::vector<Path> parts = {path};
  if (fs::is_directory(path, error)) std::ranges::copy(listed(path), std::back_inserter(parts));
  Signature signature;
  for (const Path& part : parts) {
    struct stat facts {};
    if (::stat(part.c_str(), &facts) != 0) return std::nullopt;
    const std::int64_t changed = facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec;
    signature.push_back({static_cast<std::int64_t>(facts.st_ino), facts.st_size, changed});
  }
  return signature;
}

/// Checks a file once, and again when it has changed.
bool CheckpointFiles::is_whole(const File& file) {
  const auto& [step, path] = file;
  const auto known = signature_of(path);
  const auto before = whole_.find(path);
  if (known && before != whole_.end() && before->second == *known) return true;
  whole_.erase(path);
  try {
    const std::string problem = problem_of(path, step);
    if (!problem.empty()) {
      set_aside(path, problem);
      return false;
    }
  } catch (const std::system_error& error) {
    note_unused(path, fmt::format("cannot be read: {}; it is not used", reason(error)));
    return false;
  }
  if (known) whole_[path] = *known;
  return true;
}

/// The rank that renames the file says so; others find it gone.
void CheckpointFiles::set_aside(const Path& path, const std::string& why) {
  const Path aside = name_aside(path);
  std::error_code error;
  fs::rename(path, aside, error);
  if (!error) {
    note(fmt::format("the checkpoint {} is damaged: {}. It is not used, and set aside as {}",
                     path.string(), why, aside.filename().string()));
    return;
  }
  note_unused(path, fmt::format("is damaged: {}. It is not used, but cannot be set aside: {}", why,
                                error.message()));
}

void CheckpointFiles::note_unused(const Path& path, const std::string& why) {
  if (!is_there(path) || !unused_.insert(path).second) return;
  note(fmt::format("the checkpoint {} {}", path.string(), why), true);
}

void CheckpointFiles::note(std::string text, bool of_host) {
  const MutexLock lock(mutex_);
  problems_.push_back({std::move(text), of_host});
}

std::vector<std::string> CheckpointFiles::take_problems(bool first_on_host) {
  const MutexLock lock(mutex_);
  std::vector<std::string> texts;
  for (Problem& problem : problems_) {
    if (first_on_host || !problem.of_host) texts.push_back(std::move(problem.text));
  }
  problems_.clear();
  return texts;
}

CheckpointFiles::Path CheckpointFiles::new_file(std::int64_t step) const {
  return fmt::format("{}.{:012}{}", path_.string(), step, suffixes_[0]);
}

void CheckpointFiles::note_unwritten(std::int64_t step, const std::string& why) {
  note(fmt::format("cannot write the checkpoint {}: {}", new_file(step).string(), why));
}

void CheckpointFiles::write(std::int64_t step, std::span<const std::byte> contents) {
  write_part(step, [&](const Path& file) {
    Digest digest;
    digest.add(contents);
    write_file(file, 0600, Header{step, contents.size(), digest.hex()}.line());
    write_file(file, 0600, as_text(contents));
  });
}

void CheckpointFiles::write_later(std::int64_t step, std::string contents) {
  wait();
  writer_ = std::thread(
      [this, step, contents = std::move(contents)] { write(step, as_bytes(contents)); });
}

void CheckpointFiles::wait() {
  if (writer_.joinable()) writer_.join();
}

void CheckpointFiles::write_folder(std::int64_t step, const Fill& fill) {
  write_part(step, [&](const Path& folder) {
    fs::create_directory(folder);
    fill(folder);
    write_sums(folder, step);
  });
}

/// A damaged file of this step gives its name up; a whole one is replaced.
void CheckpointFiles::write_part(std::int64_t step, const Fill& fill) {
  const Path path = new_file(step);
  try {
    fs::create_directories(path.parent_path());
    remove_stale_parts();
    if (is_there(path)) (void)is_whole({step, path});
    const Part part(path);
    fill(part.path() / "new");
    publish(part.path() / "new", path, part);
  } catch (const std::exception& error) {
    return note_unwritten(step, reason(error));
  }
  if (const auto known = signature_of(path)) whole_[path] = *known;
  try {
    remove_older(step);
  } catch (const std::exception& error) {
    note(fmt::format("cannot remove the checkpoints before {}: {}", path.string(), reason(error)));
  }
}

/// Those of writers that were killed.
void CheckpointFiles::remove_stale_parts() const {
  for (const Path& path : listed(path_.parent_path())) {
    const std::string name = path.filename().string();
    const std::size_t end = name.rfind('.');
    if (name[0] != '.' || end == 0 || !step_in(name.substr(1, end - 1))) continue;
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.valid() && lock(file.get())) fs::remove_all(path);
  }
}

/// Keeps the newest whole files up to this step. Later ones are of another training.
void CheckpointFiles::remove_older(std::int64_t step) {
  int kept = 0;
  std::vector<std::string> later;
  for (const File& file : files()) {
    const auto& [number, path] = file;
    if (!is_whole(file)) continue;
    if (number > step) {
      later.push_back(path.filename().string());
    } else if (++kept > keep_) {
      move_away(path, Part(path));
      fs::remove(path);
      whole_.erase(path);
    }
  }
  if (later.empty() || std::exchange(told_later_, true)) return;
  later.resize(std::min(later.size(), kMostNamed));
  note(fmt::format(
      "checkpoints of later steps than {} are there: {}. A job that starts again goes on from the "
      "newest of them",
      step, join_text(later, ", ")));
}

}  // namespace ronde::elastic
