// See report.hpp.
#include "tools/bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

namespace heddle::bench {
namespace {

/// Three digits and a unit that fits.
std::string time_text(double ns) {
  if (ns <= 0) return "-";
  constexpr std::array units{"ns", "us", "ms", "s"};
  std::size_t unit = 0;
  for (; ns >= 1000 && unit + 1 < units.size(); ++unit) ns /= 1000;
  return fmt::format("{:.{}f} {}", ns, ns < 10 ? 2 : (ns < 100 ? 1 : 0), units[unit]);
}

std::string ratio_text(const Result& result) {
  if (result.pairs == 0) return "no steady pair";
  return fmt::format("{:.2f} ({:.2f}..{:.2f})", result.ratio, result.ratio_low, result.ratio_high);
}

using Row = std::array<std::string, 9>;

Row cells(const Result& result) {
  return {result.workload,
          result.subject,
          result.anchor,
          ratio_text(result),
          time_text(result.subject_ns),
          time_text(result.subject_p99_ns),
          time_text(result.anchor_ns),
          time_text(result.anchor_p99_ns),
          fmt::format("{}/{}", result.pairs, result.pairs + result.dropped)};
}

}  // namespace

std::string results_table(std::span<const Result> results, const Machine& machine) {
  std::vector<Row> rows{{"workload", "subject", "anchor", "ratio (quartiles)", "subject", "p99",
                         "anchor", "p99", "pairs"}};
  for (const Result& result : results) rows.push_back(cells(result));
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) {
      line += k < 3 ? fmt::format("{:<{}}  ", row[k], widths[k])
                    : fmt::format("{:>{}}  ", row[k], widths[k]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text +
         fmt::format(
             "ratio = time of subject / time of anchor, median of pairs; pairs = steady/all\n"
             "{} processors, spin ping-pong {}, two threads of arithmetic / one {:.2f}\n",
             machine.processors, time_text(machine.ping_pong_ns), machine.scaling);
}

std::string results_json(std::span<const Result> results, const Machine& machine) {
  nlohmann::ordered_json json;
  json["machine"] = {{"processors", machine.processors},
                     {"ping_pong_ns", machine.ping_pong_ns},
                     {"scaling", machine.scaling}};
  json["results"] = nlohmann::ordered_json::array();
  for (const Result& r : results) {
    json["results"].push_back({{"name", r.name},
                               {"workload", r.workload},
                               {"unit", r.unit},
                               {"subject", r.subject},
                               {"anchor", r.anchor},
                               {"ratio", r.ratio},
                               {"ratio_low", r.ratio_low},
                               {"ratio_high", r.ratio_high},
                               {"subject_ns", r.subject_ns},
                               {"subject_p99_ns", r.subject_p99_ns},
                               {"anchor_ns", r.anchor_ns},
                               {"anchor_p99_ns", r.anchor_p99_ns},
                               {"pairs", r.pairs},
                               {"dropped", r.dropped},
                               {"ping_pong_ns", r.ping_pong_ns}});
  }
  return json.dump(2) + "\n";
}

}  // namespace heddle::bench
