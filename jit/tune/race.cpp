// See tune/race.hpp.
#include "jit/tune/race.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle::jit {
namespace {

/// The quantile `part` of the values; 0.5 is the median.
double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const double last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + std::lround(last * part);
  std::ranges::nth_element(values, at);
  return *at;
}
double middle_of(const std::vector<double>& values) { return quantile(values, 0.5); }

/// The share of rounds that may be outliers when two candidates are compared: none while there are
/// few rounds.
double outliers(std::size_t rounds) { return rounds < 7 ? 0 : 0.25; }

/// The largest ratio to the best at which a candidate stays after so many rounds.
double slower_max(std::size_t rounds) {
  if (rounds < rounds_min) return std::numeric_limits<double>::infinity();
  return rounds < 7 ? 1.3 : rounds < 15 ? 1.1 : 1.03;
}

class Race {
 public:
  Race(std::size_t count, const RaceRun& run, const RaceClock& clock, const RaceOptions& options)
      : run_(run), clock_(clock), options_(options), failed_(count) {
    result_.all.resize(count);
  }

  RaceResult take_place() {
    for (std::size_t round = 0; round < rounds_max && one_round(round); ++round) {
      if (!options_.exhaustive) drop();
    }
    result_.first_seconds = middle_of(firsts_);
    choose();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool over() const { return clock_() >= options_.until; }
  [[nodiscard]] bool runs(std::size_t k) const { return !result_.all[k].dropped && !failed_[k]; }

  /// Runs one round; true if a further round is needed.
  bool one_round(std::size_t round) {
    bool any = false;
    for (std::size_t k = 1; k < result_.all.size(); ++k) {
      if (!runs(k)) continue;
      if (over()) return false;
      any = true;
      if (!pair(k, (round + k) % 2 == 0)) return false;
    }
    return any;
  }

  /// Runs the first candidate and candidate k; false where the first candidate cannot run.
  bool pair(std::size_t k, bool first_before) {
    std::optional<double> first, other;
    if (first_before) first = run_(0);
    if (!first_before || first) other = run_(k);
    if (!first_before) first = run_(0);
    if (!first) return false;
    firsts_.push_back(*first);
    if (!other) {
      failed_[k] = true;
      return true;
    }
    result_.all[0].ratios.push_back(1);
    result_.all[k].ratios.push_back(*first > 0 ? *other / *first : 1);
    return true;
  }

  /// Drops candidates that are slower than the best by more than the machine's noise. If the best
  /// slows down, candidates dropped because of the best run again.
  void drop() {
    double best = 1, at_worst = 1;
    for (std::size_t k = 1; k < result_.all.size(); ++k) {
      const std::vector<double>& ratios = result_.all[k].ratios;
      if (failed_[k] || ratios.size() < rounds_min || middle_of(ratios) >= best) continue;
      best = middle_of(ratios);
      at_worst = std::min(1.0, quantile(ratios, 1 - outliers(ratios.size())));
    }
    for (std::size_t k = 1; k < result_.all.size(); ++k) {
      Raced& each = result_.all[k];
      const std::size_t rounds = each.ratios.size();
      each.dropped = quantile(each.ratios, outliers(rounds)) > at_worst * slower_max(rounds);
    }
  }

  void choose() {
    double least = 1 / gain_min;
    for (std::size_t k = 1; k < result_.all.size(); ++k) {
      const Raced& each = result_.all[k];
      if (each.ratios.size() < rounds_min) continue;
      if (!result_.best) result_.best = 0;
      if (failed_[k] || each.ratio() >= least) continue;
      least = each.ratio();
      result_.best = k;
    }
  }

  const RaceRun& run_;
  const RaceClock& clock_;
  const RaceOptions& options_;
  std::vector<bool> failed_;
  std::vector<double> firsts_;  // seconds
  RaceResult result_;
};

}  // namespace

double Raced::ratio() const { return middle_of(ratios); }

RaceResult race(std::size_t count, const RaceRun& run, const RaceClock& clock,
                const RaceOptions& options) {
  return Race(count, run, clock, options).take_place();
}

}  // namespace heddle::jit
