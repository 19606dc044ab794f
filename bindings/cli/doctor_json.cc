// The output of `ronde doctor` for programs.
#include <string>

#include "bindings/cli/doctor.h"
#include "core/base/json.h"
#include "core/base/os/interfaces.h"
#include "core/base/settings/setting_names.h"
#include "ops/kernels/factory.h"

namespace ronde {
namespace {

/// "shm: usable" as a name, if it can be used, and the text after the name.
Json plane_of(const std::string& line) {
  const std::size_t colon = line.find(": ");
  const std::string text = colon == std::string::npos ? line : line.substr(colon + 2);
  return {{"name", line.substr(0, colon)}, {"usable", text.starts_with("usable")}, {"text", text}};
}

Json planes_of(const std::vector<std::string>& lines) {
  Json list = Json::array();
  for (const std::string& line : lines) list.push_back(plane_of(line));
  return list;
}

Json setting_of(const SettingInfo& info, std::string_view initial, std::string_view now) {
  return {{"name", info.name}, {"unit", info.unit},       {"default", initial},
          {"value", now},      {"meaning", info.meaning}, {"horovod", info.horovod}};
}

Json pending_of(const Dump& dump, const std::vector<RankAnswer>& answers) {
  Json list = Json::array();
  for (const DumpOperation& operation : dump.operations) {
    if (operation.done()) continue;
    const auto waited = static_cast<double>(dump.steady_ns - operation.submitted_ns);
    list.push_back({{"name", operation.name},
                    {"kind", operation.kind},
                    {"set", operation.set},
                    {"bytes", operation.bytes},
                    {"seconds", waited / 1e9},
                    {"agreed", operation.agreed_ns != 0},
                    {"missing", diagnosis::awaited_ranks({&dump, &operation}, answers)}});
  }
  return list;
}

Json rank_of(const RankAnswer& answer, const std::vector<RankAnswer>& answers) {
  Json rank{{"rank", answer.who.rank},
            {"pid", answer.who.pid},
            {"worker", answer.worker},
            {"silence", answer.dump ? "" : answer.silence}};
  if (!answer.dump) return rank;
  const Dump& dump = *answer.dump;
  rank["host"] = dump.host;
  rank["failure"] = dump.failure;
  rank["line"] = dump.script.empty() ? "" : dump.script.front().line;
  rank["pending"] = pending_of(dump, answers);
  rank["last_finished"] = describe_last_finished(dump);
  return rank;
}

}  // namespace

std::string machine_json(const MachineFacts& facts) {
  Json limits = Json::array();
  for (const Limit& limit : facts.limits) {
    limits.push_back({{"text", limit.text}, {"bites", limit.bites}});
  }
  return json_document({{"version", 1},
                        {"kind", "doctor"},
                        {"ronde", RONDE_VERSION},
                        {"host", host_name()},
                        {"compiler", std::string(RONDE_COMPILER) + " " + __VERSION__},
                        {"arithmetic", kernels_target()},
                        {"data_planes", planes_of(facts.data_planes)},
                        {"gpu", planes_of(facts.gpus)},
                        {"network", facts.network},
                        {"nvtx", facts.nvtx},
                        {"limits", limits},
                        {"selection", facts.selection},
                        {"paths", facts.paths}});
}

std::string settings_json(const Config& config) {
  const Config defaults;
  Json settings = Json::array();
  for (const SettingInfo& info : setting_infos()) {
    settings.push_back(
        setting_of(info, setting_value(defaults, info.name), setting_value(config, info.name)));
  }
  for (const ProgramSetting& setting : program_settings()) {
    const auto now = process_environment()(std::string(setting.info.name));
    settings.push_back(
        setting_of(setting.info, setting.otherwise, now.value_or(std::string(setting.otherwise))));
  }
  return json_document({{"version", 1}, {"kind", "settings"}, {"settings", settings}});
}

std::string job_json(const std::vector<RankAnswer>& answers, const std::string& launcher) {
  Json ranks = Json::array();
  for (const RankAnswer& answer : answers) ranks.push_back(rank_of(answer, answers));
  return json_document({{"version", 1},
                        {"kind", "job"},
                        {"job", answers.empty() ? "" : answers.front().who.job},
                        {"size", answers.empty() ? 0 : answers.front().who.size},
                        {"launcher", launcher},
                        {"ranks", ranks}});
}

}  // namespace ronde
