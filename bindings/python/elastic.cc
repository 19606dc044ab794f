// Binds the worker's side of elastic jobs: its notes with the launcher, and its committed state.
#include <pybind11/stl.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/elastic/leave_signal.h"
#include "bindings/elastic/member.h"
#include "bindings/elastic/remade_sets.h"
#include "bindings/python/bind.h"
#include "bindings/python/blocked_wait.h"
#include "core/elastic/recovery.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

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
  py::class_<EpochNote>(module, "EpochNote", "A worker's place in an epoch.")
      .def_readonly("epoch", &EpochNote::epoch)
      .def_readonly("rank", &EpochNote::rank)
      .def_readonly("why", &EpochNote::why)
      .def_property_readonly("workers", &of_workers<&EpochWorker::worker>, "By rank.")
      .def_property_readonly("hosts", &of_workers<&EpochWorker::host>, "By rank.");
  py::class_<DismissedNote>(module, "DismissedNote", "There is no place for a worker any more.")
      .def_readonly("failed", &DismissedNote::failed)
      .def_readonly("why", &DismissedNote::why);
}

elastic::Answer next_epoch(elastic::Member& member) {
  return waited([&](const WaitOptions& options) { return member.next_epoch(options); });
}

py::dict settings(elastic::Member& member, const elastic::EpochNote& place) {
  py::dict settings;
  for (const auto& [name, value] : unwrap(member.settings(place))) settings[name.c_str()] = value;
  return settings;
}

py::tuple changes(elastic::Member& member) {
  const elastic::ChangedNote note = unwrap(member.changes());
  return py::make_tuple(note.serial, note.serial == 0 ? 0 : static_cast<int>(note.change));
}

/// Raises UnavailableError.
template <Status (elastic::Member::*Send)()>
void send_note(elastic::Member& member) {
  Status status;
  {
    const py::gil_scoped_release unlocked;
    status = (member.*Send)();
  }
  check(status);
}

void bind_member(py::module_& module) {
  bind_notes(module);
  py::class_<elastic::Member>(module, "Member", "A worker's part in one epoch after another.")
      .def(py::init([](int socket, elastic::WorkerId worker) {
             return std::make_unique<elastic::Member>(FileDescriptor(socket), worker);
           }),
           py::arg("socket"), py::arg("worker"), "Takes the worker's end of a launcher's socket.")
      .def_static(
          "of_process", [] { return unwrap(elastic::Member::of_process()); },
          py::return_value_policy::reference, "This process's; None without a launcher.")
      .def_property_readonly("worker", &elastic::Member::worker, "Its number.")
      .def_property_readonly("place", &elastic::Member::place, py::return_value_policy::copy,
                             "None before its first epoch.")
      .def_property_readonly("holds_state", &elastic::Member::holds_state,
                             "True if others can start from its committed state.")
      .def("state_is_held", &elastic::Member::state_is_held,
           "True if some rank of its epoch holds the state.")
      .def("next_epoch", &next_epoch, "Waits for its place in a new epoch, or for its dismissal.")
      .def("settings", &settings, py::arg("place"), "The settings of a place.")
      .def("changes", &changes,
           "(serial, kind) of the newest change of the current epoch; (0, 0): none. Never blocks.")
      .def("began", &elastic::Member::began, "The epoch's ranks are connected.")
      .def("failed", &elastic::Member::failed, py::arg("why"), py::arg("rank"),
           "Remembers what ended the epoch. rank: one that was lost; -1: none.")
      .def("hold_state", &send_note<&elastic::Member::hold_state>,
           "Tells the launcher that it has a state.")
      .def("finish", &send_note<&elastic::Member::send_finished>,
           "Tells the launcher that the worker's function has returned.")
      .def("can_load", &elastic::Member::can_load, py::arg("checkpoint"),
           "The job can go on from a checkpoint that it has, or not.")
      .def("take_copies", &elastic::Member::take_copies,
           "The copies of a worker that died on this host, once; empty without one.")
      .def("end_adoption", &elastic::Member::end_adoption, "They are not needed any more.")
      .def(
          "share",
          [](elastic::Member& member, elastic::CommitStore& store) { check(member.share(store)); },
          py::arg("store"), "Gives the host's agent its memory, so that it outlives this process.");
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
  bind_member(module);
  bind_leaving(module);
  bind_recovery(module);
  module.def("remake_sets", &remake_sets, py::arg("runtime"), py::arg("place"), py::arg("kept"),
             "Makes the process sets of the last epoch again whose workers are all left.");
}

}  // namespace ronde::python
