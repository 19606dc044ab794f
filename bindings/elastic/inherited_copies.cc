#include "bindings/elastic/inherited_copies.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <utility>

#include "bindings/descriptors/passed.h"
#include "bindings/runtime/groups/runtime_state.h"
#include "core/base/log.h"
#include "core/base/settings/setting_kinds.h"

namespace ronde::elastic {
namespace {

/// Takes the descriptor only if it is a copy's: this process may have closed it, and opened others.
void adopt_inherited(CommitStore& store, int copy, int file) {
  FileDescriptor own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (own.valid() && store.adopt(copy, std::move(own)).ok()) ::close(file);
}

/// Leaves the copy out where the agent does not give it.
void take_copy(CommitStore& store, int copy) {
  const char* const variable = kCopyVariables.at(static_cast<std::size_t>(copy));
  const auto file = parse_integer(process_environment()(variable).value_or(""), 0,
                                  std::numeric_limits<int>::max());
  if (!file) return;
  auto passed = take_passed(variable, static_cast<int>(*file));
  if (!passed.ok()) return log_line(LogLevel::kWarning, passed.status().message());
  if (*passed) return (void)store.adopt(copy, std::move(**passed));
  adopt_inherited(store, copy, static_cast<int>(*file));
}

}  // namespace

CommitStore take_inherited_copies(const Member* member) {
  static std::atomic<bool> taken = false;
  CommitStore store;
  if (member == nullptr || taken.exchange(true)) return store;
  for (const int copy : {0, 1}) take_copy(store, copy);
  return store;
}

Status share_copies(CommitStore& store, Member& member) {
  return store.set_file_hook(
      [&member](int copy, int file) { return member.send_copy(copy, file); });
}

}  // namespace ronde::elastic
