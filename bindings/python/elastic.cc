// Binds the worker's side of elastic jobs: its notes with the launcher, and its committed state.
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/elastic/member.h"
#include "bindings/python/bind.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

/// Raises NotInitializedError if this process has no launcher's descriptor.
elastic::Member& member() {
  elastic::Member* const found = unwrap(elastic::Member::of_process());
  if (found != nullptr) return *found;
  raise({Code::kNotInitialized,
         "this process is no worker of an elastic job: start it with ronde run --min-np"});
}

py::dict describe_answer(const elastic::DismissedNote& note) {
  py::dict answer;
  answer["dismissed"] = note.why;
  answer["failed"] = note.failed;
  return answer;
}

py::dict describe_answer(const elastic::EpochNote& note) {
  py::list workers;
  for (const elastic::EpochWorker& one : note.workers) {
    workers.append(py::make_tuple(one.worker, one.host, one.holds_state));
  }
  py::dict settings;
  for (const auto& [name, value] : unwrap(member().settings(note))) settings[py::str(name)] = value;
  py::dict answer;
  answer["epoch"] = note.epoch;
  answer["rank"] = note.rank;
  answer["size"] = note.workers.size();
  answer["why"] = note.why;
  answer["workers"] = workers;
  answer["settings"] = settings;
  return answer;
}

py::dict next_epoch(bool began, bool holds_state, bool can_resume,
                    std::vector<elastic::WorkerId> suspects, std::string why) {
  elastic::Member& self = member();
  elastic::ReadyNote ready;
  ready.holds_state = holds_state;
  ready.began = began;
  ready.can_resume = can_resume;
  ready.suspects = std::move(suspects);
  ready.why = std::move(why);
  const WaitOptions options = interruptible(-1.0);
  Result<elastic::Answer> answer = [&] {
    py::gil_scoped_release unlocked;
    return self.next_epoch(std::move(ready), options);
  }();
  check_wait(answer.status());
  return std::visit([](const auto& note) { return describe_answer(note); }, *answer);
}

/// Raises UnavailableError.
template <typename Note>
void send_note(const Note& note) {
  elastic::Member& self = member();
  Status status;
  {
    py::gil_scoped_release unlocked;
    status = self.send(note);
  }
  check(status);
}

py::tuple elastic_changes() {
  const elastic::ChangedNote note = unwrap(member().changes());
  return py::make_tuple(note.serial, note.serial == 0 ? 0 : static_cast<int>(note.change));
}

elastic::WorkerId worker() {
  const elastic::Member* const found = unwrap(elastic::Member::of_process());
  return found == nullptr ? 0 : found->worker();
}

}  // namespace

void bind_elastic(py::module_& module) {
  module.def(
      "elastic_available", [] { return unwrap(elastic::Member::of_process()) != nullptr; },
      "True if this process is a worker of an elastic job: it has its launcher's descriptor.");
  module.def("elastic_worker", &worker, "The worker's number; 0 without a launcher's descriptor.");
  module.def(
      "elastic_next_epoch", &next_epoch, py::arg("began"), py::arg("holds_state"),
      py::arg("can_resume"), py::arg("suspects"), py::arg("why"),
      "Tells the launcher that the worker is ready, and waits for its place in a new epoch.");
  module.def("elastic_changes", &elastic_changes,
             "(serial, kind) of the newest change of the current epoch; (0, 0): none. Never "
             "blocks.");
  module.def(
      "elastic_holds", [] { send_note(elastic::HoldsNote{}); },
      "Tells the launcher that the worker has a committed state.");
  module.def(
      "elastic_leaving", [](std::string why) { send_note(elastic::LeavingNote{std::move(why)}); },
      py::arg("why"), "Tells the launcher that the worker leaves at its next commit.");
  module.def(
      "elastic_finished", [] { send_note(elastic::FinishedNote{member().epoch()}); },
      "Tells the launcher that the worker's function has returned.");
}

}  // namespace ronde::python
