// Programs of many statements: what heddle's own stages take grows with the program, not with its
// square, and ends when its time is over. Growth is told by steps (limits.hpp), which no clock and
// no other process disturbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "heddle/status.hpp"
#include "jit/emit/c.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/lower/lower.hpp"
#include "jit/lower/passes.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/system/limits.hpp"
#include "support/failure.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor vector(MemoryMode mode = MemoryMode::unset) {
  const Tensor t("t", f32, {40});
  if (mode != MemoryMode::unset) t.set_mode(mode);
  return t;
}

/// A program of about so many statements.
struct Shape {
  std::string name;
  std::function<void(Program&, int)> add;
};

void add_chain(Program& p, int n, MemoryMode mode) {
  const Index i;
  Tensor last = vector();
  for (int k = 0; k < n; ++k) {
    const Tensor next = vector(k + 1 < n ? mode : MemoryMode::unset);
    p << (next(i) = last(i) + 1);
    last = next;
  }
}

std::vector<Shape> shapes() {
  const auto each = [](const std::function<Statement(int)>& make) {
    return [make](Program& p, int n) {
      for (int k = 0; k < n; ++k) p << make(k);
    };
  };
  const Index i, j;
  const Tensor x = vector(), y = vector(), m("m", f32, {8, 40}), s("s", f32, {});
  std::vector<Shape> all{
      {"in_place", each([=](int k) { return x(i) = x(i) * 0.5 + k; })},
      {"accumulated", each([=](int) { return x(i) += y(i); })},
      {"over_shared_inputs", each([=](int k) { return vector()(i) = x(i) * y(i) + k; })},
      {"independent", each([=](int) { return vector()(i) = vector()(i) + 1; })},
      {"elements", each([=](int k) { return x(k % 40) = x((k + 1) % 40) + k; })},
      {"sums", each([=](int) { return s.at({}) += vector()(i); })},
      {"rows", each([=](int) { return Tensor("r", f32, {8})(i) += m(i, j); })},
      {"hoisted", each([=](int) { return vector()(i) = x(i) * exp(Tensor("c", f32, {}).at({})); })},
      {"chain", [](Program& p, int n) { add_chain(p, n, MemoryMode::unset); }},
      {"local_chain", [](Program& p, int n) { add_chain(p, n, MemoryMode::local); }},
      {"kept_chain", [](Program& p, int n) { add_chain(p, n, MemoryMode::on_device); }}};
  const auto delay_line = [=](Program& p, int n) {
    std::vector<Tensor> line;
    for (int k = 0; k <= n; ++k) line.push_back(vector());
    for (std::size_t k = 0; k + 1 < line.size(); ++k) p << (line[k](i) = line[k + 1](i));
    return line.back();
  };
  all.push_back({"delay_line", delay_line});
  // The constant reaches one more of them each time that the program is gone through.
  all.push_back(
      {"constant_down_a_delay_line", [=](Program& p, int n) { p << (delay_line(p, n)(i) = 0.0); }});
  all.push_back({"one_reader_of_many", [=](Program& p, int n) {
                   std::vector<Expr> terms;
                   for (int k = 0; k < n; ++k) {
                     const Tensor t = vector();
                     p << (t(i) = vector()(i) * 2);
                     terms.push_back(t(i));
                   }
                   for (std::size_t k = 0; k + 1 < terms.size(); k += 2)
                     terms.push_back(terms[k] + terms[k + 1]);
                   p << (y(i) = terms.back());
                 }});
  all.push_back({"layers", [=](Program& p, int n) {
                   Tensor last("x", f32, {16});
                   for (int k = 0; k < n / 3; ++k) {
                     const Tensor h("h", f32, {16}), w("w", f32, {16, 16}), out("o", f32, {16});
                     p << (h(i) = 1) << (h(i) += w(i, j) * last(j)) << (out(i) = relu(h(i)));
                     last = out;
                   }
                 }});
  return all;
}

Program program_of(const Shape& shape, int statements) {
  Program p("large");
  shape.add(p, statements);
  return p;
}

