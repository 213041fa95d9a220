// One time for all that a compile does.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "heddle/program.hpp"
#include "jit/code/code.hpp"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

/// Has an hour for each compile, and remembers what is left of it.
class HourCompiler final : public jit::Compiler {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] Status available() const override { return {}; }
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  [[nodiscard]] std::optional<std::chrono::milliseconds> timeout() const noexcept override {
    return std::chrono::hours(1);
  }
  [[nodiscard]] std::shared_ptr<const jit::Compiled> compile(
      const jit::CompileUnit& unit, const jit::CompileLimits& limits) const override {
    left.push_back(limits.deadline.value_or(Clock::time_point::max()) - Clock::now());
    return inner_->compile(unit, limits);
  }
  mutable std::vector<Clock::duration> left;

 private:
  std::shared_ptr<const jit::Compiler> inner_ = jit::make_null_compiler();
};

Program adder(const std::string& name) {
  const Tensor a("a", f32, {4}), b("b", f32, {4});
  const Index i;
  Program program(name);
  program << (a(i) = b(i) + 1);
  return program;
}

// J10: what heddle's own stages took is not the compiler's again
TEST(CompileTimeTest, IsOneForAllStages) {
  const auto compiler = std::make_shared<HourCompiler>();
  jit::Draft draft = jit::draft_program(adder("alone"), {}, compiler);
  EXPECT_GT(draft.time.count(), 0);
  draft.time = std::chrono::minutes(20);  // as if it had been long
  static_cast<void>(jit::finish(std::move(draft)));
  ASSERT_EQ(compiler->left.size(), 1u);
  EXPECT_LE(compiler->left[0], std::chrono::minutes(40));
  EXPECT_GT(compiler->left[0], std::chrono::minutes(30));
}

// J7, J10: of a batch, for each unit
TEST(CompileTimeTest, IsOneForEachUnitOfABatch) {
  const auto compiler = std::make_shared<HourCompiler>();
  std::vector<Program> programs;
  for (int k = 0; k < 8; ++k) programs.push_back(adder("p" + std::to_string(k)));
  jit::BatchDraft draft = jit::draft_programs(programs, {}, compiler);
  for (std::size_t k = 0; k < 2; ++k) draft.drafts[k]->time = std::chrono::minutes(20);
  const jit::Spread here = [](std::size_t, const std::function<void()>& work) { work(); };
  static_cast<void>(jit::finish(std::move(draft), {}, here));
  ASSERT_EQ(compiler->left.size(), 2u);
  EXPECT_LE(compiler->left[0], std::chrono::minutes(20));
  EXPECT_GT(compiler->left[1], std::chrono::minutes(30));
  EXPECT_LE(compiler->left[1], std::chrono::minutes(60));
}

}  // namespace
}  // namespace heddle
