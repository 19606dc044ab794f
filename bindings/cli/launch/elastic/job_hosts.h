// The hosts of an elastic job, as they were last listed.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/launch/hosts.h"
#include "core/elastic/director.h"

namespace ronde {

/// "node1:4, node2:2"; "none".
std::string hosts_text(const std::vector<HostSlots>& hosts);

/// Knows the hosts' slots, and if they suffice to start. Threads: one.
class JobHosts {
 public:
  /// `start_slots`: the job starts once its hosts have so many.
  explicit JobHosts(int start_slots) : start_slots_(start_slots) {}

  /// A new list.
  struct Update {
    bool news = false;  ///< The director should get the list.
    std::string text;   ///< For people; may be empty.
  };
  Update set(std::vector<HostSlots> hosts);

  /// The list as the director takes it.
  [[nodiscard]] std::vector<elastic::HostPlaces> places() const;
  [[nodiscard]] bool lists(const std::string& host) const { return slots(host) > 0; }
  /// 0 for a host that is not listed.
  [[nodiscard]] int slots(const std::string& host) const;
  /// " on node2" where there are several hosts.
  [[nodiscard]] std::string where(const std::string& host) const {
    return several() ? " on " + host : "";
  }
  [[nodiscard]] bool several() const noexcept { return hosts_.size() > 1; }
  [[nodiscard]] bool started() const noexcept { return started_; }

 private:
  const int start_slots_;
  std::vector<HostSlots> hosts_;
  bool started_ = false;
};

}  // namespace ronde
