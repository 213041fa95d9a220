// See tune/race.hpp.
#include "jit/tune/race.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle::jit {
namespace {

/// The value that this part of all does not reach: 0.5: the one in the middle.
double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const double last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + std::lround(last * part);
  std::ranges::nth_element(values, at);
  return *at;
}
double middle_of(const std::vector<double>& values) { return quantile(values, 0.5); }

/// How far apart two candidates' rounds are has to show in all but the outliers: in all, as long as
/// they are few.
double outliers(std::size_t rounds) { return rounds < 7 ? 0 : 0.25; }

/// How much slower than the best a candidate may be that has run so many rounds.
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

  /// Whether there is to be another one.
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

  /// The first one and another; false where the first one cannot run.
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

  /// Those that are slower than the best, beyond what disturbs the machine. The best may turn out
  /// not to be: then those that were dropped for it run again.
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
