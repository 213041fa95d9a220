// Random programs through every stage and both compilers, against a plain interpreter of the loops
// that lowering makes, whose operations and conversions are not the product's: every bit, but where
// schedules take sums in another order, which may move results by what that can do to them. What a
// schedule's own loops give, interpreted, is what it must give to the bit. One program of two is
// scheduled, and two of four are large. HEDDLE_TEST_SEEDS=n looks at n programs instead of 5,000
// (by gccjit; cc, which is slower, compiles every fifth unit), HEDDLE_TEST_SEED=s at those from s
// on. A failing seed is printed and makes its program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "fuzz/static_values.hpp"
#include "heddle/status.hpp"
#include "jit/code/memory_plan.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/parallel.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/toolchain/compiler.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"
#include "unit/jit_compile/kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::uint64_t programs_per_unit = 100;

/// A program, as it was lowered and as it is compiled.
struct Subject {
  std::uint64_t seed;
  RandomProgram random;
  Lowered before, after;
  bool scheduled = false;
};

/// What a subject gives: by its loops as they were lowered, how far schedules may move that, and,
/// where there is a schedule, what its own loops give. Arrays by buffers of `before` and `after`.
struct Expected {
  std::vector<HostArray> plain;
  ElementErrors errors;
  std::vector<HostArray> scheduled;
};

/// None where the program asks for a memory mode that it cannot keep.
std::optional<Subject> make_subject(std::uint64_t seed) {
  RandomProgram random = random_program(seed, {.large = seed % 4 < 2});
  Lowered before = lower(random.program);
  try {
    Lowered after = optimize(before);
    const bool scheduled = seed % 2 == 0;
    Target target = native_target();
    // All that may run in parts is marked.
    if (seed % 3 == 0) target.profile.part_bytes = target.sum_bytes = 1;
    if (scheduled) after = schedule(std::move(after), target);
    return Subject{seed, std::move(random), std::move(before), std::move(after), scheduled};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << "seed " << seed << error.what();
    return std::nullopt;
  }
}

bool is_merge(const Lowered& lowered, std::size_t k) {
  return lowered.loop.buffers[k].role == Role::merge;
}

/// Which buffer of `before` is the k-th of `after`; none for what schedules added.
std::optional<std::size_t> partner(const Subject& subject, std::size_t k) {
  for (std::size_t at = 0; at < subject.before.tensors.size(); ++at) {
    if (subject.before.tensors[at] == subject.after.tensors[k] &&
        is_merge(subject.before, at) == is_merge(subject.after, k))
      return at;
  }
  return std::nullopt;
}

/// The k-th array of `after` as a run finds it. Scratch, and what the kernel says to overwrite
/// whole, is garbage.
HostArray array_before(const Subject& subject, const Signature& signature, std::size_t k) {
  const SignatureEntry& entry = signature.entries[k];
  const auto from = partner(subject, k);
  HostArray array =
      random_array(subject.after.loop.buffers[k].type, subject.seed + from.value_or(0));
  if ((entry.role == Role::scratch || entry.overwrites_whole) && array.num_bytes() > 0)
    std::memset(array.data(), 0xa5, array.num_bytes());
  return array;
}

Expected interpreted(const Subject& subject) {
  Expected expected;
  for (std::size_t k = 0; k < subject.before.tensors.size(); ++k)
    expected.plain.push_back(random_array(subject.before.loop.buffers[k].type, subject.seed + k));
  expected.errors = interpret_bounded(subject.before.loop, expected.plain,
                                      statics_of(subject.before, subject.random));
  if (!subject.scheduled) return expected;
  const Signature signature = make_signature(subject.after);
  for (std::size_t k = 0; k < subject.after.tensors.size(); ++k)
    expected.scheduled.push_back(array_before(subject, signature, k));
  interpret(subject.after.loop, expected.scheduled, statics_of(subject.after, subject.random));
  return expected;
}

