// The verifier: each rule refuses a planted violation, by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "heddle/status.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"

namespace heddle::jit {
namespace {

using ::testing::HasSubstr;

const BufferDecl input{Role::input, {f32, {4}}};
const BufferDecl output{Role::output, {f32, {4}}};

ValuePtr one(DType t = f32) { return make_constant(Scalar::of_int(t, 1)); }
Affine at(std::int64_t k) { return {k, {}}; }

Loop kernel(Block body) { return {{input, output}, {{5}}, std::move(body)}; }

std::string refusal(const Loop& loop) {
  const Status status = verify(loop);
  EXPECT_EQ(status.code(), status.ok() ? ErrorCode::ok : ErrorCode::invalid_argument);
  return std::string(status.message());
}

// J5
TEST(VerifyTest, AcceptsALegalKernel) {
  EXPECT_EQ(refusal(kernel({make_loop(0, 0, 4, {make_store(1, {affine_var(0)}, one())})})), "");
  EXPECT_EQ(refusal(Loop{}), "");
}

// J5
TEST(VerifyTest, BuffersAreDeclared) {
  EXPECT_THAT(refusal(kernel({make_store(2, {}, one())})), HasSubstr("t2 is not declared"));
  EXPECT_THAT(refusal(kernel({make_zero(7)})), HasSubstr("t7 is not declared"));
  EXPECT_THAT(refusal(kernel({make_declare(0, make_load(9, f32, {}))})),
              HasSubstr("t9 is not declared"));
}

// J5
TEST(VerifyTest, VariablesAreDeclaredOnceAndInScope) {
  EXPECT_THAT(refusal(kernel({make_store(1, {affine_var(3)}, one())})),
              HasSubstr("i3 is neither a loop nor a position around here"));
  const StmtPtr store = make_store(1, {affine_var(0)}, one());
  EXPECT_THAT(refusal(kernel({make_loop(0, 0, 4, {}), store})), HasSubstr("i0 is neither a loop"));
  EXPECT_THAT(refusal(kernel({make_loop(0, 0, 4, {}), make_loop(0, 0, 4, {})})),
              HasSubstr("i0 is declared twice"));
  EXPECT_THAT(refusal(kernel({make_loop(0, 3, 2, {})})), HasSubstr("run backwards"));
}

// J5
TEST(VerifyTest, LocalsAreDeclaredOnceAndInScope) {
  const StmtPtr declare = make_declare(0, one());
  EXPECT_THAT(refusal(kernel({make_assign(0, one())})), HasSubstr("x0, which is not declared"));
  EXPECT_THAT(refusal(kernel({make_store(1, {at(0)}, make_local(0, f32))})),
              HasSubstr("x0 is read where it is not declared"));
  EXPECT_THAT(refusal(kernel({declare, declare})), HasSubstr("x0 is declared twice"));
  EXPECT_THAT(refusal(kernel({make_loop(0, 0, 4, {declare}), make_assign(0, one())})),
              HasSubstr("x0, which is not declared"));
  EXPECT_THAT(refusal(kernel({make_declare(0, make_local(0, f32))})), HasSubstr("not declared"));
}

// J5, J6
TEST(VerifyTest, StaticIndicesAreDeclared) {
  EXPECT_THAT(refusal(kernel({make_store(1, {affine_static(1)}, one())})),
              HasSubstr("s1 is not declared"));
  Loop loop = kernel({});
  loop.statics[0].range = -1;
  EXPECT_THAT(refusal(loop), HasSubstr("negative range"));
}

// J5
TEST(VerifyTest, SubscriptsMatchTheRank) {
  EXPECT_THAT(refusal(kernel({make_store(1, {}, one())})), HasSubstr("takes 1 subscripts, got 0"));
  EXPECT_THAT(refusal(kernel({make_declare(0, make_load(0, f32, {at(0), at(0)}))})),
              HasSubstr("takes 1 subscripts, got 2"));
}

// J5: one subscript of a load counts elements, and stays inside them; stores have one for each axis
TEST(VerifyTest, LoadsMayBeFlat) {
  const BufferDecl matrix{Role::input, {f32, {3, 4}}}, written{Role::output, {f32, {3, 4}}},
      row{Role::output, {f32, {13}}};
  const auto nest = [&](StmtPtr stmt) {
    return Loop{{matrix, written, row}, {}, {make_loop(0, 0, 12, {std::move(stmt)})}};
  };
  const auto copy = [&](std::int64_t from) {
    return make_store(2, {affine_var(0)}, make_load(0, f32, {affine_add(affine_var(0), at(from))}));
  };
  EXPECT_EQ(refusal(nest(copy(0))), "");
  EXPECT_THAT(refusal(nest(copy(1))), HasSubstr("from 1 to 12"));
  EXPECT_EQ(refusal(nest(make_prefetch(0, {affine_add(affine_var(0), at(12))}, Prefetch::load))),
            "");
  EXPECT_THAT(refusal(nest(make_store(1, {affine_var(0)}, one()))),
              HasSubstr("takes 2 subscripts, got 1"));
}

// J5, D3
TEST(VerifyTest, SubscriptsStayInsideForAllLoopValues) {
  const auto nest = [](std::int64_t to, Affine index) {
    return kernel({make_loop(0, 0, to, {make_store(1, {std::move(index)}, one())})});
  };
  EXPECT_EQ(refusal(nest(4, affine_var(0))), "");
  EXPECT_THAT(refusal(nest(5, affine_var(0))), HasSubstr("from 0 to 4"));
  EXPECT_THAT(refusal(nest(4, affine_add(affine_var(0), at(-1)))), HasSubstr("from -1 to 2"));
  EXPECT_EQ(refusal(nest(4, affine_add(affine_var(0, -1), at(3)))), "");
  EXPECT_EQ(refusal(nest(0, affine_var(0, 1000))), "") << "an empty loop reaches nothing";
  EXPECT_EQ(refusal(nest(4, affine_add(affine_var(0), affine_static(0)))), "")
      << "the signature bounds static indices";
}

// J5, D3: huge coefficients and bounds neither overflow nor pass
TEST(VerifyTest, RangesDoNotOverflow) {
  constexpr std::int64_t big = std::numeric_limits<std::int64_t>::max();
  Block body{make_store(
      1, {affine_add(affine_add(affine_var(0, big), affine_var(1, big)), affine_var(2, big))},
      one())};
  for (const VarId var : {2u, 1u, 0u}) body = {make_loop(var, 0, big, std::move(body))};
  EXPECT_THAT(refusal(kernel(std::move(body))),
              HasSubstr("subscripted from 0 to 9223372036854775807"));
}

// J5
TEST(VerifyTest, AffineIndicesAreCanonical) {
  const auto with = [](std::vector<AffineTerm> terms) {
    return kernel({make_loop(
        0, 0, 1, {make_loop(1, 0, 1, {make_store(1, {Affine{0, std::move(terms)}}, one())})})});
  };
  using enum AffineTerm::Kind;
  EXPECT_EQ(refusal(with({{loop, 0, 1}, {loop, 1, 1}, {static_index, 0, 1}})), "");
  EXPECT_THAT(refusal(with({{loop, 1, 1}, {loop, 0, 1}})), HasSubstr("out of order"));
  EXPECT_THAT(refusal(with({{loop, 1, 1}, {loop, 1, 1}})), HasSubstr("out of order"));
  EXPECT_THAT(refusal(with({{static_index, 0, 1}, {loop, 0, 1}})), HasSubstr("out of order"));
  EXPECT_THAT(refusal(with({{loop, 0, 0}})), HasSubstr("coefficient 0"));
}

// J5, J1
TEST(VerifyTest, TypesAgree) {
  EXPECT_THAT(refusal(kernel({make_store(1, {at(0)}, one(f64))})),
              HasSubstr("store to t1: value of f64 (expected f32)"));
  EXPECT_THAT(refusal(kernel({make_declare(0, make_load(0, i32, {at(0)}))})),
              HasSubstr("load from t0: value of i32 (expected f32)"));
  EXPECT_THAT(refusal(kernel({make_declare(0, one()), make_assign(0, one(i32))})),
              HasSubstr("assignment to x0: value of i32"));
  EXPECT_THAT(refusal(kernel({make_declare(0, one()), make_declare(1, make_local(0, i8))})),
              HasSubstr("read of x0: value of i8"));
}

ValuePtr raw(Op op, DType result, std::vector<ValuePtr> args) {
  Value value;
  value.kind = ValueKind::op;
  value.dtype = result;
  value.op = op;
  value.args = std::move(args);
  return std::make_shared<const Value>(std::move(value));
}

// J5, J3
TEST(VerifyTest, OperationsAreTypedAndInComputeTypes) {
  const auto refused = [](ValuePtr v) { return refusal(kernel({make_declare(0, std::move(v))})); };
  EXPECT_THAT(refused(raw(Op::add, f16, {one(f16), one(f16)})), HasSubstr("cast to f32 first"));
  EXPECT_THAT(refused(raw(Op::add, i64, {one(u64), one(i64)})), HasSubstr("no meaning"));
  EXPECT_THAT(refused(raw(Op::add, f32, {one(), one(i32)})),
              HasSubstr("operand 1 of 'add' is i32"));
  EXPECT_THAT(refused(raw(Op::add, f64, {one(), one()})), HasSubstr("result of 'add' is f64"));
  EXPECT_THAT(refused(raw(Op::where, f32, {one(), one(), one()})),
              HasSubstr("operand 0 of 'where' is f32 (expected bool)"));
  EXPECT_THAT(refused(raw(Op::add, f32, {one()})), HasSubstr("no meaning"));
  Value cast;
  cast.kind = ValueKind::cast;
  EXPECT_THAT(refused(std::make_shared<const Value>(cast)), HasSubstr("of 0 values"));
}

// J5, J1
TEST(VerifyTest, ConstantsAreValuesOfTheirType) {
  Value v;
  v.dtype = u8;
  v.scalar = Scalar{u8, 300, 0};
  EXPECT_THAT(refusal(kernel({make_declare(0, std::make_shared<const Value>(v))})),
              HasSubstr("no value of u8"));
  v.dtype = f32;
  v.scalar = Scalar{f32, 0, 0.1};
  EXPECT_THAT(refusal(kernel({make_declare(0, std::make_shared<const Value>(v))})),
              HasSubstr("no value of f32"));
  v.scalar = Scalar{f64, 0, 0.5};
  EXPECT_THAT(refusal(kernel({make_declare(0, std::make_shared<const Value>(v))})),
              HasSubstr("constant of f64 typed f32"));
}

// J5, D7
TEST(VerifyTest, RolesAreKept) {
  EXPECT_THAT(refusal(kernel({make_store(0, {at(0)}, one())})),
              HasSubstr("store to t0, which is an input buffer"));
  Loop merge = kernel({make_zero(0)});
  merge.buffers[0].role = Role::merge;
  EXPECT_THAT(refusal(merge), HasSubstr("zero to t0, which is the merge buffer"));
  merge.body.clear();
  merge.buffers[1].role = Role::merge;
  EXPECT_THAT(refusal(merge), HasSubstr("2 merge buffers (at most one)"));
}

// J5, D3
TEST(VerifyTest, BuffersHaveSizes) {
  Loop loop = kernel({});
  loop.buffers[0].type.dims = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_THAT(refusal(loop), HasSubstr("buffer t0"));
  loop.buffers[0].type.dims = {-1};
  EXPECT_THAT(refusal(loop), HasSubstr("extent is negative"));
}

// J5: walks recurse, so depth is bounded
TEST(VerifyTest, NestingIsBounded) {
  ValuePtr v = one();
  for (int k = 0; k < value_depth_max; ++k) v = make_op(Op::neg, {v});
  EXPECT_EQ(refusal(kernel({make_declare(0, v)})), "");
  EXPECT_THAT(refusal(kernel({make_declare(0, make_op(Op::neg, {v}))})), HasSubstr("nests deeper"));
  Block body;
  for (VarId var = 0; var < loop_depth_max; ++var) body = {make_loop(var, 0, 1, std::move(body))};
  EXPECT_EQ(refusal(kernel(body)), "");
  EXPECT_THAT(refusal(kernel({make_loop(loop_depth_max, 0, 1, std::move(body))})),
              HasSubstr("loops nest deeper"));
}

// J5, J10: an illegal kernel reaches no compiler, whoever made it; no deep one overflows its stack
TEST(VerifiedLoopTest, HoldsNoIllegalKernel) {
  ValuePtr deep = one();
  for (int k = 0; k < 3000; ++k) deep = make_op(Op::neg, {deep});
  const auto refusal_by = [](const auto& make) {
    try {
      static_cast<void>(make());
    } catch (const Error& error) {
      return error.status();
    }
    return Status();
  };
  const Loop illegal = kernel({make_store(1, {at(0)}, deep)});
  const Status by_hand = refusal_by([&] { return VerifiedLoop(illegal); });
  EXPECT_EQ(by_hand.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(by_hand.message(), HasSubstr("nests deeper"));
  const Status parsed = refusal_by([&] { return parse_loop(print(kernel({make_zero(7)}))); });
  EXPECT_EQ(parsed.code(), ErrorCode::invalid_argument);
  const Status by_stage = refusal_by([&] { return verified_after("tiling", illegal, {}); });
  EXPECT_EQ(by_stage.code(), ErrorCode::internal);
  EXPECT_THAT(by_stage.to_string(), HasSubstr("tiling made an illegal kernel"));
}

// J5, J9: what a stage leaves as it is was verified before it
TEST(VerifiedLoopTest, IsMadeOncePerStageThatChangesSomething) {
  const VerifiedLoop before(kernel({make_store(1, {at(0)}, one())}));
  EXPECT_TRUE(verified_after("same", Loop(*before), before).shares(before));
  const VerifiedLoop after = verified_after("zeroing", kernel({make_zero(1)}), before);
  EXPECT_FALSE(after.shares(before));
  EXPECT_EQ(after->body.front()->kind, StmtKind::zero);
}

}  // namespace
}  // namespace heddle::jit
