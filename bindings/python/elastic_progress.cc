// Binds the decisions of an elastic job's rank: what it tells the others, and where it goes on.
#include <pybind11/stl.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/python/bind.h"
#include "core/elastic/own_states.h"
#include "core/elastic/progress.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

using elastic::CommitFacts;
using elastic::Handover;
using elastic::OwnFacts;
using elastic::OwnOffer;
using elastic::OwnStates;
using elastic::Progress;
using elastic::Start;
using elastic::StartFacts;
using elastic::WorkerId;

template <typename Facts>
py::bytes encoded(const Facts& facts) {
  return encode_wire<std::string>(facts);
}

template <typename Facts>
std::vector<Facts> decoded(std::string_view bytes, int ranks) {
  return unwrap(elastic::decode_ranks<Facts>(as_bytes(bytes), ranks));
}

StartFacts facts_of(const Progress& progress, bool holds_state, bool alike, bool restored,
                    bool skip_sync, std::pair<std::int64_t, std::int64_t> adopted) {
  StartFacts facts = progress.facts();
  facts.holds_state = holds_state;
  facts.alike = alike;
  facts.restored = restored;
  facts.skip_sync = skip_sync && holds_state;
  if (!holds_state) facts.adopted = {adopted.first, adopted.second};
  return facts;
}

void bind_facts(py::module_& module) {
  py::class_<CommitFacts>(module, "CommitFacts", "What a rank tells at a commit or at its end.")
      .def(py::init([](bool changed, bool added, bool removed, bool running) {
             return CommitFacts{changed, added, removed, running};
           }),
           py::kw_only(), py::arg("changed"), py::arg("added"), py::arg("removed"),
           py::arg("running"))
      .def_static(
          "decoded",
          [](std::string_view bytes) {
            return unwrap(decode_wire<CommitFacts>(as_bytes(bytes), "facts of a commit"));
          },
          py::arg("bytes"))
      .def("encoded", &encoded<CommitFacts>, "As bytes, of which ranks take the maxima.")
      .def_readonly("changed", &CommitFacts::changed)
      .def_readonly("running", &CommitFacts::running)
      .def_property_readonly("only_removed", &CommitFacts::only_removed);
  py::class_<StartFacts>(module, "StartFacts", "What a rank tells at the start of an epoch.")
      .def(py::init<>())
      .def("encoded", &encoded<StartFacts>, "As bytes, which ranks gather.")
      .def_static("decoded", &decoded<StartFacts>, py::arg("bytes"), py::arg("ranks"));
}

void bind_start(py::module_& module) {
  py::class_<Start> start(module, "Start", "What a rank does at the start of an epoch.");
  py::enum_<Start::Restore>(start, "Restore")
      .value("NOTHING", Start::Restore::kNothing)
      .value("NEWEST", Start::Restore::kNewest)
      .value("OLDER", Start::Restore::kOlder)
      .value("ADOPTED_OWN", Start::Restore::kAdoptedOwn)
      .value("ADOPTED", Start::Restore::kAdopted);
  start.def_readonly("restore", &Start::restore)
      .def_readonly("step", &Start::step)
      .def_readonly("sends", &Start::sends)
      .def_readonly("keeps_adopted", &Start::keeps_adopted)
      .def_readonly("checkpoint", &Start::checkpoint)
      .def_readonly("loads", &Start::loads)
      .def_readonly("damaged", &Start::damaged)
      .def_readonly("needs_whole", &Start::needs_whole);
}

/// (own states by the ranks that get them, those that nobody gets).
py::tuple hand_over(OwnStates& states, int rank, std::string_view offers, int ranks) {
  const Handover handover = states.hand_over(rank, decoded<OwnOffer>(offers, ranks));
  py::dict given;
  for (const auto& [taker, worker] : handover.given) {
    given[py::int_(taker)] = py::bytes(states.state_of(worker));
  }
  py::list left;
  for (const WorkerId worker : handover.left) left.append(py::bytes(states.state_of(worker)));
  return py::make_tuple(given, left);
}

