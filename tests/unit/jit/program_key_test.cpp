// Keys of programs: equal where the same is compiled, whatever it is called; else never.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "heddle/status.hpp"
#include "jit/cache/program_key.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"

namespace heddle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// All that a program of these tests is made of.
struct Parts {
  std::string name = "p", input = "a", output = "b";
  DType dtype = f32;
  std::int64_t rows = 8, columns = 4, range = 3;
  std::int64_t coefficient = 1, offset = 0;
  double factor = 2;
  bool starts_anew = false, transposed = false, reads_output = false, merges = false;
  std::string comment;
  MemoryMode mode = MemoryMode::unset;
  CompileOptions options;
};

jit::CompileKey key_of(const Program& program, const CompileOptions& options = {}) {
  return jit::program_key(jit::form_of(program), jit::wishes_of(program), options);
}

jit::CompileKey key_of(const Parts& of) {
  const Tensor a(of.input, of.dtype, {16, 16}), b(of.output, of.dtype, {of.rows, of.columns});
  const Tensor sums("sums", of.dtype, {of.rows});
  sums.set_mode(of.mode);
  const Index i(of.input + "_row", of.rows), j(of.columns);
  const StaticIndex at(of.output + "_at", of.range);
  Program program(of.name);
  if (!of.comment.empty()) program.comment(of.comment);
  const Expr read = of.transposed ? Expr(a(j, i)) : Expr(a(of.coefficient * i + of.offset, j + at));
  const Expr other = of.merges ? merge(a)(i, j) : of.reads_output ? Expr(b(i, j)) : Expr(a(i, j));
  program << (b(i, j) = read * cast(Expr(of.factor), of.dtype) + other);
  program << (of.starts_anew ? sums(i) = sum(b(i, j)) : sums(i) += b(i, j));
  return key_of(program, of.options);
}

// J7, J11: tensors, indices and the program may be called anything, and be made at any time
TEST(ProgramKeyTest, RenamedTwinsAreEqual) {
  const jit::CompileKey key = key_of(Parts{});
  EXPECT_EQ(key_of(Parts{}), key);
  Parts renamed;
  renamed.name = "q";
  renamed.input = "weights";
  renamed.output = "logits";
  renamed.options.name = "asked for";
  renamed.options.merge_mode = MergeMode::copy;  // for linked routines
  renamed.options.timeout = std::chrono::seconds(1);
  EXPECT_EQ(key_of(renamed), key);
}

// J7, J11: whatever decides what is compiled is in the key
TEST(ProgramKeyTest, AllElseDiffers) {
  const std::map<std::string, std::function<void(Parts&)>> changes = {
      {"nothing", [](Parts&) {}},
      {"dtype", [](Parts& p) { p.dtype = f64; }},
      {"an extent", [](Parts& p) { p.rows = 7; }},
      {"another extent", [](Parts& p) { p.columns = 5; }},
      {"the range of a static index", [](Parts& p) { p.range = 4; }},
      {"a coefficient", [](Parts& p) { p.coefficient = 2; }},
      {"an offset", [](Parts& p) { p.offset = 1; }},
      {"subscripts' order", [](Parts& p) { p.transposed = true; }},
      {"a number", [](Parts& p) { p.factor = -2; }},
      {"how terms are summed", [](Parts& p) { p.starts_anew = true; }},
      {"which tensor is read", [](Parts& p) { p.reads_output = true; }},
      {"a merge", [](Parts& p) { p.merges = true; }},
      {"a comment", [](Parts& p) { p.comment = "of the loops"; }},
      {"a mode", [](Parts& p) { p.mode = MemoryMode::never_virtual; }},
      {"shared", [](Parts& p) { p.options.shared = false; }},
      {"fast_math", [](Parts& p) { p.options.fast_math = true; }},
      {"unordered_scatters", [](Parts& p) { p.options.unordered_scatters = true; }},
      {"schedule", [](Parts& p) { p.options.schedule = Schedule::off; }},
      {"schedule_without", [](Parts& p) { p.options.schedule_without = {ScheduleStep::hoist}; }},
      {"more of it",
       [](Parts& p) { p.options.schedule_without = {ScheduleStep::hoist, ScheduleStep::fuse}; }},
      {"contraction_tile", [](Parts& p) { p.options.contraction_tile = ContractionTile{2, 1, 0}; }},
      {"its terms", [](Parts& p) { p.options.contraction_tile = ContractionTile{2, 1, 8}; }},
      {"trace_values", [](Parts& p) { p.options.trace_values = true; }},
  };
  std::map<jit::CompileKey, std::string> seen;
  for (const auto& [what, change] : changes) {
    Parts parts;
    change(parts);
    const auto [at, fresh] = seen.emplace(key_of(parts), what);
    EXPECT_TRUE(fresh) << what << " is not told from " << at->second;
  }
}

