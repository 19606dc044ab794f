#include "bindings/cli/launch/line_printer.h"

#include <fmt/format.h>

namespace ronde {

std::string LinePrinter::end_foreign_line(int rank) {
  if (open_rank_ == kNobody || open_rank_ == rank) return {};
  open_rank_ = kNobody;
  return "\n";
}

std::string LinePrinter::begin_line(int rank) {
  if (open_rank_ == rank) return {};
  return end_foreign_line(rank) + fmt::format("[{}] ", rank);
}

std::string LinePrinter::feed(int rank, std::string_view bytes) {
  Stream& stream = streams_[rank];
  std::string out;
  for (const char c : bytes) {
    const bool ends_return = c == '\n' && stream.after_return && stream.pending.empty();
    const bool empty_return = c == '\r' && stream.pending.empty();
    stream.after_return = c == '\r';
    if (c != '\n' && c != '\r') {
      stream.pending += c;
      continue;
    }
    out += ends_return || empty_return ? end_foreign_line(rank) : begin_line(rank);
    out += stream.pending + c;
    stream.pending.clear();
    open_rank_ = kNobody;
  }
  return out;
}

std::string LinePrinter::own_line(std::string_view text) {
  return end_foreign_line(kNobody) + fmt::format("{}\n", text);
}

bool LinePrinter::has_partial() const noexcept {
  for (const auto& [rank, stream] : streams_) {
    if (!stream.pending.empty()) return true;
  }
  return false;
}

std::string LinePrinter::flush_partial() {
  std::string out;
  for (auto& [rank, stream] : streams_) {
    if (stream.pending.empty()) continue;
    out += begin_line(rank) + stream.pending;
    open_rank_ = rank;
    stream.pending.clear();
  }
  return out;
}

}  // namespace ronde
