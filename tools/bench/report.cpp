// See report.hpp.
#include "tools/bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tools/bench/goals.hpp"

namespace heddle::bench {
namespace {

/// Three digits and the largest unit with at least one digit before the point.
template <std::size_t N>
std::string scaled_text(double value, double step, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  for (; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : (value < 100 ? 1 : 0), units[unit]);
}

std::string value_text(double value, Unit unit) {
  switch (unit) {
    case Unit::ns:
      return scaled_text(value, 1000, std::array{"ns", "us", "ms", "s"});
    case Unit::bytes:
      return scaled_text(value, 1024, std::array{"B", "KiB", "MiB"});
    case Unit::percent:
      return fmt::format("{:.3f} %", value);
    case Unit::count:
      return fmt::format("{:.3g}", value);
    case Unit::ratio:
      break;
  }
  return fmt::format("{:.2f}", value);
}

/// The name of the value in JSON.
const char* unit_name(Unit unit) {
  return std::array{"ns", "bytes", "percent", "ratio", "count"}[static_cast<std::size_t>(unit)];
}

std::string optional_text(double value, Unit unit) {
  return value > 0 ? value_text(value, unit) : "-";
}

std::string median_text(const Result& result, const Figure& figure) {
  return result.pairs > 0 ? value_text(figure.median, result.unit) : "-";
}

std::string ratio_text(const Result& result) {
  if (result.anchor.empty()) return "-";
  if (result.pairs == 0) return "no steady pair";
  return fmt::format("{:.2f} ({:.2f}..{:.2f})", result.ratio.median, result.ratio.low,
                     result.ratio.high);
}

/// The distance of the two processors while the row ran.
std::string placement_text(const Result& result) {
  const Figure& met = result.ping_pong;
  return met.median > 0 ? fmt::format("{:.0f} ({:.0f}..{:.0f}) ns", met.median, met.low, met.high)
                        : "-";
}

std::string goal_text(const Goal& goal) {
  return goal.unit == Unit::ratio || goal.unit == Unit::count
             ? fmt::format("<= {:.3g}", goal.at_most)
             : fmt::format("<= {:.3g} {}", goal.at_most,
                           goal.unit == Unit::percent ? "%" : unit_name(goal.unit));
}

bool met(const Goal& goal, const Result& result) {
  return result.pairs > 0 && reached(goal, result) <= goal.at_most;
}

std::string verdict_text(const Result& result) {
  const Goal* const goal = goal_for(result);
  if (goal == nullptr) return "";
  const char* const verdict = result.pairs == 0 ? "unknown" : met(*goal, result) ? "met" : "missed";
  return fmt::format("{} {}", goal_text(*goal), verdict);
}

using Cells = std::array<std::string, 11>;

Cells cells(const Result& result) {
  const bool gauge = result.anchor.empty();
  return {result.workload,
          result.subject,
          gauge ? "-" : result.anchor,
          ratio_text(result),
          verdict_text(result),
          median_text(result, result.subject_figure),
          optional_text(result.subject_figure.p99, result.unit),
          gauge ? "-" : median_text(result, result.anchor_figure),
          optional_text(result.anchor_figure.p99, result.unit),
          placement_text(result),
          fmt::format("{}/{}", result.pairs, result.pairs + result.dropped)};
}

nlohmann::ordered_json figure_json(const Figure& figure) {
  return {{"median", figure.median},
          {"low", figure.low},
          {"high", figure.high},
          {"p99", figure.p99 > 0 ? nlohmann::ordered_json(figure.p99) : nullptr}};
}

nlohmann::ordered_json result_json(const Result& r) {
  nlohmann::ordered_json json = {
      {"name", r.name},           {"workload", r.workload},
      {"operation", r.operation}, {"unit", unit_name(r.unit)},
      {"subject", r.subject},     {"subject_figure", figure_json(r.subject_figure)}};
  if (!r.anchor.empty()) {
    constexpr std::array kinds{"heddle", "limit", "rival", "rival, host helps"};
    json["anchor"] = r.anchor;
    json["anchor_kind"] = kinds[static_cast<std::size_t>(r.anchor_kind)];
    json["anchor_figure"] = figure_json(r.anchor_figure);
    json["ratio"] = figure_json(r.ratio);
    json["ping_pong_ns"] = r.ping_pong.median;
  }
  json["pairs"] = r.pairs;
  json["dropped"] = r.dropped;
  if (const Goal* const goal = goal_for(r)) {
    json["goal"] = {{"at_most", goal->at_most},
                    {"unit", unit_name(goal->unit)},
                    {"reached", r.pairs == 0 ? nullptr : nlohmann::ordered_json(reached(*goal, r))},
                    {"met", r.pairs == 0 ? nullptr : nlohmann::ordered_json(met(*goal, r))}};
  }
  return json;
}

}  // namespace

std::string title(const Result& row) {
  return row.anchor.empty()
             ? fmt::format("{}: {}", row.workload, row.subject)
             : fmt::format("{}: {} against {}", row.workload, row.subject, row.anchor);
}

std::string rows_list(std::span<const Result> rows) {
  std::string text;
  for (const Result& row : rows) {
    const Goal* const goal = goal_for(row);
    text += title(row) + (goal != nullptr ? ", goal " + goal_text(*goal) : "") + "\n";
  }
  return text;
}

std::string results_table(std::span<const Result> results, const Machine& machine) {
  std::vector<Cells> rows{{"workload", "subject", "anchor", "ratio (quartiles)", "goal", "subject",
                           "p99", "anchor", "p99", "ping-pong", "pairs"}};
  for (const Result& result : results) rows.push_back(cells(result));
  std::array<std::size_t, std::tuple_size_v<Cells>> widths{};
  for (const Cells& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const Cells& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) {
      line += k < 3 || k == 4 ? fmt::format("{:<{}}  ", row[k], widths[k])
                              : fmt::format("{:>{}}  ", row[k], widths[k]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const std::string& each : machine.frameworks) text += fmt::format("rival: {}\n", each);
  return text +
         fmt::format(
             "ratio = subject / anchor, median of pairs; ping-pong = spin round trip between the "
             "two processors meanwhile (quartiles); pairs = steady/all; without anchor: median of "
             "readings\n"
             "{} processors, load {:.2f} before, spin ping-pong {}, two threads of arithmetic / "
             "one {:.2f}\n",
             machine.processors, machine.load, optional_text(machine.ping_pong_ns, Unit::ns),
             machine.scaling);
}

std::string results_json(std::span<const Result> results, const Machine& machine) {
  nlohmann::ordered_json json;
  json["machine"] = {{"processors", machine.processors},
                     {"load", machine.load},
                     {"ping_pong_ns", machine.ping_pong_ns},
                     {"scaling", machine.scaling},
                     {"frameworks", machine.frameworks}};
  json["rivals_left_out"] = machine.rivals_left_out;
  json["results"] = nlohmann::ordered_json::array();
  for (const Result& result : results) json["results"].push_back(result_json(result));
  return json.dump(2) + "\n";
}

}  // namespace heddle::bench
