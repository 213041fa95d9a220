// Terms in words, compiled, against the interpreter: equal to the last bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "schedules_fixture.hpp"
#include "support/random_program.hpp"

namespace heddle::jit::testing {
namespace {

class WordSchedulesTest : public SchedulesTest {};
INSTANTIATE_TEST_SUITE_P(Compilers, WordSchedulesTest, ::testing::ValuesIn(every_compiler()),
                         param_name);

// J3, J9, B3: terms in words have the sums of plain loops on every compiler and instruction set
TEST_P(WordSchedulesTest, WordsAreAsInterpreted) {
  for (const Isa isa : isas())
    expect_as_interpreted(scheduled_unit(random_word_product, isa), make_for(isa), isa, any_bits);
}

// J9, B3: pairs of bf16 are summed in the order and with the roundings that the loops say, by the
// processor's instruction too
TEST_P(WordSchedulesTest, PairsOfBf16AreAsInterpreted) {
  for (const Isa isa : isas()) {
    if (isa < Isa::avx512) continue;  // as there
    const CompileUnit unit =
        scheduled_unit(random_bf16_product, isa, test::slower > 1 ? 4 : 12, true);
    expect_as_interpreted(unit, make_for(isa), isa, random_array);
    expect_as_interpreted(unit, make_for(isa), isa, any_bits);
  }
}

/// Two words of bf16 and a sum, in a lanes loop.
CompileUnit dots_of_bf16() {
  constexpr std::int64_t count = 4000;
  Loop loop;
  for (const DType type : {i32, i32, f32}) loop.buffers.push_back({Role::input, {type, {count}}});
  loop.buffers.push_back({Role::output, {f32, {count}}});
  std::vector<ValuePtr> args;
  for (BufferId k = 0; k < 3; ++k)
    args.push_back(make_load(k, loop.buffers[k].type.dtype, {affine_var(0)}));
  const StmtPtr store = make_store(3, {affine_var(0)}, make_op(Op::dot_bf16, args));
  loop.body.push_back(make_loop(0, 0, count, {store}, LoopMark::lanes));
  return {"dots", {{"dots", VerifiedLoop(std::move(loop)), {}, {}}}};
}

/// Sums and products near the least normal number, to either side of it.
HostArray near_subnormal(const ArrayType& type, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostArray array(type);
  const auto bits_of = [](double x) { return std::bit_cast<std::uint32_t>(static_cast<float>(x)); };
  for (std::int64_t k = 0; k < array.num_elements(); ++k) {
    if (type.dtype == f32) {
      array.set(k, 0x1p-126 + static_cast<double>(random() % 5) * 0x1p-149);
    } else {  // in the low or the high half, or both
      const double power =
          std::ldexp(random() % 2 == 0 ? -1 : 1.25, -74 - static_cast<int>(random() % 4));
      const std::uint32_t half = bits_of(power) >> 16;
      const std::uint64_t which = random() % 3;
      const std::uint32_t word = (which != 0 ? half : 0) | (which != 1 ? half << 16 : 0);
      array.set(k, static_cast<double>(std::bit_cast<std::int32_t>(word)));
    }
  }
  return array;
}

// J9: the instruction rounds and flushes as the operation says, whatever the bits
TEST_P(WordSchedulesTest, DotsOfBf16AreAsInterpreted) {
  for (const Isa isa : isas()) {
    expect_as_interpreted(dots_of_bf16(), make_for(isa), isa, any_bits);
    expect_as_interpreted(dots_of_bf16(), make_for(isa), isa, near_subnormal);
  }
}

}  // namespace
}  // namespace heddle::jit::testing
