#include "bindings/runtime/diagnosis/rank_query.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <tuple>
#include <utility>

#include "bindings/runtime/diagnosis/stacks.h"
#include "core/base/join_text.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"

namespace ronde::diagnosis {
namespace {

constexpr unsigned long kListens = 0x10000;  // a flag in /proc/net/unix
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

/// A query of one process.
struct Question {
  std::string name;  ///< Of its socket.
  std::string answer = {};
  FileDescriptor fd = {};
  bool asked = false;
  bool over = false;
  bool foreign = false;
};

FileDescriptor connect_to(const std::string& name) {
  const Endpoint endpoint = abstract_endpoint(name);
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool connected = fd.valid() && ::connect(fd.get(), endpoint.raw(), endpoint.length) == 0;
  return connected ? std::move(fd) : FileDescriptor();
}

/// Connects and sends the query. Tries again if the socket's queue is full.
void ask(Question& question, std::string_view request) {
  question.fd = connect_to(question.name);
  if (!question.fd.valid()) {
    question.over = errno != EAGAIN;
    return;
  }
  question.foreign = !is_same_user(question.fd.get());
  question.over = question.foreign;
  question.asked = ::send(question.fd.get(), request.data(), request.size(), MSG_NOSIGNAL) ==
                   ssize_t(request.size());
}

void receive(Question& question) {
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t got = ::recv(question.fd.get(), buffer.data(), buffer.size(), 0);
  if (got > 0) question.answer.append(buffer.data(), static_cast<std::size_t>(got));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  question.over = got <= 0 || question.answer.size() > kMostBytes;
}

/// Reads answers that have arrived; true if some are still missing.
bool turn(std::vector<Question>& questions, std::string_view request) {
  std::vector<pollfd> polled;
  bool queued = false;
  for (Question& question : questions) {
    if (!question.over && !question.asked) ask(question, request);
    if (!question.over && question.asked) polled.push_back({question.fd.get(), POLLIN, 0});
    queued |= !question.over && !question.asked;
  }
  if (polled.empty() && !queued) return false;
  constexpr int kWaitMs = 20;
  (void)::poll(polled.data(), polled.size(), kWaitMs);
  for (Question& question : questions) {
    if (!question.over && question.asked) receive(question);
  }
  return true;
}

std::string why_silent(int pid) {
  const std::string state = thread_state(pid, pid);
  if (is_stopped(pid)) return fmt::format("is frozen: {}", state);
  return fmt::format("does not answer; its main thread: {}", state);
}

RankAnswer concluded(const DiagnosticsAddress& who, std::string text) {
  RankAnswer answer{.who = who, .text = std::move(text), .dump = {}, .silence = {}};
  auto dumps = read_dumps(answer.text);
  if (dumps.ok() && !dumps->empty()) {
    answer.dump = std::move(dumps->back());
  } else {
    answer.silence = why_silent(answer.who.pid);
  }
  return answer;
}

/// The abstract name at the end of a line of /proc/net/unix, if the socket listens.
std::optional<std::string> listening_name(const std::string& line) {
  std::istringstream fields(line);
  std::string slot, references, protocol, flags, type, state, inode, name;
  fields >> slot >> references >> protocol >> flags >> type >> state >> inode >> name;
  if (name.empty() || name[0] != '@') return std::nullopt;
  unsigned long bits = 0;
  std::from_chars(flags.data(), flags.data() + flags.size(), bits, 16);
  return (bits & kListens) != 0 ? std::optional(name.substr(1)) : std::nullopt;
}

/// True if a raw group's name has the rank: "group of ranks 0,1". The rank may have run no call
/// yet.
bool is_in_group(std::string_view name, int rank) {
  constexpr std::string_view kBeginning = "group of ranks ";
  if (!name.starts_with(kBeginning)) return false;
  const std::string members = fmt::format(",{},", name.substr(kBeginning.size()));
  return members.find(fmt::format(",{},", rank)) != std::string::npos;
}

/// True if the rank keeps others in the operation waiting.
bool holds_up(const Dump& dump, const Awaited& awaited) {
  const DumpOperation& wanted = *awaited.operation;
  if (wanted.agreed_ns == 0) {
    const bool member = takes_part(dump, wanted.set) || is_in_group(wanted.name, dump.rank);
    return member && !has_submitted(dump, awaited);
  }
  return std::ranges::any_of(dump.operations, [&](const auto& own) {
    return own.set == wanted.set && own.name == wanted.name && !own.done() && own.started_ns == 0;
  });
}

/// The rank's thread that a debugger or a signal keeps from running; null if none is.
const DumpThread* stopped_thread(const Dump& dump) {
  const auto found = std::ranges::find_if(dump.threads, [](const DumpThread& thread) {
    return thread.state.starts_with('t') || thread.state.starts_with('T');
  });
  return found == dump.threads.end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> listening_names() {
  std::vector<std::string> names;
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    if (auto name = listening_name(line)) names.push_back(std::move(*name));
  }
  return names;
}

std::vector<DiagnosticsAddress> find_ranks() {
  std::vector<DiagnosticsAddress> ranks;
  for (const std::string& name : listening_names()) {
    if (auto rank = DiagnosticsAddress::parse(name)) ranks.push_back(std::move(*rank));
  }
  std::ranges::sort(ranks, {}, [](const DiagnosticsAddress& one) {
    return std::tie(one.job, one.rank, one.pid);
  });
  return ranks;
}

std::vector<std::optional<std::string>> ask_sockets(const std::vector<std::string>& names,
                                                    std::string_view request, TimePoint deadline,
                                                    const std::stop_token& stop) {
  std::vector<Question> questions;
  for (const std::string& name : names) questions.push_back({name});
  while (now() < deadline && !stop.stop_requested() && turn(questions, request)) {
  }
  std::vector<std::optional<std::string>> answers;
  for (Question& question : questions) {
    answers.push_back(question.foreign ? std::nullopt : std::optional(std::move(question.answer)));
  }
  return answers;
}

std::vector<RankAnswer> ask_ranks(const std::vector<DiagnosticsAddress>& ranks,
                                  std::string_view request, TimePoint deadline,
                                  const std::stop_token& stop) {
  std::vector<std::string> names;
  for (const DiagnosticsAddress& rank : ranks) names.push_back(rank.text());
  auto texts = ask_sockets(names, request, deadline, stop);
  std::vector<RankAnswer> answers;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (texts[i]) answers.push_back(concluded(ranks[i], std::move(*texts[i])));
  }
  return answers;
}

std::string awaited_ranks(const Awaited& awaited, const std::vector<RankAnswer>& answers) {
  if (awaited.operation->name.empty()) return {};
  std::vector<std::string> ranks;
  for (const RankAnswer& answer : answers) {
    if (!answer.dump) {
      ranks.push_back(fmt::format("rank {}, which {}", answer.who.rank, answer.silence));
    } else if (const DumpThread* thread = stopped_thread(*answer.dump)) {
      ranks.push_back(fmt::format("rank {}, whose thread \"{}\" is stopped: {}", answer.who.rank,
                                  thread->name, thread->state));
    } else if (holds_up(*answer.dump, awaited)) {
      const auto& script = answer.dump->script;
      ranks.push_back(script.empty()
                          ? fmt::format("rank {}", answer.who.rank)
                          : fmt::format("rank {} ({})", answer.who.rank, script.front().line));
    }
  }
  return join_text(ranks, ", ");
}

}  // namespace ronde::diagnosis