CompileUnit unit_of(const Lowered& lowered) {
  CompileUnit unit;
  unit.name = "large";
  unit.kernels.emplace_back().name = "large";
  unit.kernels[0].loop = VerifiedLoop(lowered.loop);
  return unit;
}

/// Everything between a program and a compiler.
void run_stages(const Program& program) {
  const Target target = tiny_target(Isa::avx2);
  const Lowered lowered = schedule(optimize(lower(program)), target);
  static_cast<void>(make_signature(lowered));
  static_cast<void>(parse_loop(print(lowered.loop)));
  static_cast<void>(hash(lowered.loop));
  static_cast<void>(emit_c(unit_of(lowered), target));
}

// J5: twice the statements take twice the steps, or little more
TEST(LargeProgramsTest, StagesGrowWithTheProgram) {
  constexpr int few = 300;
  std::vector<Shape> looked_at = shapes();
  if (test::slower > 1) looked_at.resize(3);  // steps are counted, and the same there
  for (const Shape& shape : looked_at) {
    const auto steps = [&](int statements) {
      const Program program = program_of(shape, statements);
      const std::uint64_t before = steps_taken();
      run_stages(program);
      return static_cast<double>(steps_taken() - before);
    };
    static_cast<void>(steps(20));  // what is made once
    const double once = steps(few);
    EXPECT_LT(steps(2 * few), 2.4 * once) << shape.name;
    EXPECT_LT(once, 6000.0 * few) << shape.name;
  }
}

// J5: emitting one expression grows with its length, however many conditions are in it
TEST(LargeProgramsTest, EmittingGrowsWithTheExpression) {
  const auto steps = [](int terms) {
    const Index i;
    const Tensor x = vector(), s("s", f32, {});
    Expr sum = s.at({}) * 1.5;
    for (int k = 0; k < terms; ++k)
      sum = sum + where(x(i) < k + 2.0, -0.0 * x(i), s.at({}) * double(k));
    Program p("deep");
    p << (s.at({}) += sum);
    const Lowered lowered = lower(p);
    const std::uint64_t before = steps_taken();
    static_cast<void>(emit_c(unit_of(lowered), tiny_target(Isa::avx2)));
    return static_cast<double>(steps_taken() - before);
  };
  static_cast<void>(steps(1));  // what is made once
  EXPECT_LT(steps(400), 2.4 * steps(200));
}

// J5: and signing, where many outputs are written while many inputs are read
TEST(LargeProgramsTest, SigningGrowsWithOneNest) {
  const Affine forwards = affine_var(0), backwards{3, {{AffineTerm::Kind::loop, 0, -1}}};
  for (const Affine& from_at : {forwards, backwards}) {
    const auto steps = [&](std::size_t outputs) {
      Lowered lowered;
      for (std::size_t k = 0; k < 2 * outputs; ++k) {
        lowered.loop.buffers.push_back({Role::input, {f32, {4}}});
        lowered.tensors.push_back(vector());
      }
      Block nest;
      for (std::size_t k = 0; k < outputs; ++k) {
        const auto to = static_cast<BufferId>(k), from = static_cast<BufferId>(outputs + k);
        nest.push_back(make_store(to, {affine_var(0)}, make_load(from, f32, {from_at})));
      }
      lowered.loop.body = {make_loop(0, 0, 4, nest)};
      lowered.interface = read_interface(lowered.loop);
      const std::uint64_t before = steps_taken();
      const Signature signature = make_signature(lowered);
      const auto taken = static_cast<double>(steps_taken() - before);
      for (std::size_t k = 0; k < outputs; ++k)
        EXPECT_EQ(signature.may_take(k, outputs + k), from_at == forwards) << k;
      return taken;
    };
    EXPECT_LT(steps(1200), 2.4 * steps(600));
  }
}

// J9: what bounds the stages bounds no optimisation that short programs see
TEST(LargeProgramsTest, LongChainsAreStoredNowAndThen) {
  Program p("chain");
  add_chain(p, 300, MemoryMode::unset);
  const Lowered after = optimize(lower(p));
  EXPECT_EQ(after.loop.body.size(), 300u / 64 + 1);
  Program asked("asked");
  add_chain(asked, 300, MemoryMode::virtual_);
  EXPECT_EQ(optimize(lower(asked)).loop.body.size(), 1u) << "it is there if asked for";
}