void bind_own_states(py::module_& module) {
  module.def("partner_in", &elastic::partner_in, py::arg("place"),
             "The rank that keeps the own state of this one.");
  py::class_<OwnFacts>(module, "OwnFacts", "What a rank tells of own states at a start.")
      .def(py::init([](bool holds_state, WorkerId restored, std::int64_t residual_steps) {
             return OwnFacts{holds_state, restored, residual_steps};
           }),
           py::arg("holds_state"), py::arg("restored"), py::arg("residual_steps"))
      .def("encoded", &encoded<OwnFacts>, "As bytes, which ranks gather.")
      .def_static("decoded", &decoded<OwnFacts>, py::arg("bytes"), py::arg("ranks"))
      .def_readonly("holds_state", &OwnFacts::holds_state)
      .def_readonly("residual_steps", &OwnFacts::residual_steps);
  py::class_<OwnStates>(module, "OwnStates", "Copies of the own states of other workers.")
      .def(py::init<int>(), py::arg("every"))
      .def_property_readonly("hands_over", &OwnStates::hands_over)
      .def("due", &OwnStates::due, "Counts a commit. True if own states are sent at it.")
      .def("keep", &OwnStates::keep, py::arg("step"), py::arg("states"),
           "Keeps what workers have sent.")
      .def("begun", &OwnStates::begun, py::arg("place"), "All ranks of an epoch have begun.")
      .def(
          "begin",
          [](OwnStates& states, std::optional<std::int64_t> step,
             const std::vector<OwnFacts>& ranks,
             const elastic::EpochNote& place) { states.begin(step, ranks, place); },
          py::arg("step"), py::arg("ranks"), py::arg("place"),
          "Begins to settle the states of workers that are gone.")
      .def(
          "offer", [](const OwnStates& states) { return encoded(states.offer()); },
          "The workers of whose state this rank has a copy, as bytes, which ranks gather.")
      .def("hand_over", &hand_over, py::arg("rank"), py::arg("offers"), py::arg("ranks"),
           "Own states by the ranks that get them, and those that nobody gets.")
      .def("lost", &OwnStates::lost, "The workers whose states are lost.");
}

}  // namespace

void bind_elastic_progress(py::module_& module) {
  bind_facts(module);
  bind_start(module);
  py::class_<Progress>(module, "Progress", "The steps of a rank's two copies.")
      .def(py::init<std::int64_t>(), py::arg("step") = 0)
      .def("__copy__", [](const Progress& progress) { return progress; })
      .def_property_readonly("step", &Progress::step)
      .def_property_readonly("certain", &Progress::certain)
      .def_property_readonly("is_undecided", &Progress::is_undecided)
      .def_property("root", &Progress::root, &Progress::set_root)
      .def_property_readonly("next_step", &Progress::next_step)
      .def("copied", &Progress::copied, "A copy of next_step was made.")
      .def("copied_since", &Progress::copied_since, py::arg("before"),
           "A commit has made copies; other ranks may not have finished theirs.")
      .def("committed", &Progress::committed, "All ranks have finished their copies.")
      .def("synced", &Progress::synced, py::arg("newest"), "All ranks have got the state.")
      .def("begun", &Progress::begun, "All ranks of the epoch have begun.")
      .def("facts", &facts_of, py::kw_only(), py::arg("holds_state") = false,
           py::arg("alike") = false, py::arg("restored") = false, py::arg("skip_sync") = false,
           py::arg("adopted") = std::pair(-1, -1), "What this rank tells at the start of an epoch.")
      .def(
          "choose",
          [](Progress& progress, const StartFacts& mine, const std::vector<StartFacts>& ranks) {
            return unwrap(progress.choose(mine, ranks));
          },
          py::arg("mine"), py::arg("ranks"), "Chooses the step from which all ranks go on.")
      .def(
          "choose_checkpoint",
          [](Progress& progress, const StartFacts& mine, const std::vector<StartFacts>& ranks) {
            return progress.choose_checkpoint(mine, ranks);
          },
          py::arg("mine"), py::arg("ranks"), "The same where nobody has copies.");
  bind_own_states(module);
}

}  // namespace ronde::python
