// The loop text: print and parse are inverse, errors say where, any input is survived.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <random>

#include "heddle/status.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"

namespace heddle::jit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string matmul = R"(heddle-loop 1
buffer t0 input f32[64,128]
buffer t1 merge f16[128]
buffer t2 inout f32[64]
static s0 range 10
static s1
kernel {
  # rows
  zero t2
  parallel i0 in 0..64 {
    let x0: f32 = t2[i0]
    for i1 in 0..118 {
      x0 = add.f32(x0, mul.f32(t0[i0, i1 + s0], f32(t1[-i1 - 2*s1 + 127])))
    }
    t2[i0] = where.f32(lt.i64(index(i0 - 3), 5:i64), x0, -0:f32)
  }
}
)";

// J5: the canonical text reads back and prints the same
TEST(LoopTextTest, TextRoundTrips) { EXPECT_EQ(print(parse_loop(matmul)), matmul); }

// J5: any layout of the same tokens is the same kernel
TEST(LoopTextTest, LayoutDoesNotMatter) {
  std::string spread = matmul;
  for (const char* token : {"(", ")", "[", "]", ",", "+", "{", "}", "="}) {
    for (std::size_t at = 0; (at = spread.find(token, at)) != std::string::npos; at += 3)
      spread.replace(at, 1, std::string(" ") + token + " ");
  }
  const auto without_comment = [](std::string text) {
    text.erase(text.find("  # rows\n"), 9);
    return text;
  };
  EXPECT_EQ(print(parse_loop(without_comment(spread))), without_comment(matmul));
}

// J5, O26: names are comments of declarations: readable, and no part of the kernel
TEST(LoopTextTest, NamesAreComments) {
  const Loop loop = parse_loop(matmul);
  const LoopNames names{{"weights", "g\nrad", "c"}, {"step", "shift"}};
  const std::string text = print(loop, &names);
  EXPECT_THAT(text, AllOf(HasSubstr("buffer t0 input f32[64,128]  # weights\n"),
                          HasSubstr("# g rad\n"), HasSubstr("static s1  # shift\n")));
  EXPECT_TRUE(parse_loop(text) == loop);
}

// J5, J11: equal kernels hash equal, comments do not count, everything else does
TEST(LoopTextTest, HashIgnoresComments) {
  const std::string a = hash(parse_loop(matmul));
  EXPECT_THAT(a, ::testing::MatchesRegex("[0-9a-f]{32}"));
  std::string other = matmul;
  other.replace(other.find("# rows"), 6, "# lines of the matrix");
  EXPECT_EQ(hash(parse_loop(other)), a);
  other.replace(other.find("0..64"), 5, "0..63");
  EXPECT_NE(hash(parse_loop(other)), a);
}

std::string constant_text(const Scalar& s) {
  Loop loop;
  loop.buffers = {{Role::output, {s.dtype, {}}}};
  loop.body = {make_store(0, {}, make_constant(s))};
  const std::string text = print(loop);
  EXPECT_TRUE(parse_loop(text) == loop) << text;
  const std::size_t from = text.find("= ") + 2;
  return text.substr(from, text.find('\n', from) - from);
}

// J5, J1: constants print shortest and read back to the same bits
TEST(LoopTextTest, ConstantsKeepEveryBit) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(constant_text(Scalar::of_float(f32, 0.1)), "0.1:f32");
  EXPECT_EQ(constant_text(Scalar::of_float(f64, 0.1)), "0.1:f64");
  EXPECT_EQ(constant_text(Scalar::of_float(f32, -0.0)), "-0:f32");
  EXPECT_EQ(constant_text(Scalar::of_float(f64, -inf)), "-inf:f64");
  EXPECT_EQ(constant_text(Scalar::of_float(f16, std::numeric_limits<double>::quiet_NaN())),
            "nan:f16");
  EXPECT_EQ(constant_text(Scalar::of_float(f64, 0x1p-1074)), "5e-324:f64");
  EXPECT_EQ(constant_text(Scalar::of_float(f32, 0x1p-149)), "1e-45:f32");
  EXPECT_EQ(constant_text(Scalar::of_int(u64, -1)), "18446744073709551615:u64");
  EXPECT_EQ(constant_text(Scalar::of_int(i64, std::numeric_limits<std::int64_t>::min())),
            "-9223372036854775808:i64");
  EXPECT_EQ(constant_text(Scalar::of_int(bool_, 1)), "1:bool");
}

