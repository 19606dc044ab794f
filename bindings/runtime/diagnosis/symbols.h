// Names for addresses of code in this process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ronde::diagnosis {

/// Finds names in the symbol tables of the files that the code was loaded from: dladdr() alone
/// knows only what a library exports, which is little of Ronde. Remembers the tables it has read.
/// Threads: one.
class SymbolFinder {
 public:
  /// "ronde::Engine::step()+0x1f (libronde.so.0)", or the file and the offset in it, or the
  /// address, as far as they can be told.
  std::string describe(const void* address);

 private:
  struct Symbol {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::string name;
  };
  using Table = std::vector<Symbol>;  // ascending
  static Table read_table(const std::string& path);
  const Table& table_of(const std::string& path);

  std::map<std::string, Table> tables_;
};

}  // namespace ronde::diagnosis
