#include "bindings/cli/arguments.h"

#include <CLI/CLI.hpp>

namespace ronde {
namespace {

/// True for an option that takes its value from the next word.
bool takes_next(const CLI::App& app, const std::string& word) {
  if (word.find('=') != std::string::npos) return false;
  if (word.size() > 2 && word[1] != '-') return false;  // -Hvalue
  const CLI::Option* option = app.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

}  // namespace

void rename_np(Arguments& arguments) {
  for (std::string& word : arguments) {
    if (word == "-np") word = "--np";
    if (word == "--") return;
  }
}

Arguments take_command(const CLI::App& app, Arguments& arguments) {
  auto begin = arguments.begin();
  while (begin != arguments.end() && begin->size() > 1 && begin->front() == '-' && *begin != "--") {
    begin += takes_next(app, *begin) && begin + 1 != arguments.end() ? 2 : 1;
  }
  const bool marked = begin != arguments.end() && *begin == "--";
  Arguments command(marked ? begin + 1 : begin, arguments.end());
  arguments.erase(begin, arguments.end());
  return command;
}

}  // namespace ronde
