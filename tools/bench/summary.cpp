// See report.hpp: a table of ratios that a person reads in a minute.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/report.hpp"

namespace heddle::bench {
namespace {

/// Keeps the order of first appearance.
std::size_t place_of(std::vector<std::string>& of, const std::string& name) {
  const auto found = std::ranges::find(of, name);
  const auto at = static_cast<std::size_t>(found - of.begin());
  if (found == of.end()) of.push_back(name);
  return at;
}

}  // namespace

std::string summary_table(std::span<const Result> results) {
  std::vector<std::string> lines, columns;
  std::map<std::pair<std::size_t, std::size_t>, std::string> ratios;
  for (const Result& each : results) {
    if (each.line.empty()) continue;
    const std::size_t line = place_of(lines, each.line);
    const std::size_t column = place_of(columns, each.column + ": " + each.anchor);
    ratios[{line, column}] = each.pairs > 0 ? fmt::format("{:.2f}", each.ratio.median) : "-";
  }
  if (lines.empty()) return "";
  std::string text = "\ntime of heddle / time of what heads the column, from call to result\n";
  std::size_t width = 0;
  for (const std::string& each : lines) width = std::max(width, each.size());
  for (std::size_t k = 0; k < columns.size(); ++k)
    text += fmt::format("{:>{}}  {}\n", fmt::format("[{}]", k + 1), width, columns[k]);
  text += fmt::format("{:{}}", "", width);
  for (std::size_t k = 0; k < columns.size(); ++k)
    text += fmt::format("{:>7}", fmt::format("[{}]", k + 1));
  for (std::size_t line = 0; line < lines.size(); ++line) {
    text += fmt::format("\n{:{}}", lines[line], width);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const auto found = ratios.find({line, k});
      text += fmt::format("{:>7}", found == ratios.end() ? "" : found->second);
    }
  }
  return text + "\n";
}

}  // namespace heddle::bench
