#include "core/base/settings/horovod_names.h"

#include <doctest/doctest.h>

#include <array>
#include <set>

#include "core/base/settings/config.h"

namespace ronde {
namespace {

using Sentences = std::vector<std::string>;

}  // namespace

TEST_CASE("Horovod's names: each stands in one row, and settings are Ronde's") {
  std::set<std::string_view> seen;
  for (const HorovodName& row : horovod_names()) {
    CAPTURE(row.flags);
    CAPTURE(row.variables);
    CHECK(!(row.flags.empty() && row.variables.empty()));
    CHECK_FALSE(row.meaning.empty());
    for (const std::string_view name : {row.flags, row.variables}) {
      if (!name.empty()) CHECK(seen.insert(name).second);
    }
    const std::string setting(row.setting.substr(0, row.setting.find('=')));
    Config config;
    const bool known = setting.rfind("RONDE_", 0) != 0 ||
                       set_setting(config, setting, "1").code() != Code::kInvalidArgument;
    CHECK(known);
  }
}

TEST_CASE("Horovod's variables: those of the settings are obeyed") {
  for (const SettingInfo& info : setting_infos()) {
    if (info.horovod.empty()) continue;
    const HorovodName* const row = find_horovod_variable(info.horovod);
    REQUIRE(row != nullptr);
    CHECK(row->use == HorovodUse::kObeyed);
  }
}

TEST_CASE("Horovod's variables: one sentence for all with the same meaning") {
  const auto variables = std::to_array<NamedValue>({{"PATH", "/bin"},
                                                    {"HOROVOD_RANK", "0"},
                                                    {"HOROVOD_CYCLE_TIME", "5"},
                                                    {"HOROVOD_AUTOTUNE", "1"},
                                                    {"HOROVOD_AUTOTUNE_LOG", "a.csv"},
                                                    {"HOROVOD_TORUS_ALLREDUCE", "0"},
                                                    {"HOROVOD_FUSION_THRESHOLD", "1"}});
  const Sentences said = describe_horovod_variables(variables);
  REQUIRE(said.size() == 2);
  CHECK(said[0].rfind("HOROVOD_CYCLE_TIME has no effect: there are no cycles", 0) == 0);
  CHECK(said[1].rfind("HOROVOD_AUTOTUNE, HOROVOD_AUTOTUNE_LOG have no effect: ", 0) == 0);
}

TEST_CASE("Horovod's variables: one that nobody knows is named") {
  const auto variables = std::to_array<NamedValue>({{"HOROVOD_CYCLE_TIM", "5"}});
  const Sentences said = describe_horovod_variables(variables);
  REQUIRE(said.size() == 1);
  CHECK(said[0] ==
        "HOROVOD_CYCLE_TIM is no variable of Horovod 0.28 and has no effect; HOROVOD_CYCLE_TIME "
        "is");
}

TEST_CASE("Horovod's variables: one that resembles none by more than the prefix gets no hint") {
  const auto variables = std::to_array<NamedValue>({{"HOROVOD_FOO", "1"}});
  CHECK(describe_horovod_variables(variables) ==
        Sentences{"HOROVOD_FOO is no variable of Horovod 0.28 and has no effect; `ronde doctor "
                  "--horovod` lists them"});
}

TEST_CASE("Horovod's variables: names that end in a star stand for many") {
  REQUIRE(find_horovod_variable("HOROVOD_GPU_OPERATIONS") != nullptr);
  CHECK(find_horovod_variable("HOROVOD_GPU_OPERATIONS")->use == HorovodUse::kReplaced);
  CHECK(find_horovod_variable("HOROVOD_GP") == nullptr);
  CHECK(find_horovod_variable("") == nullptr);
}

}  // namespace ronde
