#include "bindings/cli/launch/mpirun.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "bindings/cli/launch/process.h"
#include "core/base/join_text.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

/// The hosts with a slot for each rank; nothing where all ranks are on this host.
Words host_words(const std::vector<HostRanks>& hosts, MpirunKind kind) {
  if (hosts.size() == 1 && hosts.front().name.empty()) return {};
  Words entries;
  for (const HostRanks& host : hosts) {
    entries.push_back(
        fmt::format("{}:{}", host.name.empty() ? host_name() : host.name, host.ranks));
  }
  return {kind == MpirunKind::kMpich ? "-hosts" : "-H", join_text(entries, ",")};
}

/// The options for ssh, in one word; empty if there are none.
Result<std::string> ssh_arguments(const SshOptions& ssh) {
  if (!ssh.shell.empty()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--remote-shell {}: mpirun starts ranks by ssh alone", ssh.shell));
  }
  Words arguments;
  if (ssh.port != 0) append(arguments, {"-p", fmt::to_string(ssh.port)});
  if (!ssh.identity_file.empty()) append(arguments, {"-i", ssh.identity_file});
  for (const std::string& option : ssh.options) append(arguments, {"-o", option});
  for (const std::string& word : arguments) {
    if (word.find(' ') == std::string::npos) continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("\"{}\": mpirun hands ssh no word with a blank in it", word));
  }
  return join_text(arguments, " ");
}

/// How mpirun reaches the other hosts.
Words network_words(const MpirunSpec& spec, const std::string& ssh) {
  const bool mpich = spec.kind == MpirunKind::kMpich;
  Words words;
  if (!ssh.empty() && !mpich) append(words, {"--mca", "plm_rsh_args", ssh});
  if (spec.network_interface.empty()) return words;
  if (mpich) return {"-iface", listed_interfaces(spec.network_interface).front()};
  for (const char* layer : {"oob_tcp_if_include", "btl_tcp_if_include"}) {
    append(words, {"--mca", layer, spec.network_interface});
  }
  return words;
}

Words tag_words(MpirunKind kind) {
  if (kind == MpirunKind::kMpich) return {"-prepend-pattern", "[1,%r]<stdout>:"};
  return {"--tag-output"};
}

/// The start and the end of a whole tag, or nothing where `text` holds none.
struct Tag {
  std::size_t begin = 0;
  std::size_t end = 0;
  int rank = 0;
};

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return at;
}

/// Reads "[1,0]<stdout>:" and `after` at `begin`. Nothing where it is something else; a tag whose
/// end is npos where the text ends before that can be told.
std::optional<Tag> tag_at(std::string_view text, std::size_t begin, std::string_view after) {
  constexpr Tag kCut{0, std::string_view::npos, 0};
  std::size_t at = skip_digits(text, begin + 1);
  if (at == text.size()) return kCut;
  if (text[at] != ',') return std::nullopt;
  const std::size_t digits = at + 1;
  at = skip_digits(text, digits);
  if (at == text.size()) return kCut;
  if (at == digits || at > digits + 9) return std::nullopt;
  const int rank = std::stoi(std::string(text.substr(digits, at - digits)));
  for (const char* stream : {"]<stdout>:", "]<stderr>:"}) {
    const std::string tail = fmt::format("{}{}", stream, after);
    const std::string_view rest = text.substr(at, tail.size());
    if (rest == tail) return Tag{begin, at + tail.size(), rank};
    if (at + rest.size() == text.size() && std::string_view(tail).starts_with(rest)) return kCut;
  }
  return std::nullopt;
}

/// The first tag in `text`; one that is cut off has the end npos.
std::optional<Tag> find_tag(std::string_view text, std::string_view after) {
  for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at + 1)) {
    if (auto tag = tag_at(text, at, after)) {
      tag->begin = at;
      return tag;
    }
  }
  return std::nullopt;
}

