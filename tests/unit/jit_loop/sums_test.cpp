// Long sums: which terms they take one after the other, and that short axes are read as rows are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/sum_blocks.hpp"
#include "support/parsed.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The most often that an element of a float local is added to, from its declaration on: once for
/// each iteration of the loops in between that it is the same element for.
std::int64_t terms_in_order(const Block& body) {
  std::int64_t most = 0;
  std::map<LocalId, std::size_t> declared;  // in how many loops
  std::vector<const Stmt*> loops;
  const std::function<void(const Block&)> look = [&](const Block& block) {
    for (const StmtPtr& stmt : block) {
      if (stmt->kind == StmtKind::declare) declared[stmt->local] = loops.size();
      if (stmt->kind == StmtKind::assign && is_floating(stmt->value->dtype)) {
        std::int64_t terms = 0;
        walk(*stmt->value, [&](const Value& v) {
          if (v.kind == ValueKind::local && v.local == stmt->local) terms = 1;
        });
        for (std::size_t k = declared.at(stmt->local); k < loops.size(); ++k) {
          const auto moves = [&](const Affine& at) {
            return std::ranges::find(at.terms, loops[k]->var, &AffineTerm::id) != at.terms.end();
          };
          if (std::ranges::none_of(stmt->subscripts, moves)) terms *= loops[k]->to - loops[k]->from;
        }
        most = std::max(most, terms);
      }
      if (!binds_variable(*stmt)) continue;
      loops.push_back(stmt.get());
      look(stmt->body);
      loops.pop_back();
    }
  };
  look(body);
  return most;
}

struct Case {
  const char* name;
  Dims dims;
  std::vector<std::size_t> kept;  ///< the axes that are not summed
  DType dtype = f32;
};

/// sum over the other axes, in f32 or in the type
Loop scheduled(const Case& of, Isa isa) {
  const Tensor x("x", of.dtype, of.dims);
  Dims left;
  std::vector<Subscript> to, from;
  std::vector<Index> index(of.dims.size());
  for (const Index& each : index) from.emplace_back(each);
  for (const std::size_t axis : of.kept) {
    left.push_back(of.dims[axis]);
    to.emplace_back(index[axis]);
  }
  const DType sum_type = size_of(of.dtype) == 2 ? f32 : of.dtype;
  const Tensor y("y", sum_type, left);
  Program program("sums");
  program << (y.at(to) = sum(cast(x.at(from), sum_type)));
  return schedule(optimize(lower(program)), tiny_target(isa)).loop;
}

const Case cases[] = {{"row", {1 << 26}, {}},
                      {"image", {3000, 4000, 3}, {}},
                      {"odd image", {2999, 4001, 3}, {}},
                      {"columns of 3", {1 << 24, 3}, {1}},
                      {"columns of 100", {1 << 20, 100}, {1}},
                      {"rows of columns", {4, 1 << 22, 3}, {0, 2}},
                      {"rows of images", {4, 1 << 20, 3}, {0}},
                      {"far apart", {1 << 12, 3, 1 << 12}, {1}},
                      {"double", {1 << 22, 3}, {}, f64},
                      {"bf16", {1 << 24}, {}, bf16},
                      {"f16 in columns", {1 << 20, 5}, {1}, f16}};

// J9, W1: no float sum takes more than terms_in_order_max terms one after the other
TEST(SumsTest, TakeFewTermsInOrder) {
  for (const Case& each : cases) {
    for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
      EXPECT_LE(terms_in_order(scheduled(each, isa).body), terms_in_order_max)
          << each.name << " " << name(isa);
  }
}

// J9: axes that lie together are one row; a few columns share vectors; bf16 is widened in lanes
TEST(SumsTest, ShortAxesAreReadAsRows) {
  for (const Case& each : cases) {
    if (std::string_view(each.name) == "far apart") continue;
    EXPECT_THAT(comments(scheduled(each, Isa::avx512)), HasSubstr("reduction: ")) << each.name;
  }
  EXPECT_THAT(comments(scheduled(cases[1], Isa::avx512)), HasSubstr("8 x 16 at once"));
  EXPECT_THAT(comments(scheduled(cases[3], Isa::avx512)),
              HasSubstr("6 x 16 at once, for 3 columns"));
}

Program small(const Dims& dims, const std::vector<std::size_t>& kept, bool centred) {
  const Tensor x("x", f32, dims);
  std::vector<Index> index(dims.size());
  std::vector<Subscript> from, to;
  for (const Index& each : index) from.emplace_back(each);
  Dims left;
  for (const std::size_t axis : kept) {
    left.push_back(dims[axis]);
    to.emplace_back(index[axis]);
  }
  const Tensor y("y", f32, left), middle("middle", f32, left);
  Program program("small");
  if (centred) {
    program << (y.at(to) = sum((x.at(from) - middle.at(to)) * x.at(from)));
  } else {
    program << (y.at(to) = sum(x.at(from)));
  }
  return program;
}

// J9: every term is taken once, whatever is left behind whole vectors, steps and blocks
TEST(SumsTest, AreThoseOfThePlainLoops) {
  for (const bool centred : {false, true}) {
    for (const std::int64_t width : {2, 3, 5, 7, 15, 16, 17}) {
      for (const std::int64_t rows : {33, 700, 1500}) {
        expect_unchanged(small({rows, width}, {1}, centred));
        expect_unchanged(small({rows, width}, {}, centred));
      }
      expect_unchanged(small({2, 130, width}, {0, 2}, centred));
      expect_unchanged(small({3, 130, width}, {0}, centred));
      expect_unchanged(small({30, 9, width}, {2}, centred));
    }
    expect_unchanged(small({70000}, {}, centred));
    expect_unchanged(small({2, 150000}, {0}, centred));
  }
}

// J9: columns that read what others leave are taken one after the other
TEST(SumsTest, ColumnsMayReadWhatOthersLeave) {
  const Tensor x("x", f32, {200, 5}), chain("chain", f32, {6});
  const Index i, j(5);
  Program program("carried");
  program << (chain(j + 1) = sum(x(i, j) + chain(j)));
  Lowered plain = optimize(lower(program));
  plain.loop = parsed(R"(buffer t0 inout f32[6]
buffer t1 input f32[200,5]
kernel {
  for i0 in 0..5 {
    let x0: f32 = 0:f32
    for i1 in 0..200 {
      x0 = add.f32(x0, add.f32(t1[i1, i0], t0[i0]))
    }
    t0[i0 + 1] = x0
  }
}
)");
  EXPECT_THAT(comments(schedule(plain, tiny_target(Isa::avx512)).loop), Not(HasSubstr("columns")));
}

// J9: what is looked at between terms, or is no sum, keeps its order
TEST(SumsTest, RunningSumsKeepTheirOrder) {
  const Tensor x("x", f32, {5000}), running("running", f32, {5001});
  const Index i(5000);
  Program program("running");
  program << (running(i + 1) = running(i) + x(i));
  EXPECT_THAT(comments(schedule(optimize(lower(program)), tiny_target(Isa::avx512)).loop),
              Not(HasSubstr("blocks")));
}

}  // namespace
}  // namespace heddle::jit::testing
