// Binds the decisions of an elastic job's rank: what it tells the others, and where it goes on.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/elastic/partners.h"
#include "bindings/elastic/ranks.h"
#include "bindings/python/bind.h"
#include "bindings/python/blocked_wait.h"
#include "core/elastic/progress.h"

namespace py = pybind11;

namespace ronde::python {
namespace {

using elastic::CommitFacts;
using elastic::EpochNote;
using elastic::Partners;
using elastic::Progress;
using elastic::Ranks;
using elastic::SettledStates;
using elastic::Start;
using elastic::StartFacts;
using elastic::WorkerId;

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
  py::class_<CommitFacts>(module, "CommitFacts", "What ranks tell at a commit or at their end.")
      .def_readonly("changed", &CommitFacts::changed)
      .def_readonly("running", &CommitFacts::running)
      .def_property_readonly("only_removed", &CommitFacts::only_removed);
  py::class_<StartFacts>(module, "StartFacts", "What a rank tells at the start of an epoch.")
      .def(py::init<>())
      .def(
          "encoded",
          [](const StartFacts& facts) { return py::bytes(encode_wire<std::string>(facts)); },
          "As bytes, which ranks gather.")
      .def_static(
          "decoded",
          [](std::string_view bytes, int ranks) {
            return unwrap(elastic::decode_ranks<StartFacts>(as_bytes(bytes), ranks));
          },
          py::arg("bytes"), py::arg("ranks"));
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

void bind_ranks(py::module_& module) {
  module.def(
      "agree",
      [](Runtime& runtime, bool changed, bool added, bool removed, bool running) {
        return waited([&](const WaitOptions&) {
          return ranks_of(runtime).agree({changed, added, removed, running});
        });
      },
      py::arg("runtime"), py::kw_only(), py::arg("changed"), py::arg("added"), py::arg("removed"),
      py::arg("running"),
      "Joins the facts of all ranks, at a commit or once a function has returned.");
  module.def(
      "newest_step",
      [](Runtime& runtime, std::int64_t step) {
        return waited([&](const WaitOptions&) { return ranks_of(runtime).newest_step(step); });
      },
      py::arg("runtime"), py::arg("step"), "The newest step of which any rank has a copy.");
  module.def(
      "meet",
      [](Runtime& runtime) {
        waited([&](const WaitOptions&) { return ranks_of(runtime).meet(); });
      },
      py::arg("runtime"), "Returns once all ranks have called it.");
}

void send_own_state(Partners& partners, Runtime& runtime, const EpochNote& place, std::int64_t step,
                    std::string own) {
  waited([&](const WaitOptions&) {
    Ranks ranks = ranks_of(runtime);
    return partners.send(ranks, place, step, std::move(own));
  });
}

/// (the state for this rank, those that nobody takes, workers of lost ones, steps of residuals).
py::tuple settle_own_states(Partners& partners, Runtime& runtime, const EpochNote& place,
                            std::optional<std::int64_t> step, bool holds_state, WorkerId restored,
                            std::int64_t residual_steps) {
  const SettledStates settled = waited([&](const WaitOptions&) {
    Ranks ranks = ranks_of(runtime);
    return partners.settle(ranks, place, step, {holds_state, restored, residual_steps});
  });
  py::list orphans;
  for (const std::string& one : settled.orphans) orphans.append(py::bytes(one));
  const py::object mine = settled.mine ? py::object(py::bytes(*settled.mine)) : py::none();
  return py::make_tuple(mine, orphans, settled.lost, settled.residual_steps);
}

void bind_partners(py::module_& module) {
  py::class_<Partners>(module, "Partners", "Copies of own states at partners on other hosts.")
      .def(py::init<int>(), py::arg("every"))
      .def_property_readonly("hands_over", &Partners::hands_over)
      .def("due", &Partners::due, "Counts a commit. True if own states are sent at it.")
      .def("warns_of_one_host", &Partners::warns_of_one_host, py::arg("place"))
      .def("send", &send_own_state, py::arg("runtime"), py::arg("place"), py::arg("step"),
           py::arg("own"), "Sends this rank's own state, and keeps what it gets.")
      .def("settle", &settle_own_states, py::arg("runtime"), py::arg("place"), py::arg("step"),
           py::arg("holds_state"), py::arg("restored"), py::arg("residual_steps"),
           "Gives the states of workers that are gone to others.")
      .def("begun", &Partners::begun, py::arg("place"), "All ranks of an epoch have begun.");
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
  bind_ranks(module);
  bind_partners(module);
}

}  // namespace ronde::python
