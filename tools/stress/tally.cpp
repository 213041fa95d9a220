// Adding counts, and printing them.
#include "tools/stress/tally.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>

namespace heddle::stress {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(Count::count_)> names = {
    "rounds",        "devices",         "tasks",      "done",        "failed",    "skipped",
    "cancelled",     "threw or failed", "contained",  "failed",      "late",      "forgotten",
    "full",          "other",           "recoveries", "cancels",     "shutdowns", "hasty ones",
    "waits",         "timed out",       "callbacks",  "descriptors", "traces",    "issued",
    "beside others", "dropped",         "failed",     "parks",       "wakes",     "spins"};

}  // namespace

Tally& Tally::operator+=(const Tally& other) noexcept {
  for (std::size_t k = 0; k < counts_.size(); ++k) counts_[k] += other.counts_[k];
  return *this;
}

std::string Tally::to_string() const {
  std::string text;
  const auto line = [&](std::string_view title, std::initializer_list<Count> counts) {
    text += fmt::format("  {:<16}", title);
    const char* separator = "";
    for (const Count count : counts) {
      text +=
          fmt::format("{}{} {}", separator, (*this)[count], names[static_cast<std::size_t>(count)]);
      separator = ", ";
    }
    text += '\n';
  };
  using enum Count;
  line("ran", {rounds, devices, tasks});
  line("tasks ended", {done, failed, skipped, cancelled});
  line("faults in tasks", {thrown, contained});
  line("foreign signals", {foreign_failed, foreign_late, foreign_forgotten});
  line("refused submits", {full, refused});
  line("hosts", {recoveries, cancels, shutdowns, hasty_shutdowns, waits, late_waits});
  line("seen", {callbacks, descriptors, traces});
  line("ended later", {late, late_beside, late_dropped, late_failed});
  line("workers", {parks, wakes, spins});
  return text;
}

}  // namespace heddle::stress
