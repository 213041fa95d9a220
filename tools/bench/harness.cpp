// Gauges, and the alternation of slices.
#include "tools/bench/harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "heddle/status.hpp"
#include "tools/bench/limit_ping_pong.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {
namespace {

/// A pair during which the gauge changed by more than this ran under different conditions.
constexpr double gauge_change_max = 1.3;
/// Limit of attempts for each wanted pair; on an unsteady machine the case ends with the pairs
/// found so far.
constexpr int attempts_factor = 4;

double percentile_of(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(
      std::min(static_cast<double>(values.size()) - 1, share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

Figure figure_of(const std::vector<double>& values) {
  return {percentile_of(values, 0.5), percentile_of(values, 0.25), percentile_of(values, 0.75)};
}

bool steady(double before, double after) {
  return std::max(before, after) <= gauge_change_max * std::min(before, after);
}

/// Dependent multiply-adds: bound by the core, not by memory. Returns operations per ns.
double arithmetic_speed(nanoseconds length) {
  volatile float sink = 1;
  const double ns = timed_loop(length, 4096, [&sink](std::size_t count) {
    float lanes[32] = {};
    for (std::size_t k = 0; k < count; ++k) {
      for (float& lane : lanes) lane = lane * 0.999F + 0.5F;
    }
    sink = lanes[0] + lanes[31];
  });
  return 1 / ns;
}

}  // namespace

double Samples::mean() const {
  double sum = 0;
  for (const double value : values_) sum += value;
  return values_.empty() ? 0 : sum / static_cast<double>(values_.size());
}

double Samples::percentile(double share) const { return percentile_of(values_, share); }

void require_all_ran(const char* contender, std::uint64_t ran, std::uint64_t expected) {
  if (ran == expected) return;
  throw Error(ErrorCode::internal, fmt::format("{} ran {} of {} tasks", contender, ran, expected));
}

void pause_for(double ns) {
  const auto start = Clock::now();
  while (ns_between(start, Clock::now()) < ns) spin_pause();
}

double gauge_ping_pong() {
  if (processors().size() < 2) return 0;
  PingPong ping_pong(worker_processor);
  for (int k = 0; k < 500; ++k) ping_pong.round_trip();
  std::vector<double> parts;  // the median of parts is robust against an interrupt
  for (int part = 0; part < 9; ++part) {
    const auto start = Clock::now();
    for (int k = 0; k < 400; ++k) ping_pong.round_trip();
    parts.push_back(ns_between(start, Clock::now()) / 400);
  }
  return percentile_of(parts, 0.5);
}

double gauge_scaling() {
  if (processors().size() < 2) return 1;
  constexpr auto length = std::chrono::milliseconds(5);
  // The best of several rounds: other programs can only slow rounds down.
  double alone = 0, together = 0;
  for (int round = 0; round < 5; ++round) {
    alone = std::max(alone, arithmetic_speed(length));
    double other = 0;
    std::thread helper([&other, length] {
      pin_this_thread(worker_processor);
      other = arithmetic_speed(length);
    });
    const double own = arithmetic_speed(length);
    helper.join();
    together = std::max(together, own + other);
  }
  return together / alone;
}

Result head_of(const Case& which) {
  Result head{which.name,         which.workload,    which.operation,
              which.subject.name, which.anchor.name, which.anchor.kind};
  head.line = which.line;
  head.column = which.column;
  return head;
}

Result head_of(const Gauge& which) {
  Result result{which.name, which.workload, which.operation, which.subject};
  result.unit = which.unit;
  return result;
}

Result measure(const Case& which, const Plan& plan) {
  std::vector<double> ratios, subject, anchor, gauges;
  Samples subject_samples, anchor_samples;
  Result result = head_of(which);
  Samples warming;
  which.subject.slice(which.slice / 4, warming);
  which.anchor.slice(which.slice / 4, warming);

  // The preparation by the first slices (arrays, kernels, other processes) is outside the time.
  const auto end =
      Clock::now() + std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(
                         std::min(plan.seconds_max, which.seconds_max)));
  const auto gauge = [&which] { return which.gauged ? gauge_ping_pong() : 0; };
  double before = gauge();
  for (int attempt = 0; attempt < attempts_factor * plan.pairs_wanted; ++attempt) {
    const bool enough = static_cast<int>(ratios.size()) >= plan.pairs_wanted;
    if (attempt > 0 && (enough || Clock::now() > end)) break;  // one pair at least
    double s = 0, a = 0;
    for (const bool subject_now : {attempt % 2 == 0, attempt % 2 != 0}) {
      (subject_now ? s : a) = subject_now ? which.subject.slice(which.slice, subject_samples)
                                          : which.anchor.slice(which.slice, anchor_samples);
    }
    const double after = gauge();
    gauges.push_back(after);
    if (steady(before, after)) {
      ratios.push_back(s / a);
      subject.push_back(s);
      anchor.push_back(a);
    } else {
      ++result.dropped;
    }
    before = after;
  }
  result.pairs = static_cast<int>(ratios.size());
  result.ratio = figure_of(ratios);
  result.subject_figure = figure_of(subject);
  result.anchor_figure = figure_of(anchor);
  result.subject_figure.p99 = subject_samples.percentile(0.99);
  result.anchor_figure.p99 = anchor_samples.percentile(0.99);
  result.ping_pong = figure_of(gauges);
  return result;
}

Result measure(const Gauge& which, const Plan& plan) {
  Result result = head_of(which);
  std::vector<double> readings;
  for (int k = 0; k < std::min(which.readings, plan.pairs_wanted); ++k) {
    readings.push_back(which.read());
  }
  result.subject_figure = figure_of(readings);
  result.pairs = static_cast<int>(readings.size());
  return result;
}

}  // namespace heddle::bench