// J7: what a program says counts, not how far its fields reach
TEST(ProgramKeyTest, StatementsAreToldApart) {
  const Tensor a("a", f32, {4}), b("b", f32, {4}), c("c", f32, {4});
  const Index i, j;
  const auto key = [](const auto&... statements) {
    Program program("p");
    static_cast<void>((program << ... << statements));
    return key_of(program);
  };
  EXPECT_EQ(key(b(i) = a(i)), key(b(j) = a(j))) << "which index it is";
  EXPECT_EQ(key(b(i) = a(i)), key(c(i) = b(i))) << "which tensors they are";
  EXPECT_NE(key(b(i) = a(i), c(i) = b(i)), key(b(i) = a(i), c(i) = a(i)));
  EXPECT_NE(key(b(i) = a(i)), key(b(i) = a(i), b(i) = a(i)));
  EXPECT_NE(key(b(i) = a(i)), key(a(i) = a(i)));
  const Expr once = a(i) + 1.0;
  EXPECT_NE(key(b(i) = once * once), key(b(i) = (a(i) + 1.0) * (a(i) + 1.0))) << "is shared";
  Program notes("p"), fewer("p");
  notes.comment("ab").comment("c");
  fewer.comment("a").comment("bc");
  EXPECT_NE(key_of(notes), key_of(fewer));
}

/// Compiles nothing, and counts how often it is asked.
class CountingCompiler final : public jit::Compiler {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] Status available() const override { return {}; }
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  [[nodiscard]] bool reuses() const override { return may_reuse; }
  void count_reuse() const noexcept override { ++held; }
  [[nodiscard]] std::shared_ptr<const jit::Compiled> compile(
      const jit::CompileUnit& unit, const jit::CompileLimits& limits) const override {
    ++compiled;
    before_compile();
    return inner_->compile(unit, limits);
  }
  std::function<void()> before_compile = [] {};
  bool may_reuse = true;
  mutable std::atomic<int> compiled{0}, held{0};

 private:
  std::shared_ptr<const jit::Compiler> inner_ = jit::make_null_compiler();
};

struct KnownProgramTest : ::testing::Test {
  static Program doubler(const std::string& name, double by = 2) {
    const Tensor a("a of " + name, f32, {4}), b("b of " + name, f32, {4});
    const Index i;
    const StaticIndex at("at of " + name, 4);
    return Program(name) << (b(i) = a(i) * by + a(at)) << (b(i) += merge(a)(i));
  }
  [[nodiscard]] jit::Draft draft(const Program& program) const {
    return jit::draft_program(program, {}, compiler, {}, codes);
  }
  [[nodiscard]] Code compile(const Program& program) const { return finish(draft(program)); }
  [[nodiscard]] CodeBatch compile_all(const std::vector<Program>& programs,
                                      const BatchOptions& options = {}) const {
    const jit::Spread here = [](std::size_t, const std::function<void()>& work) { work(); };
    return finish(jit::draft_programs(programs, options, compiler, {}, codes), {}, here);
  }

  const std::shared_ptr<CountingCompiler> compiler = std::make_shared<CountingCompiler>();
  const std::shared_ptr<jit::Codes> codes = std::make_shared<jit::Codes>();
};

