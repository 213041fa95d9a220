// Random programs through every stage and both compilers, against a plain interpreter of the loops
// that lowering makes; of each second one scheduled, against that of its schedule, which may sum in
// another order. HEDDLE_TEST_SEEDS=n looks at n programs instead of 5,000 (by gccjit; cc,
// which is slower, compiles every fifth unit), HEDDLE_TEST_SEED=s at those from s on. A failing
// seed is printed and makes its program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/status.hpp"
#include "jit/compile.hpp"
#include "jit/loop_text.hpp"
#include "jit/lower.hpp"
#include "jit/schedule.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"
#include "unit/jit_compile/kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::uint64_t programs_per_unit = 100;

/// A program, as it is interpreted and as it is compiled.
struct Subject {
  std::uint64_t seed;
  RandomProgram random;
  Lowered before, after;
};

/// None where the program asks for a memory mode that it cannot keep.
std::optional<Subject> make_subject(std::uint64_t seed) {
  RandomProgram random = random_program(seed);
  Lowered before = lower(random.program);
  try {
    Lowered after = optimize(before);
    if (seed % 2 == 0) before = after = schedule(std::move(after), native_target());
    return Subject{seed, std::move(random), std::move(before), std::move(after)};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << "seed " << seed << error.what();
    return std::nullopt;
  }
}

std::vector<std::int64_t> statics_of(const Lowered& lowered, const RandomProgram& random) {
  std::vector<std::int64_t> values;
  for (const StaticIndex& index : lowered.statics) {
    const auto at = std::ranges::find(random.statics, index, [](const auto& s) { return s.first; });
    values.push_back(at->second);
  }
  return values;
}

bool is_merge(const Lowered& lowered, std::size_t k) {
  return lowered.loop.buffers[k].role == Role::merge;
}

/// Which buffer of `before` is the k-th of `after`.
std::size_t partner(const Subject& subject, std::size_t k) {
  std::size_t at = 0;
  while (!(subject.before.tensors[at] == subject.after.tensors[k] &&
           is_merge(subject.before, at) == is_merge(subject.after, k))) {
    ++at;
  }
  return at;
}

std::vector<HostArray> interpreted(const Subject& subject) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < subject.before.tensors.size(); ++k)
    arrays.push_back(random_array(subject.before.loop.buffers[k].type, subject.seed + k));
  interpret(subject.before.loop, arrays, statics_of(subject.before, subject.random));
  return arrays;
}

/// What the kernel does to the same arrays. Scratch, and what it says to overwrite whole, starts as
/// garbage.
std::vector<HostArray> compiled(const Subject& subject, heddle_kernel_function function) {
  const Signature signature = make_signature(subject.after.loop);
  std::vector<HostArray> arrays;
  std::vector<heddle_kernel_buffer> entries;
  for (std::size_t k = 0; k < subject.after.tensors.size(); ++k) {
    HostArray array =
        random_array(subject.after.loop.buffers[k].type, subject.seed + partner(subject, k));
    const SignatureEntry& entry = signature.entries[k];
    if ((entry.role == Role::scratch || entry.overwrites_whole) && array.num_bytes() > 0)
      std::memset(array.data(), 0xa5, array.num_bytes());
    entries.push_back({array.data(), array.num_bytes()});
    arrays.push_back(std::move(array));
  }
  call_kernel(function, entries, statics_of(subject.after, subject.random));
  return arrays;
}

void expect_same(const Subject& subject, const std::vector<HostArray>& expected,
                 const std::vector<HostArray>& found, std::string_view compiler) {
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (subject.after.loop.buffers[k].role == Role::scratch) continue;
    const HostArray& wanted = expected[partner(subject, k)];
    ASSERT_TRUE(same_elements(wanted, found[k]))
        << compiler << ", seed " << subject.seed << ", t" << k << "\n"
        << render_array(wanted.type(), wanted.data()) << "\n"
        << render_array(found[k].type(), found[k].data()) << "\n"
        << subject.random.program.to_string() << print(subject.before.loop) << "\n"
        << print(subject.after.loop);
  }
}

// J3, J5, B3: all dtypes, operations, accumulations, subscripts, memory modes; every bit
TEST(FuzzTest, CompiledEqualsInterpreted) {
  ToolOptions options;
  options.compile_timeout = std::chrono::minutes(10);
  const auto gccjit = make_gccjit_compiler(options);
  const auto cc = make_cc_compiler(options);
  std::uint64_t ran = 0;
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
                              .loop = std::make_shared<const Loop>(subject->after.loop),
                              .names = {},
                              .addresses = {}});
      subjects.push_back(std::move(*subject));
    }
    std::vector<std::pair<std::string_view, std::shared_ptr<const Module>>> modules;
    modules.emplace_back("gccjit", gccjit->compile(unit));
    if (first / programs_per_unit % 5 == 0) modules.emplace_back("cc", cc->compile(unit));
    for (std::size_t k = 0; k < subjects.size(); ++k) {
      const std::vector<HostArray> expected = interpreted(subjects[k]);
      for (const auto& [name, module] : modules) {
        expect_same(subjects[k], expected, compiled(subjects[k], module->function(k)), name);
        if (HasFatalFailure()) return;
      }
      ++ran;
    }
  }
  EXPECT_GT(ran, count / 2);
}

}  // namespace
}  // namespace heddle::jit::testing