void copy_variable(const char* from, const char* to) {
  const char* value = std::getenv(from);         // NOLINT(concurrency-mt-unsafe)
  if (value != nullptr) ::setenv(to, value, 1);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

MpirunKind mpirun_kind_of(std::string_view version) {
  if (version.find("HYDRA") != std::string_view::npos) return MpirunKind::kMpich;
  constexpr std::string_view kOpenMpi = "(Open MPI) ";
  const std::size_t at = version.find(kOpenMpi);
  if (at == std::string_view::npos) return MpirunKind::kOpenMpi4;
  const std::string number(version.substr(at + kOpenMpi.size(), 4));
  return std::strtol(number.c_str(), nullptr, 10) < 5 ? MpirunKind::kOpenMpi4
                                                      : MpirunKind::kOpenMpi5;
}

Result<MpirunKind> installed_mpirun() {
  const auto version = run_command({"mpirun", "--version"});
  if (version.ok()) return mpirun_kind_of(version->output);
  return Status(Code::kUnavailable,
                version.status().message() +
                    ", which starts ranks that use MPI: install Open MPI or MPICH "
                    "(openmpi-bin in Debian and Ubuntu)");
}

Words plain_mpirun(MpirunKind kind) {
  if (kind == MpirunKind::kMpich) return {"mpirun", "-bind-to", "none"};
  Words words = {"mpirun", "--oversubscribe", "--bind-to", "none"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  return words;
}

Result<EnvironmentList> mpirun_environment(const MpirunSpec& spec) {
  RONDE_ASSIGN_OR_RETURN(const std::string ssh, ssh_arguments(spec.ssh));
  if (ssh.empty() || spec.kind != MpirunKind::kMpich) return EnvironmentList();
  return EnvironmentList{"HYDRA_LAUNCHER_EXTRA_ARGS=" + ssh};
}

Result<Words> mpirun_command(const MpirunSpec& spec) {
  int ranks = 0;
  for (const HostRanks& host : spec.hosts) ranks += host.ranks;
  RONDE_ASSIGN_OR_RETURN(const std::string ssh, ssh_arguments(spec.ssh));
  Words words = plain_mpirun(spec.kind);
  append(words, tag_words(spec.kind));
  append(words, network_words(spec, ssh));
  append(words, spec.arguments);
  append(words, {"-np", fmt::to_string(ranks)});
  append(words, host_words(spec.hosts, spec.kind));
  if (spec.kind != MpirunKind::kMpich) {  // which hands over all variables
    for (const std::string& name : spec.variables) append(words, {"-x", name});
  }
  append(words, {spec.ssh.remote_program, "run-mpi-rank"});
  append(words, spec.command);
  return words;
}

int run_mpi_rank(const Words& command) {
  copy_variable("OMPI_COMM_WORLD_RANK", "RANK");
  copy_variable("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE");
  copy_variable("OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK");
  copy_variable("OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE");
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    copy_variable("PMI_RANK", "RANK");
    copy_variable("PMI_SIZE", "WORLD_SIZE");
    copy_variable("MPI_LOCALRANKID", "LOCAL_RANK");
    copy_variable("MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE");
  }
  const StartFailure failure = become(command);
  fmt::print(stderr, "ronde run: {}\n", failure.text);
  return failure.exit_status;
}

std::vector<TaggedOutput::Piece> TaggedOutput::feed(std::string_view bytes) {
  std::vector<Piece> pieces;
  // Text up to `end` belongs to the last tag, and after a line's end to mpirun itself.
  const auto take = [&](std::size_t end) {
    while (end > 0) {
      const std::size_t line = pending_.find('\n');
      const std::size_t count = line < end ? line + 1 : end;
      pieces.push_back({rank_, pending_.substr(0, count)});
      if (line < end) rank_ = kMpirun;
      pending_.erase(0, count);
      end -= count;
    }
  };
  const std::string_view after = kind_ == MpirunKind::kOpenMpi5 ? " " : "";
  pending_ += bytes;
  while (const auto tag = find_tag(pending_, after)) {
    take(tag->begin);
    if (tag->end == std::string_view::npos) return pieces;
    rank_ = tag->rank;
    pending_.erase(0, tag->end - tag->begin);
  }
  take(pending_.size());
  return pieces;
}

}  // namespace ronde
