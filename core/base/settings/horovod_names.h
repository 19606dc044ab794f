// One table tells how Ronde treats each flag of horovodrun 0.28 and each HOROVOD_ variable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// The treatment of a flag or variable.
enum class HorovodUse : std::uint8_t {
  kObeyed,    ///< Has its effect.
  kReplaced,  ///< Has no effect; a line says what Ronde does instead (`meaning`).
  kNeedless,  ///< Holds always, or a launcher sets it by itself. Nothing is said.
};

/// One row of the table.
struct HorovodName {
  std::string_view flags;      ///< Of horovodrun, such as "--min-np,--min-num-proc"; empty: none.
  int values = 0;              ///< That the flag takes.
  std::string_view config;     ///< Key of --config-file, "params.cycle_time_ms"; "KEY=VALUE": with
                               ///< this value; empty: none.
  std::string_view variables;  ///< "HOROVOD_CPU_OPERATIONS,HOROVOD_CONTROLLER"; empty: none. One
                               ///< ending in '*' is a prefix.
  HorovodUse use = HorovodUse::kObeyed;
  std::string_view setting;  ///< Setting of Ronde that a flag sets, "NAME=" before its value and
                             ///< "NAME=VALUE" without one; empty: horovodrun.cc reads the flag.
  std::string_view suffix;   ///< Behind the value: converts Horovod's unit to Ronde's.
  std::string_view meaning;  ///< For people: what it does, or what Ronde does instead.
};

/// All rows, in the order of the guide.
std::span<const HorovodName> horovod_names();

/// The row of a variable, or null.
const HorovodName* find_horovod_variable(std::string_view name);

/// A variable of the environment.
struct NamedValue {
  std::string name;
  std::string value;
};

/// One sentence for each meaning of HOROVOD_ variables that have no effect here, and one for each
/// that nobody knows. Variables that are empty, or switch off what Ronde lacks, need none.
std::vector<std::string> describe_horovod_variables(std::span<const NamedValue> variables);

/// The table of docs/migrating-from-horovod.md.
std::string horovod_names_as_markdown();

}  // namespace ronde