// J5, J1: every binary16 and bfloat16 value survives the text
TEST(LoopTextTest, AllSixteenBitConstants) {
  Loop loop;
  loop.buffers = {{Role::output, {f16, {}}}, {Role::output, {bf16, {}}}};
  for (std::uint32_t bits = 0; bits < 0x10000; bits += 7) {
    Float16 half;
    BFloat16 brain;
    half.bits = static_cast<std::uint16_t>(bits);
    brain.bits = half.bits;
    loop.body.push_back(
        make_store(0, {}, make_constant(Scalar::of_float(f16, static_cast<float>(half)))));
    loop.body.push_back(
        make_store(1, {}, make_constant(Scalar::of_float(bf16, static_cast<float>(brain)))));
  }
  EXPECT_TRUE(parse_loop(print(loop)) == loop);
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse_loop(text));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << text;
    return std::string(e.status().message());
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

std::string kernel_error(const std::string& body) {
  return error_of("heddle-loop 1\nbuffer t0 inout f32[4]\nkernel {\n" + body + "\n}\n");
}

// J5: errors name line, column, what was expected and what was found
TEST(LoopTextTest, ErrorsSayWhere) {
  EXPECT_EQ(error_of("heddle-loop 2\n"),
            "loop text line 1 column 13: expected '1', the version that this heddle reads, found "
            "'2'");
  EXPECT_EQ(error_of("heddle-loop 1\nbuffer t0 input f33[2]\n"),
            "loop text line 2 column 17: expected a dtype such as f32, found 'f33[2]'");
  EXPECT_THAT(error_of("heddle-loop 1\nbuffer t1 input f32[2]\n"), HasSubstr("after t0 now"));
  EXPECT_THAT(error_of("heddle-loop 1\nbuffer t0 central f32[2]\n"), HasSubstr("merge or scratch"));
  EXPECT_THAT(kernel_error("  t0[0] = 1:f32 +"),
              HasSubstr("line 4 column 17: expected a statement"));
  EXPECT_THAT(kernel_error("t0[0] = frobnicate.f32(1:f32)"), HasSubstr("a value"));
  EXPECT_THAT(kernel_error("t0[0] = add.f32(1:f32)"), HasSubstr("2 operands of f32 for 'add'"));
  EXPECT_THAT(kernel_error("t0[0] = add.f32(1:f32, 1:i32)"), HasSubstr("'add'"));
  EXPECT_THAT(kernel_error("t0[0] = t9[0]"), HasSubstr("t9 is none"));
  EXPECT_THAT(kernel_error("t0[0] = x0"), HasSubstr("x0 is none"));
  EXPECT_THAT(kernel_error("t0[0] = 300:u8"), HasSubstr("a u8 constant"));
  EXPECT_THAT(kernel_error("t0[0] = 1e999:f64"), HasSubstr("a f64 constant"));
  EXPECT_THAT(kernel_error("let x0: i32 = 1:f32"), HasSubstr("a value of i32"));
  EXPECT_THAT(kernel_error("for i0 in 0..99999999999999999999 { }"), HasSubstr("an upper bound"));
  EXPECT_THAT(kernel_error("t0[9223372036854775807*i0 + 9223372036854775807*i0] = 1:f32"),
              HasSubstr("64 bits"));
  EXPECT_THAT(kernel_error("t 0[0] = 1:f32"), HasSubstr("a statement"));
  EXPECT_THAT(kernel_error("t0[4] = 1:f32"), HasSubstr("subscripted from 4 to 4"));
  EXPECT_THAT(error_of(matmul + "more"), HasSubstr("expected end of text, found 'more'"));
  EXPECT_THAT(error_of(""), HasSubstr("line 1 column 1"));
  EXPECT_THAT(error_of("heddle-loop 1\n\x01\x02\xff"), HasSubstr("found '\?\?\?'"));
}

