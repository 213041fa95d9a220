// Explores a scenario: every schedule within a bound, and many random schedules; the expectations
// of tests on scenarios and mutants. One thread runs the scenarios.
#pragma once

// Included before Relacy's macros.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>

#include "tests/model/model.hpp"

namespace heddle::model {

/// The destination of Relacy's reports: a buffer that does not grow, because Relacy replaces
/// operator new while it runs. Text beyond its size is dropped.
class Report : public std::streambuf {
 public:
  Report() { setp(text_.data(), text_.data() + text_.size()); }
  [[nodiscard]] std::string text() const { return std::string(pbase(), pptr()); }

 protected:
  int overflow(int c) override { return c; }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const auto fits = std::min<std::streamsize>(count, epptr() - pptr());
    std::memcpy(pptr(), text, static_cast<std::size_t>(fits));
    pbump(static_cast<int>(fits));
    return count;
  }

 private:
  std::array<char, 1 << 16> text_;
};

struct Verdict {
  bool holds = false;
  std::uint64_t schedules = 0;
  std::string report;
};

/// Every schedule with at most `context_bound` preemptions, or `count` random schedules.
template <class Scenario>
Verdict explore(rl::scheduler_type_e search, unsigned context_bound, std::uint64_t count) {
  const auto report = std::make_unique<Report>();
  std::ostream stream(report.get());
  rl::test_params params;
  params.search_type = search;
  params.context_bound = context_bound;
  params.iteration_count = static_cast<rl::iteration_t>(count);
  params.output_stream = &stream;
  params.progress_stream = &stream;
  Verdict verdict;
  AccessLog::get().begin();
  verdict.holds = rl::simulate<Scenario>(params);
  verdict.schedules = static_cast<std::uint64_t>(params.stop_iteration);
  verdict.report = report->text();
  return verdict;
}

/// The depth of the tests; a number in the environment variable `name` replaces `usual`.
inline std::uint64_t depth(const char* name, std::uint64_t usual) {
  const char* const text = std::getenv(name);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}
inline unsigned context_bound() { return static_cast<unsigned>(depth("HEDDLE_MODEL_BOUND", 2)); }
inline std::uint64_t random_schedules() { return depth("HEDDLE_MODEL_RANDOM", 100'000); }

/// Explores every schedule up to the context bound (some scenarios are too large for it), and many
/// random schedules.
template <class Scenario>
void expect_holds(int more_bound = 0) {
  constexpr std::uint64_t endless = std::uint64_t{1} << 48;
  Verdict random{true, 0, ""};
  if (random_schedules() > 0) random = explore<Scenario>(rl::sched_random, 0, random_schedules());
  ASSERT_TRUE(random.holds) << random.report;
  const unsigned bound =
      static_cast<unsigned>(std::max(1, static_cast<int>(context_bound()) + more_bound));
  const Verdict bounded = explore<Scenario>(rl::sched_bound, bound, endless);
  EXPECT_TRUE(bounded.holds) << bounded.report;
  std::printf("%llu schedules to context bound %u, %llu random\n",
              static_cast<unsigned long long>(bounded.schedules), bound,
              static_cast<unsigned long long>(random.schedules));
}

/// Tries random schedules first, which mostly find the mutant soon; always within the usual depth,
/// whichever depth the tests use otherwise.
template <class Scenario>
void expect_caught(const Mutant& mutant = {}) {
  if (one_by_one()) return;
  planted = mutant;
  deferred = {};
  Verdict verdict = explore<Scenario>(rl::sched_random, 0, 500'000);
  if (verdict.holds) verdict = explore<Scenario>(rl::sched_bound, 3, 10'000'000);
  planted = {};
  EXPECT_FALSE(verdict.holds) << "nobody noticed: in '" << mutant.in << "' mutation "
                              << static_cast<int>(mutant.mutation) << ", omission "
                              << static_cast<int>(mutant.omission);
  if (!verdict.holds)
    std::printf("  mutant caught in schedule %llu\n",
                static_cast<unsigned long long>(verdict.schedules));
}

}  // namespace heddle::model