// J7, J11: a program that somebody has compiled is not lowered again, and keeps its own names
TEST_F(KnownProgramTest, IsNotLoweredAgain) {
  const Code first = compile(doubler("first"));
  const Program program = doubler("second");
  const std::uint64_t steps = jit::steps_taken();
  const Code second = compile(program);
  EXPECT_EQ(jit::steps_taken(), steps);
  EXPECT_EQ(compiler->compiled, 1);
  EXPECT_EQ(compiler->held, 1);
  EXPECT_EQ(second.name(), "second");
  EXPECT_EQ(second.hash(), first.hash());
  EXPECT_TRUE(second.merge_tensor() == program.merge_tensor());
  EXPECT_EQ(second.placement(program.tensors()[1]), MemoryMode::on_device);
  EXPECT_EQ(second.placement(*first.merge_tensor()), std::nullopt);
  for (const std::string& text : {second.loop_text(), second.unoptimized_text()}) {
    EXPECT_THAT(text, HasSubstr("a of second"));
    EXPECT_THAT(text, HasSubstr("at of second"));
    EXPECT_THAT(text, Not(HasSubstr("of first")));
  }
}

// J7: nobody is given what somebody let go of, or what is to be compiled anew
TEST_F(KnownProgramTest, IsKnownWhileSomebodyHoldsIt) {
  static_cast<void>(compile(doubler("p")));
  std::optional<Code> held = compile(doubler("p"));
  EXPECT_EQ(compiler->compiled, 2);
  compiler->may_reuse = false;
  static_cast<void>(compile(doubler("p")));
  EXPECT_EQ(compiler->compiled, 3);
  EXPECT_EQ(compiler->held, 0);
}

// J7, J11: threads that compile one program at once end with one code
TEST_F(KnownProgramTest, CompilesAtOnceAreOne) {
  constexpr std::size_t count = 4;
  std::latch drafted(count);
  compiler->before_compile = [&drafted] { drafted.wait(); };  // none finds it while it drafts
  std::vector<std::optional<Code>> made(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t k = 0; k < count; ++k) {
      threads.emplace_back([&, k] {
        jit::Draft mine = draft(doubler("p" + std::to_string(k)));
        drafted.count_down();
        made[k] = finish(std::move(mine));
      });
    }
  }
  for (std::size_t k = 0; k < count; ++k) {
    EXPECT_EQ(made[k]->name(), "p" + std::to_string(k));
    EXPECT_EQ(Inside::of(*made[k])->core, Inside::of(*made[0])->core);
  }
}

// J7, J10: a compile that failed is tried anew
TEST_F(KnownProgramTest, FailuresAreNotKept) {
  compiler->before_compile = [] { throw Error(ErrorCode::compile_failed, "no room"); };
  EXPECT_THROW(static_cast<void>(compile(doubler("p"))), Error);
  compiler->before_compile = [] {};
  const Code code = compile(doubler("p"));
  EXPECT_EQ(compiler->compiled, 2);
}

// J7: programs of a batch are found as others are, and tell of their progress
TEST_F(KnownProgramTest, BatchesTakeAndGive) {
  const Code alone = compile(doubler("alone"));
  std::vector<std::string> ready;
  BatchOptions options;
  options.progress = [&ready](const CompileProgress& progress) { ready.push_back(progress.name); };
  const CodeBatch batch = compile_all({doubler("x"), doubler("y", 3)}, options);
  EXPECT_EQ(compiler->compiled, 2);
  EXPECT_EQ(Inside::of(*batch[0])->core, Inside::of(alone)->core);
  EXPECT_EQ(Inside::of(compile(doubler("z", 3)))->core, Inside::of(*batch[1])->core);
  static_cast<void>(compile_all({doubler("v"), doubler("w", 3)}, options));
  EXPECT_EQ(compiler->compiled, 2) << "all of it was known";
  EXPECT_THAT(ready, ElementsAre("x", "y", "v", "w"));
}

}  // namespace
}  // namespace heddle