MemoryPlan scratch_of(const Subject& subject, const Signature& signature) {
  std::vector<std::uint32_t> entries(signature.entries.size());
  std::iota(entries.begin(), entries.end(), 0U);
  const Step step = KernelStep{subject.after.verified, nullptr, std::move(entries), {}};
  return plan_scratch(signature, {&step, 1});
}

/// What the kernel does to the same arrays. Its scratch lies where a routine's does: entries that
/// are not alive at once share bytes.
std::vector<HostArray> compiled(const Subject& subject, heddle_kernel_function function) {
  const Signature signature = make_signature(subject.after);
  const MemoryPlan plan = scratch_of(subject, signature);
  const HostArray scratch({u8, {static_cast<std::int64_t>(plan.bytes)}});
  std::memset(scratch.data(), 0xa5, plan.bytes);
  std::vector<HostArray> arrays;
  std::vector<heddle_kernel_buffer> entries;
  for (std::size_t k = 0; k < subject.after.tensors.size(); ++k) {
    HostArray array = array_before(subject, signature, k);
    const bool is_scratch = signature.entries[k].role == Role::scratch;
    void* const place = static_cast<std::byte*>(scratch.data()) + plan.offsets[k];
    entries.push_back({is_scratch ? place : array.data(), array.num_bytes()});
    arrays.push_back(std::move(array));
  }
  call_kernel(function, entries, statics_of(subject.after, subject.random));
  return arrays;
}

/// `errors`: how far `found` may be from `wanted`; none: no bit.
void expect_near(const Subject& subject, std::size_t k, const HostArray& wanted,
                 const HostArray& found, std::span<const double> errors, std::string_view what) {
  ASSERT_TRUE(near_elements(wanted, found, errors))
      << what << ", seed " << subject.seed << ", t" << k << "\n"
      << render_array(wanted.type(), wanted.data()) << "\n"
      << render_array(found.type(), found.data()) << "\n"
      << subject.random.program.to_string() << print(subject.before.loop) << "\n"
      << print(subject.after.loop);
}

void expect_same(const Subject& subject, const Expected& expected,
                 const std::vector<HostArray>& found, std::string_view compiler) {
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (subject.after.loop.buffers[k].role == Role::scratch) continue;
    if (subject.scheduled) {
      expect_near(subject, k, expected.scheduled[k], found[k], {},
                  fmt::format("{} and the schedule's loops", compiler));
    } else {
      expect_near(subject, k, expected.plain[*partner(subject, k)], found[k], {}, compiler);
    }
  }
}

/// The schedule's loops against those that were lowered.
void expect_kept(const Subject& subject, const Expected& expected) {
  if (!subject.scheduled) return;
  for (std::size_t k = 0; k < expected.scheduled.size(); ++k) {
    if (subject.after.loop.buffers[k].role == Role::scratch) continue;
    const std::size_t at = *partner(subject, k);
    expect_near(subject, k, expected.plain[at], expected.scheduled[k], expected.errors[at],
                "the schedule");
  }
}

/// Elements whose values are known to some bound, of all that outlive a run.
struct Seen {
  std::size_t known = 0, all = 0;
  void add(const Subject& subject, const Expected& expected) {
    for (std::size_t k = 0; k < subject.after.tensors.size(); ++k) {
      if (subject.after.loop.buffers[k].role == Role::scratch) continue;
      const auto& errors = expected.errors[*partner(subject, k)];
      all += errors.size();
      known += static_cast<std::size_t>(
          std::ranges::count_if(errors, [](double error) { return std::isfinite(error); }));
    }
  }
};