using Stage = std::function<void(const Program&, const Lowered&, const Lowered&)>;

/// Each stage alone: on the program, its loops, and its optimised loops.
std::vector<std::pair<std::string, Stage>> stages() {
  const auto text = [](const Loop& loop) {
    std::string body = "buffer t0 output f32[4]\nkernel {\n";
    for (std::size_t k = 0; k < loop.body.size(); ++k) body += "t0[1] = 1:f32\n";
    return "heddle-loop 1\n" + body + "}\n";
  };
  using P = const Program&;
  using L = const Lowered&;
  return {
      {"lower", [](P p, L, L) { static_cast<void>(lower(p)); }},
      {"infer", [](P, L l, L) { static_cast<void>(infer_placements(l, {})); }},
      {"inline", [](P, L l, L) { static_cast<void>(inline_virtual(l)); }},
      {"simplify", [](P, L l, L) { static_cast<void>(simplify(l, false)); }},
      {"dead", [](P, L l, L) { static_cast<void>(drop_dead(l)); }},
      {"renumber", [](P, L l, L) { static_cast<void>(renumber(l)); }},
      {"verify", [](P, L l, L) { static_cast<void>(verify(l.loop)); }},
      {"interface", [](P, L l, L) { static_cast<void>(read_interface(l.loop)); }},
      {"sign", [](P, L, L o) { static_cast<void>(make_signature(o)); }},
      {"print", [](P, L l, L) { static_cast<void>(print(l.loop)); }},
      {"parse", [text](P, L l, L) { static_cast<void>(parse_loop(text(l.loop))); }},
      {"schedule", [](P, L, L o) { static_cast<void>(schedule(o, tiny_target(Isa::avx2))); }},
      {"emit", [](P, L, L o) { static_cast<void>(emit_c(unit_of(o), tiny_target(Isa::avx2))); }}};
}

// J10: time and stop tokens hold in each stage, which ends within a millisecond or so of steps, and
// says which program and stage it was
TEST(LargeProgramsTest, EachStageEndsWhenItsTimeIsOver) {
  constexpr std::uint64_t steps_max = 2048;
  Program program("patient");
  add_chain(program, 2000, MemoryMode::on_device);
  const Lowered lowered = lower(program);
  const Lowered optimized = optimize(lowered);
  for (const auto& [name, stage] : stages()) {
    for (const ErrorCode code : {ErrorCode::deadline, ErrorCode::cancelled}) {
      CompileLimits limits;
      LimitedWork work("patient", limits);
      work.begin(name);
      std::stop_source stop;
      if (code == ErrorCode::deadline) limits.deadline = std::chrono::steady_clock::now();
      limits.stop = stop.get_token();
      if (code == ErrorCode::cancelled) stop.request_stop();
      const std::uint64_t before = steps_taken();
      const Status status = failure([&] { stage(program, lowered, optimized); });
      EXPECT_EQ(status.code(), code) << name;
      EXPECT_THAT(status.message(), AllOf(HasSubstr("'patient'"), HasSubstr("'" + name + "'")));
      EXPECT_LE(steps_taken() - before, steps_max) << name;
    }
    const CompileLimits none;
    LimitedWork work("patient", none);
    stage(program, lowered, optimized);  // it works without, after it did not
  }
}

// J5: limits nest, and end with their scope
TEST(LargeProgramsTest, LimitsEndWithTheirScope) {
  Program program("p");
  add_chain(program, 500, MemoryMode::on_device);
  CompileLimits over;
  over.deadline = std::chrono::steady_clock::now();
  LimitedWork outer("outer", over);
  {
    const CompileLimits none;
    LimitedWork inner("inner", none);
    run_stages(program);
  }
  EXPECT_THAT(failure([&] { run_stages(program); }).message(), HasSubstr("'outer'"));
}

}  // namespace
}  // namespace heddle::jit::testing