std::string repeat(const std::string& text, int times) {
  std::string all;
  for (int k = 0; k < times; ++k) all += text;
  return all;
}

// J5: nesting is bounded, so that no input overflows the stack
TEST(LoopTextTest, DeepInputIsAnError) {
  constexpr int deep = 100'000;
  EXPECT_THAT(kernel_error("t0[0] = " + repeat("neg.f32(", deep) + "1:f32" + repeat(")", deep)),
              HasSubstr("nested less deep"));
  EXPECT_THAT(kernel_error(repeat("for i0 in 0..1 {", deep)), HasSubstr("nested less deep"));
  const std::string limit = "heddle-loop 1\nbuffer t0 inout f32[4]\nkernel {\nt0[0] = " +
                            repeat("neg.f32(", value_depth_max) + "1:f32" +
                            repeat(")", value_depth_max) + "\n}\n";
  EXPECT_TRUE(parse_loop(print(parse_loop(limit))) == parse_loop(limit));
}

// J5: truncated and damaged texts are refused or read, never more
TEST(LoopTextTest, DamagedTextIsSurvived) {
  const auto survives = [](const std::string& text) {
    try {
      const Loop loop = parse_loop(text);
      EXPECT_TRUE(parse_loop(print(loop)) == loop) << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << text << e.what();
    }
  };
  const std::string whole = matmul.substr(0, matmul.rfind('}')) +
                            "  for i2 in 0..9 {\n    nearest i3 in 0..64 = u8(t1[i2]) {\n"
                            "      at i4 in 2..8 = index(i3 - 1) {\n        t2[i4] = t0[i3, i2]\n"
                            "      }\n    }\n  }\n}\n";
  EXPECT_EQ(print(parse_loop(whole)), whole);
  for (std::size_t k = 0; k < whole.size(); ++k) survives(whole.substr(0, k));
  std::mt19937 random(7);
  const std::string alphabet = "0123456789tisxfuner[](){}=.,:+-*# \nabc\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1 + random() % 4);
      }
    }
    survives(text);
  }
}

/// Draws legal kernels; rapidcheck shrinks the draws.
class LoopDraw {
 public:
  Loop draw() {
    for (std::size_t n = draw_below(3), k = 0; k < n; ++k)
      loop_.statics.push_back({flip() ? std::optional(draw_below(20)) : std::nullopt});
    for (std::size_t n = 1 + draw_below(4), k = 0; k < n; ++k) {
      BufferDecl decl{flip() ? Role::inout : Role::scratch, {draw_dtype(), {}}};
      if (k == 0 && flip()) decl.role = Role::merge;
      for (std::size_t rank = draw_below(4), axis = 0; axis < rank; ++axis)
        decl.type.dims.push_back(static_cast<std::int64_t>(1 + draw_below(5)));
      loop_.buffers.push_back(std::move(decl));
    }
    loop_.body = draw_block(0);
    return std::move(loop_);
  }

 private:
  static std::size_t draw_below(std::size_t n) { return *rc::gen::inRange<std::size_t>(0, n); }
  static bool flip() { return *rc::gen::arbitrary<bool>(); }
  static DType draw_dtype() { return static_cast<DType>(draw_below(dtype_count)); }

  Block draw_block(int depth) {
    Block block;
    const std::size_t locals = locals_.size();
    for (std::size_t n = draw_below(4), k = 0; k < n; ++k) block.push_back(draw_statement(depth));
    locals_.resize(locals);
    return block;
  }

  StmtPtr draw_statement(int depth) {
    const auto buffer = static_cast<BufferId>(draw_below(loop_.buffers.size()));
    const BufferDecl decl = loop_.buffers[buffer];
    switch (draw_below(6)) {
      case 0:
        return make_comment(*rc::gen::string<std::string>());
      case 1:
        if (depth < 3) return draw_loop(depth);
        [[fallthrough]];
      case 2: {
        const ValuePtr value = draw_value(2);
        locals_.emplace_back(next_local_, value->dtype);
        return make_declare(next_local_++, value);
      }
      case 3:
        if (!locals_.empty()) {
          const auto [local, type] = locals_[draw_below(locals_.size())];
          return make_assign(local, make_cast(draw_value(2), type));
        }
        [[fallthrough]];
      default:
        if (decl.role == Role::merge) return make_comment("");
        if (draw_below(8) == 0) return make_zero(buffer);
        return make_store(buffer, draw_subscripts(decl), make_cast(draw_value(3), decl.type.dtype));
    }
  }

