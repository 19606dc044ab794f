// Binds the worker's side of elastic jobs: its notes with the launcher, and its committed state.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/elastic/leave_signal.h"
#include "bindings/elastic/member.h"
#include "bindings/elastic/remade_sets.h"
#include "bindings/python/bind.h"
#include "bindings/python/blocked_wait.h"
#include "core/elastic/participant.h"
#include "core/elastic/recovery.h"

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

elastic::Answer next_epoch(elastic::ReadyNote ready) {
  elastic::Member& self = member();
  return waited(
      [&](const WaitOptions& options) { return self.next_epoch(std::move(ready), options); });
}

py::dict settings(const elastic::EpochNote& place) {
  py::dict settings;
  for (const auto& [name, value] : unwrap(member().settings(place))) settings[name.c_str()] = value;
  return settings;
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

using Workers = std::vector<std::tuple<elastic::WorkerId, std::string, bool>>;

/// workers: their numbers and hosts, and if they hold the state; by rank.
elastic::EpochNote epoch_note(elastic::EpochId epoch, int rank, const Workers& workers) {
  elastic::EpochNote note;
  note.epoch = epoch;
  note.rank = rank;
  for (const auto& [worker, host, holds_state] : workers) {
    note.workers.push_back({worker, host, holds_state});
  }
  return note;
}

template <auto Field>
auto of_workers(const elastic::EpochNote& note) {
  std::vector<std::decay_t<decltype(note.workers[0].*Field)>> values;
  for (const elastic::EpochWorker& one : note.workers) values.push_back(one.*Field);
  return values;
}

void bind_notes(py::module_& module) {
  using elastic::DismissedNote;
  using elastic::EpochNote;
  using elastic::EpochWorker;
  using elastic::ReadyNote;
  py::class_<EpochNote>(module, "EpochNote", "A worker's place in an epoch.")
      .def(py::init(&epoch_note), py::arg("epoch"), py::arg("rank"), py::arg("workers"))
      .def_readonly("epoch", &EpochNote::epoch)
      .def_readonly("rank", &EpochNote::rank)
      .def_readonly("why", &EpochNote::why)
      .def_property_readonly("workers", &of_workers<&EpochWorker::worker>, "By rank.")
      .def_property_readonly("hosts", &of_workers<&EpochWorker::host>, "By rank.")
      .def_property_readonly("holders", &of_workers<&EpochWorker::holds_state>,
                             "If ranks hold the state, by rank.");
  py::class_<DismissedNote>(module, "DismissedNote", "There is no place for a worker any more.")
      .def(py::init([](bool failed, std::string why) {
             return DismissedNote{failed, std::move(why)};
           }),
           py::arg("failed"), py::arg("why"))
      .def_readonly("failed", &DismissedNote::failed)
      .def_readonly("why", &DismissedNote::why);
  py::class_<ReadyNote>(module, "ReadyNote", "What a worker tells while it waits for an epoch.")
      .def_readonly("began", &ReadyNote::began)
      .def_readonly("holds_state", &ReadyNote::holds_state)
      .def_readonly("can_resume", &ReadyNote::can_resume)
      .def_readonly("suspects", &ReadyNote::suspects)
      .def_readonly("why", &ReadyNote::why);
}

void bind_participant(py::module_& module) {
  using elastic::Participant;
  bind_notes(module);
  py::class_<Participant>(module, "Participant", "What a worker knows of its epochs.")
      .def(py::init<>())
      .def_readwrite("began", &Participant::began)
      .def_readwrite("holds_state", &Participant::holds_state)
      .def_readwrite("has_copies", &Participant::has_copies)
      .def_readwrite("has_checkpoint", &Participant::has_checkpoint)
      .def_property_readonly(
          "place",
          [](const Participant& participant) {
            const auto* const place = participant.place();
            return place == nullptr ? std::nullopt : std::optional(*place);
          },
          "None before its first epoch.")
      .def("ready", &Participant::ready, "What it tells while it waits for the next epoch.")
      .def("answered", &Participant::answered, "The launcher has answered.")
      .def("placed", &Participant::placed, py::arg("place"))
      .def("failed", &Participant::failed, py::arg("why"), py::arg("rank"),
           "Remembers what ended the epoch. rank: one that was lost; -1: none.");
}

/// kept: (workers, id of the last epoch) of this rank's sets. Returns (workers, ranks, id,
/// private).
py::list remake_sets(Runtime& runtime, const elastic::EpochNote& place,
                     const std::vector<std::pair<std::vector<elastic::WorkerId>, SetId>>& kept) {
  std::vector<elastic::KeptSet> mine;
  for (const auto& [workers, id] : kept) mine.push_back({workers, id});
  py::list sets;
  for (const elastic::RemadeSet& set : waited([&](const WaitOptions& options) {
         elastic::Ranks ranks = ranks_of(runtime);
         return elastic::remake_sets(ranks, place, mine, options);
       })) {
    sets.append(
        py::make_tuple(py::tuple(py::cast(set.workers)), set.ranks, set.id, set.is_private));
  }
  return sets;
}

void bind_leaving(py::module_& module) {
  using elastic::LeaveSignal;
  module.def("asked_to_leave", &elastic::asked_to_leave,
             "True if this worker is to leave at its next commit.");
  py::class_<LeaveSignal>(module, "LeaveSignal", "Lets a signal ask this worker to leave.")
      .def(py::init(
          [] { return unwrap(LeaveSignal::watch(unwrap(elastic::Member::of_process()))); }));
}

void bind_recovery(py::module_& module) {
  using elastic::Recovery;
  py::enum_<Recovery>(module, "Recovery", "What follows an error.")
      .value("NONE", Recovery::kNone)
      .value("RESTORE", Recovery::kRestore)
      .value("REPLACE", Recovery::kReplace);
  module.def(
      "recovery_of", [](int code) { return elastic::recovery_of(static_cast<Code>(code)); },
      py::arg("code"), "What follows an error of this code.");
}

}  // namespace

void bind_elastic(py::module_& module) {
  module.def(
      "elastic_available", [] { return unwrap(elastic::Member::of_process()) != nullptr; },
      "True if this process is a worker of an elastic job: it has its launcher's descriptor.");
  module.def("elastic_worker", &worker, "The worker's number; 0 without a launcher's descriptor.");
  bind_participant(module);
  bind_leaving(module);
  bind_recovery(module);
  module.def(
      "elastic_next_epoch", &next_epoch, py::arg("ready"),
      "Tells the launcher that the worker is ready, and waits for its place in a new epoch.");
  module.def("remake_sets", &remake_sets, py::arg("runtime"), py::arg("place"), py::arg("kept"),
             "Makes the process sets of the last epoch again whose workers are all left.");
  module.def("elastic_settings", &settings, py::arg("place"), "The settings of a place.");
  module.def("elastic_changes", &elastic_changes,
             "(serial, kind) of the newest change of the current epoch; (0, 0): none. Never "
             "blocks.");
  module.def(
      "elastic_holds", [] { send_note(elastic::HoldsNote{}); },
      "Tells the launcher that the worker has a committed state.");
  module.def(
      "elastic_finished", [] { send_note(elastic::FinishedNote{member().epoch()}); },
      "Tells the launcher that the worker's function has returned.");
}

}  // namespace ronde::python
