// The socket at which a rank answers `ronde doctor --job`: an abstract Unix socket of this host.
// Only this user gets an answer, and nothing that comes in is parsed: it is compared with one fixed
// word. Whoever knocks too often waits.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::diagnosis {

/// What a visitor must say; the door then sends a dump (timeline/dump.h) and hangs up.
inline constexpr std::string_view kDoorWord = "ronde-doctor-1\r\n";
/// How the names of these sockets begin, after the zero byte.
inline constexpr std::string_view kDoorPrefix = "ronde-doctor/";

/// A rank's door as its name tells it.
struct DoorName {
  int pid = 0;
  int number = 0;  ///< Tells the runtimes of one process apart.
  int rank = 0;
  int size = 1;
  std::string job;  ///< Its first 40 bytes; others than letters, digits and -_. become "_".

  /// "ronde-doctor/PID/NUMBER/RANK/SIZE/JOB".
  [[nodiscard]] std::string text() const;
  /// Reads text() back; nothing where it is another name.
  static std::optional<DoorName> parse(std::string_view text);
};

/// Threads: one.
class Door {
 public:
  /// Listens. Errors: kUnavailable.
  static Result<Door> open(const DoorName& name);

  /// Appends what to poll for.
  void gather(std::vector<pollfd>& into) const;
  /// When turn() has something to do at the latest, whatever poll() says.
  [[nodiscard]] TimePoint next_turn() const;
  /// Lets visitors in, hears them, answers with what `make` gives, sends them away. Blocks: never.
  void turn(TimePoint time, const std::function<std::shared_ptr<const std::string>()>& make);

 private:
  struct Visitor {
    FileDescriptor fd;
    TimePoint deadline;
    std::array<char, kDoorWord.size()> word{};
    std::size_t heard = 0;
    std::shared_ptr<const std::string> reply;  // null until the word has been said
    std::size_t sent = 0;
  };

  explicit Door(FileDescriptor listener) : listener_(std::move(listener)) {}
  void let_in(TimePoint time);
  void make_room();
  static bool hear(Visitor& visitor);
  static bool answer(Visitor& visitor);

  FileDescriptor listener_;
  std::list<Visitor> visitors_;
  TimePoint open_again_{};  // nobody is let in before
};

}  // namespace ronde::diagnosis
