// Steps as data: a code's list is run in order, under one ticket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "heddle/heddle.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/memory/buffer_state.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

class StepsTest : public testing::Test {
 protected:
  /// The code with another list of steps.
  template <class Change>
  Code changed(const Code& code, const Change& change) const {
    auto data = std::make_shared<jit::CodeData>(*Inside::of(code));
    auto core = std::make_shared<jit::Core>(*data->core);
    change(core->steps);
    data->core = std::move(core);
    return Inside::make<Code>(std::move(data));
  }
  std::uint32_t entry_of(const Code& code, const Tensor& tensor) const {
    std::uint32_t entry = 0;
    while (!(*Inside::of(code)->tensor(entry) == tensor)) ++entry;
    return entry;
  }
  /// x += 1, y += 2
  Code increments() const {
    Index i, j;
    Program p("inc");
    p << (x(i) += 1.0) << (y(j) += 2.0);
    return backend.compile(p);
  }

  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x{"x", f32, {2}}, y{"y", f32, {2}};
};

// J7: the list is what runs, in its order
TEST_F(StepsTest, RunInOrderUnderOneTicket) {
  const Code code = increments();
  const std::uint32_t at_x = entry_of(code, x), at_y = entry_of(code, y);
  int calls = 0;
  const Code longer = changed(code, [&](std::vector<jit::Step>& steps) {
    const jit::Step kernel = steps.front();
    steps = {kernel,
             kernel,
             jit::CopyStep{at_y, at_x},  // y = x = 2
             kernel,                     // x = 3, y = 4
             jit::CallStep{[&] {
               ++calls;
               return Status();
             }},
             jit::ZeroStep{at_x},
             kernel};  // x = 1, y = 6
  });
  const Routine run = Context(device).link(longer);
  EXPECT_TRUE(run.schedule().wait().ok());
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(run.context().read<float>(x), ElementsAre(1, 1));
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(6, 6));
}

// J7, S10: the first that fails is the last
TEST_F(StepsTest, TheFirstFailureIsTheLastStep) {
  int calls = 0;
  const Code failing = changed(increments(), [&](std::vector<jit::Step>& steps) {
    steps.emplace_back(jit::CallStep{[&] {
      ++calls;
      return Status(ErrorCode::unavailable, "no paper");
    }});
    steps.emplace_back(jit::CallStep{[&] {
      ++calls;
      return Status();
    }});
  });
  const Routine run = Context(device).link(failing);
  ScheduleOptions contained;
  contained.contain = true;
  const Status status = run.schedule({}, contained).wait();
  EXPECT_THAT(status.to_string(), HasSubstr("no paper"));
  EXPECT_EQ(calls, 1);
  const auto& view = run.context().view(x);
  EXPECT_EQ(*reinterpret_cast<const float*>(Inside::of(view.buffer())->data), 1)
      << "what came before has run";
}

// J7, D6: what reads the merge buffer has a step that fills it, before its kernels
TEST_F(StepsTest, MergesAreSteps) {
  Index i;
  Program add("add");
  add << (x(i) += merge(y)(i));
  const Code code = backend.compile(add);
  ASSERT_THAT(Inside::of(code)->core->steps, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<jit::MergeStep>(Inside::of(code)->core->steps[0]));
  EXPECT_TRUE(std::holds_alternative<jit::KernelStep>(Inside::of(code)->core->steps[1]));
}