  StmtPtr draw_loop(int depth) {
    const VarId var = next_var_++;
    const auto to = static_cast<std::int64_t>(1 + draw_below(5));
    vars_.emplace_back(var, to);
    Block body = draw_block(depth + 1);
    vars_.pop_back();
    if (draw_below(4) == 0) {
      ValuePtr position = draw_value(2);
      if (!is_integer(position->dtype)) position = make_cast(std::move(position), DType::i32);
      return make_at(var, 0, to, std::move(position), flip(), std::move(body));
    }
    const StmtPtr parallel = make_loop(var, 0, to, body, LoopMark::parallel);
    if (flip() && shared_by_iterations(*parallel, {}).empty()) return parallel;
    return make_loop(var, 0, to, std::move(body));
  }

  std::vector<Affine> draw_subscripts(const BufferDecl& decl) {
    std::vector<Affine> result;
    for (const std::int64_t extent : decl.type.dims) {
      Affine index;
      index.constant = static_cast<std::int64_t>(draw_below(static_cast<std::size_t>(extent)));
      for (const auto& [var, to] : vars_) {
        if (to <= extent && flip())
          index = flip() ? affine_var(var) : affine_add({extent - 1, {}}, affine_var(var, -1));
      }
      if (!loop_.statics.empty() && draw_below(4) == 0)
        index = affine_add(index, affine_static(0, *rc::gen::inRange<std::int64_t>(-9, 9)));
      result.push_back(std::move(index));
    }
    return result;
  }

  ValuePtr draw_value(int depth) {
    switch (depth == 0 ? draw_below(4) : draw_below(7)) {
      case 0: {
        const auto buffer = static_cast<BufferId>(draw_below(loop_.buffers.size()));
        return make_load(buffer, loop_.buffers[buffer].type.dtype,
                         draw_subscripts(loop_.buffers[buffer]));
      }
      case 1:
        if (!locals_.empty()) {
          const auto [local, type] = locals_[draw_below(locals_.size())];
          return make_local(local, type);
        }
        [[fallthrough]];
      case 2: {
        const DType type = draw_dtype();
        return make_constant(is_floating(type)
                                 ? Scalar::of_float(type, *rc::gen::arbitrary<double>())
                                 : Scalar::of_int(type, *rc::gen::arbitrary<std::int64_t>()));
      }
      case 3:
        return make_embed(vars_.empty() ? Affine{5, {}} : affine_var(vars_.back().first, 3));
      case 4:
        return make_cast(draw_value(depth - 1), draw_dtype());
      default:
        break;
    }
    const auto op = static_cast<Op>(draw_below(all_ops().size()));
    std::vector<ValuePtr> args;
    std::vector<DType> types;
    for (std::size_t k = 0; k < op_info(op).arity; ++k) {
      args.push_back(draw_value(depth - 1));
      types.push_back(args.back()->dtype);
    }
    return type_op(op, types) ? make_op(op, args) : args[0];
  }

  Loop loop_;
  std::vector<std::pair<VarId, std::int64_t>> vars_;
  std::vector<std::pair<LocalId, DType>> locals_;
  VarId next_var_ = 0;
  LocalId next_local_ = 0;
};

// J5: parse(print(loop)) is the loop, for any legal kernel
TEST(LoopTextTest, AnyLegalKernelRoundTrips) {
  EXPECT_TRUE(rc::check([] {
    const Loop loop = LoopDraw().draw();
    const Status legal = verify(loop);
    RC_ASSERT(legal.ok());
    const std::string text = print(loop);
    RC_ASSERT(parse_loop(text) == loop);
    RC_ASSERT(print(parse_loop(text)) == text);
    RC_ASSERT(hash(parse_loop(text)) == hash(loop));
  }));
}

}  // namespace
}  // namespace heddle::jit