// J3, J5, B3, D2: all dtypes, operations, accumulations, subscripts, memory modes; every bit
TEST(FuzzTest, CompiledEqualsInterpreted) {
  ToolOptions options;
  options.compile_timeout = std::chrono::minutes(10);
  const auto gccjit = make_gccjit_compiler(options);
  const auto cc = make_cc_compiler(options);
  std::uint64_t ran = 0;
  Seen seen;
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 1);
  const std::uint64_t count = test::seeds(5'000), end = begin + count;
  for (std::uint64_t first = begin; first < end; first += programs_per_unit) {
    CompileUnit unit;
    unit.name = "fuzz";
    std::vector<Subject> subjects;
    for (std::uint64_t seed = first; seed < std::min(end, first + programs_per_unit); ++seed) {
      std::optional<Subject> subject = make_subject(seed);
      if (!subject) continue;
      unit.kernels.push_back({.name = "seed" + std::to_string(seed),
                              .loop = subject->after.verified,
                              .names = {},
                              .addresses = {}});
      subjects.push_back(std::move(*subject));
    }
    std::vector<std::pair<std::string_view, std::shared_ptr<const dev::Module>>> modules;
    modules.emplace_back("gccjit", loaded(*gccjit->compile(unit)));
    if (first / programs_per_unit % 5 == 0) modules.emplace_back("cc", loaded(*cc->compile(unit)));
    for (std::size_t k = 0; k < subjects.size(); ++k) {
      const Expected expected = interpreted(subjects[k]);
      seen.add(subjects[k], expected);
      expect_kept(subjects[k], expected);
      if (HasFatalFailure()) return;
      for (const auto& [name, module] : modules) {
        expect_same(subjects[k], expected, compiled(subjects[k], module->host_function(k)), name);
        if (HasFatalFailure()) return;
      }
      ++ran;
    }
  }
  EXPECT_GT(ran, count / 2);
  EXPECT_GT(seen.known, seen.all * 9 / 10) << "most results should be looked at";
}

/// Two to five parts, in a random order.
std::vector<std::int64_t> parts_in_disorder(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> order(2 + seed % 4);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  return order;
}

// J7, S19: kernels cut wherever they may be do what the whole one does, bit for bit, also where the
// parts of each run in any order
TEST(FuzzTest, KernelsCutAreTheWhole) {
  std::size_t cut = 0, shared_out = 0;
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 1);
  for (std::uint64_t seed = begin; seed < begin + test::seeds(2'000); ++seed) {
    const std::optional<Subject> subject = make_subject(seed);
    if (!subject) continue;
    const Loop& loop = subject->after.loop;
    const std::vector<std::int64_t> statics = statics_of(subject->after, subject->random);
    const auto arrays = [&] {
      std::vector<HostArray> made;
      for (std::size_t k = 0; k < loop.buffers.size(); ++k)
        made.push_back(random_array(loop.buffers[k].type, seed + k));
      return made;
    };
    const std::vector<HostArray> whole = arrays(), parts = arrays();
    interpret(loop, whole, statics);
    const std::vector<KernelPart> kernels = cut_kernels(loop, 1);
    if (kernels.size() > 1) ++cut;
    for (const KernelPart& part : kernels) {
      ASSERT_TRUE(verify(part.loop).ok()) << "seed " << seed << print(part.loop);
      std::vector<HostArray> buffers;
      std::vector<std::int64_t> values;
      for (const std::uint32_t entry : part.entries) buffers.push_back(parts[entry]);
      for (const std::uint32_t k : part.statics) values.push_back(statics[k]);
      interpret_in_parts(part.loop, buffers, values, parts_in_disorder(seed));
      if (parts_of(part.loop, 1) > 1) ++shared_out;
    }
    for (std::size_t k = 0; k < whole.size(); ++k) {
      if (loop.buffers[k].role == Role::scratch) continue;
      ASSERT_TRUE(same_elements(parts[k], whole[k])) << "seed " << seed << ", t" << k;
    }
  }
  EXPECT_GT(cut, test::seeds(2'000) / 4);
  EXPECT_GT(shared_out, test::seeds(2'000) / 20);
}

}  // namespace
}  // namespace heddle::jit::testing