// J7, J11, J12: programs that compute the same have one kernel, whatever they are called
TEST_F(StepsTest, EqualKernelsAreCompiledOnce) {
  const auto doubled = [](const std::string& name, const Tensor& t) {
    Index i;
    Program p(name);
    p << (t(i) = t(i) * 3.0);
    return p;
  };
  const Code first = backend.compile(doubled("first", x));
  const Code second = backend.compile(doubled("second", Tensor("other", f32, {2})));
  const auto kernel = [](const Code& code) {
    return std::get<jit::KernelStep>(Inside::of(code)->core->steps.front());
  };
  EXPECT_EQ(kernel(first).unit, kernel(second).unit);
  EXPECT_EQ(kernel(first).unit->image.kernels()[0].symbol, "heddle_run_" + first.hash());
  EXPECT_NE(first.name(), second.name());
  // In one batch too.
  const CodeBatch batch = backend.compile_batch(std::vector<Program>{
      doubled("a b", Tensor("p", f64, {2})), doubled("a_b", Tensor("q", f64, {2}))});
  EXPECT_EQ(kernel(*batch[0]).unit, kernel(*batch[1]).unit);
  EXPECT_EQ(kernel(*batch[0]).index, kernel(*batch[1]).index);
  EXPECT_THAT(kernel(*batch[0]).unit->image.kernels(), SizeIs(1));
}

// J12: perf shows which routine a kernel is of, by its label, and the kernel by its hash
TEST_F(StepsTest, PerfShowsLabelAndHash) {
  const std::string map = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::filesystem::remove(map);
  BackendOptions options;
  options.name = "cc";
  options.perf_map = true;
  const Backend named = Backend::open(options);
  const Code code = named.compile([&] {
    Index i;
    Program p("two words");
    p << (x(i) += 1.0);
    return p;
  }());
  EXPECT_FALSE(std::filesystem::exists(map)) << "compiling loads nothing";
  const Routine run = Context(named.physical_device(0).new_virtual_device()).link(code);
  std::ifstream file(map);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr(" two words#" + code.hash() + "\n"));
  std::filesystem::remove(map);
}

// J7, J12: and compiled in units apart, told apart by the program's comments, by as many threads as
// there are processors
TEST_F(StepsTest, LargeProgramsAreSeveralKernels) {
  constexpr int statements = 1'500;
  Index n;
  Program p("long");
  std::vector<Tensor> tensors;  // few: TSan's detector of deadlocks knows 64 locks at once
  for (int k = 0; k < 40; ++k) {
    tensors.emplace_back("t" + std::to_string(k), f32, Dims{2});
    tensors.back().set_mode(MemoryMode::materialized);
  }
  const auto assigned = [&](int k) {
    return tensors[static_cast<std::size_t>(k % 20 + (k < statements / 2 ? 0 : 20))];
  };
  for (int k = 0; k < statements; ++k) {
    if (k % 500 == 0) p.comment("layers/" + std::to_string(k / 500));
    p << (assigned(k)(n) = (k == 0 ? x : assigned(k - 1))(n) * 0.5 + static_cast<double>(k));
  }
  const auto kernels = [](const Code& code) {
    std::vector<jit::KernelStep> found;
    for (const jit::Step& step : Inside::of(code)->core->steps)
      found.push_back(std::get<jit::KernelStep>(step));
    return found;
  };
  const Code code = backend.compile(p);
  const auto parts = kernels(code);
  ASSERT_GT(parts.size(), 1u);
  EXPECT_NE(parts.front().unit, parts.back().unit);
  EXPECT_LT(parts.back().entries.size(), tensors.size()) << "a kernel takes what it uses";
  EXPECT_THAT(parts.front().about, StartsWith("layers/0"));
  EXPECT_THAT(parts.back().about, EndsWith("layers/2")) << "a comment holds until the next";
  float expected = 0;
  for (int k = 0; k < statements; ++k) expected = expected * 0.5f + static_cast<float>(k);
  const Routine run = Context(device).link(code);
  EXPECT_TRUE(run.schedule().wait().ok());
  EXPECT_THAT(run.context().read<float>(assigned(statements - 1)), ElementsAre(expected, expected));
  CompileOptions postponed;
  postponed.shared = false;
  const Routine later = Context(device).link(backend.compile(p, postponed));
  EXPECT_TRUE(later.schedule().wait().ok());
  EXPECT_THAT(later.context().read<float>(assigned(statements - 1)),
              ElementsAre(expected, expected));
}

}  // namespace
}  // namespace heddle
