#include "bindings/elastic/inherited_copies.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/runtime/runtime_state.h"

namespace ronde::elastic {
namespace {

/// -1 where the text is no number.
int number_in(std::string_view text) {
  int number = -1;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop == text.data() + text.size() ? number : -1;
}

/// Takes the descriptor only if it is a copy's: this process may have closed it, and opened others.
void adopt_inherited(CommitStore& store, int copy, int file) {
  FileDescriptor own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (own.valid() && store.adopt(copy, std::move(own)).ok()) ::close(file);
}

}  // namespace

CommitStore take_inherited_copies(const Member* member) {
  static std::atomic<bool> taken = false;
  CommitStore store;
  if (member == nullptr || taken.exchange(true)) return store;
  const std::string text = process_environment()(kCopiesVariable).value_or("");
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) return store;
  const std::string_view all = text;
  adopt_inherited(store, 0, number_in(all.substr(0, comma)));
  adopt_inherited(store, 1, number_in(all.substr(comma + 1)));
  return store;
}

Status share_copies(CommitStore& store, Member& member) {
  return store.set_file_hook(
      [&member](int copy, int file) { return member.send_copy(copy, file); });
}

}  // namespace ronde::elastic
