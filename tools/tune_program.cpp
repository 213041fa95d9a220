// See tune_program.hpp.
#include "tools/tune_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/terminal.hpp"

namespace heddle::tools {
namespace {

using TunedJson = nlohmann::ordered_json;

std::string fate(const TunedSchedule& tuned, std::size_t k) {
  const TunedCandidate& candidate = tuned.candidates[k];
  std::string text(k == tuned.best ? "taken" : name(candidate.verdict));
  if (!candidate.same_order) text += ", sums in another order";
  return text;
}

std::string candidate_line(const TunedSchedule& tuned, std::size_t k, std::size_t width,
                           bool colour) {
  const TunedCandidate& each = tuned.candidates[k];
  const std::string choices = each.choices.to_string();
  const std::string times = each.rounds == 0
                                ? fmt::format("{:>12}  {:>6}", "-", "-")
                                : fmt::format("{:>9.1f} us  {:>6.3f}", each.median_us, each.ratio);
  const std::string line =
      fmt::format("{} {:<{}}  {:>9.1f} us  {}  {:>6}  {}", k == tuned.best ? '*' : ' ', choices,
                  width, each.estimated_us, times, each.rounds, fate(tuned, k));
  if (k == tuned.best) return paint(line, Colour::good, colour) + "\n";
  const bool wrong = each.verdict == TuneVerdict::different || each.verdict == TuneVerdict::failed;
  return (wrong ? paint(line, Colour::bad, colour) : line) + "\n";
}

TunedJson tuned_json(const TunedSchedule& tuned) {
  TunedJson rows = TunedJson::array();
  for (const TunedCandidate& each : tuned.candidates) {
    TunedJson row{{"choices", each.choices.to_string()},
                  {"estimated_us", each.estimated_us},
                  {"median_us", nullptr},
                  {"ratio", nullptr},
                  {"rounds", each.rounds},
                  {"same_order", each.same_order},
                  {"verdict", name(each.verdict)}};
    if (each.rounds > 0) {
      row["median_us"] = each.median_us;
      row["ratio"] = each.ratio;
    }
    rows.push_back(std::move(row));
  }
  return {{"best", tuned.best},
          {"choices", tuned.choices().to_string()},
          {"kept", !tuned.file.empty()},
          {"too_short", tuned.too_short},
          {"file", tuned.file.empty() ? TunedJson() : TunedJson(tuned.file)},
          {"problem", tuned.problem},
          {"candidates", std::move(rows)}};
}

std::string outcome(const TunedSchedule& tuned, const TuneOptions& options) {
  if (tuned.too_short) {
    return fmt::format(
        "not kept: {:.3g} s were too short to measure a candidate; give more "
        "(--budget)\n",
        std::chrono::duration<double>(options.budget).count());
  }
  if (!tuned.problem.empty()) return fmt::format("not kept: {}\n", tuned.problem);
  return fmt::format("kept in {}\n", tuned.file);
}

}  // namespace

std::string tuned_table(const TunedSchedule& tuned, bool colour) {
  std::size_t width = 9;
  for (const TunedCandidate& each : tuned.candidates)
    width = std::max(width, each.choices.to_string().size());
  std::string text = fmt::format("  {:<{}}  {:>12}  {:>12}  {:>6}  {:>6}\n", "candidate", width,
                                 "estimate", "measured", "ratio", "rounds");
  for (std::size_t k = 0; k < tuned.candidates.size(); ++k)
    text += candidate_line(tuned, k, width, colour);
  return text;
}

TuneReport tune_program(const Backend& backend, const Program& program,
                        const TuneProgramOptions& options, bool colour) {
  CompileOptions compile;
  compile.fast_math = options.fast_math;
  compile.tune = options.tune;
  const TunedSchedule tuned = backend.tune(program, compile);
  TuneReport report{{}, !tuned.file.empty()};
  report.text =
      options.json
          ? tuned_json(tuned).dump(2, ' ', false, TunedJson::error_handler_t::replace) + "\n"
          : tuned_table(tuned, colour) + outcome(tuned, options.tune);
  return report;
}

}  // namespace heddle::tools
