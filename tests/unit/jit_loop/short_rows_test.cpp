// Rows shorter than vectors along them, side by side in lanes.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/parsed.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t row_count = 21;  // a block of 16, and others

/// Whether the schedule takes rows side by side.
bool takes_side_by_side(const Program& program) {
  const Lowered made = schedule(optimize(lower(program)), tiny_target(Isa::avx512));
  return comments(made.loop).find("short rows: 16 side by side") != std::string::npos;
}

/// The same; its results are those without a schedule.
bool is_side_by_side(const Program& program) {
  expect_unchanged(program);
  return takes_side_by_side(program);
}

struct Softmax {
  explicit Softmax(std::int64_t count, std::int64_t of = row_count)
      : x("x", f32, {of, count}), y("y", f32, {of, count}), e("e", f32, {of, count}) {
    const Tensor most("most", f32, {of}), all("all", f32, {of});
    const Index i, k;
    program << (most(i) = maximum(x(i, k))) << (e(i, k) = exp(x(i, k) - most(i)))
            << (all(i) = sum(e(i, k))) << (y(i, k) = e(i, k) / all(i));
  }
  Tensor x, y, e;
  Program program{"softmax"};
};

// J9: rows of fewer elements than lanes, of some more, and of some more vectors that leave a
// rest
TEST(ShortRowsTest, LanesTakeARowEach) {
  for (const std::int64_t count : {5, 10, 16, 19, 32, 47, 63})
    EXPECT_TRUE(is_side_by_side(Softmax(count).program)) << count;
  for (const std::int64_t count : {48, 64, 100})
    EXPECT_FALSE(takes_side_by_side(Softmax(count).program)) << count;
  EXPECT_TRUE(is_side_by_side(Softmax(10, 16).program));
  EXPECT_FALSE(is_side_by_side(Softmax(10, 15).program));
}

// B3: each sum takes the terms of its row in order
TEST(ShortRowsTest, SumsKeepTheirOrder) {
  const Lowered plain = optimize(lower(Softmax(19).program));
  const Lowered made = schedule(plain, tiny_target(Isa::avx512));
  std::vector<HostArray> expected, found;
  for (std::size_t k = 0; k < made.loop.buffers.size(); ++k) {
    HostArray numbers(made.loop.buffers[k].type);
    for (std::int64_t at = 0; at < *numbers.type().num_elements(); ++at)
      numbers.set(at, 1 / (1.25 + static_cast<double>(at * 7 % 41)));
    found.push_back(numbers);
    if (k < plain.loop.buffers.size()) expected.emplace_back(plain.loop.buffers[k].type);
    if (k < plain.loop.buffers.size() && plain.loop.buffers[k].role != Role::scratch)
      expected.back() = numbers;
  }
  interpret(plain.loop, expected);
  interpret(made.loop, found);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    if (plain.loop.buffers[k].role == Role::scratch) continue;
    EXPECT_TRUE(same_elements(expected[k], found[k])) << k;
  }
}

// J9: results of another width than the lanes are stored row by row
TEST(ShortRowsTest, PlacesOfExtremes) {
  const Tensor x("x", f32, {row_count, 10}), most("most", f32, {row_count}),
      place("place", i64, {row_count});
  const Index i, k;
  Program program("argmax");
  program << (most(i) = maximum(x(i, k)))
          << (place(i) = minimum(where(x(i, k) == most(i), embed(k), 10)));
  EXPECT_TRUE(is_side_by_side(program));
}

/// The centre nearest to each point, and its distance.
struct Nearest {
  Nearest(std::int64_t coordinates, std::int64_t centres, std::int64_t width = 0) {
    const std::int64_t columns = width == 0 ? coordinates : width;
    const Tensor x("x", f32, {row_count, columns}), centre("centre", f32, {centres, columns}),
        d("d", f32, {row_count, centres}), least("least", f32, {row_count}),
        place("place", i64, {row_count});
    const Index i, k, c(coordinates);
    program << (d(i, k) = sum((x(i, c) - centre(k, c)) * (x(i, c) - centre(k, c))))
            << (least(i) = minimum(d(i, k)))
            << (place(i) = minimum(where(d(i, k) == least(i), embed(k), centres)));
    d.set_mode(MemoryMode::local);
  }
  Program program{"nearest"};
};

// J9: rows computed from points, whose coordinates are turned as well
TEST(ShortRowsTest, DistancesOfPoints) {
  for (const std::int64_t coordinates : {2, 3, 8})
    EXPECT_TRUE(is_side_by_side(Nearest(coordinates, 16).program)) << coordinates;
  EXPECT_TRUE(is_side_by_side(Nearest(3, 5).program));
  EXPECT_TRUE(is_side_by_side(Nearest(3, 20).program));
  EXPECT_TRUE(is_side_by_side(Nearest(3, 16, 16).program)) << "some columns of a row";
  EXPECT_FALSE(is_side_by_side(Nearest(3, 16, 17).program)) << "few columns of a wide row";
  EXPECT_TRUE(is_side_by_side(Nearest(3, 128).program));
  EXPECT_FALSE(is_side_by_side(Nearest(3, 129).program)) << "vectors along the row";
}

// S5: rows of scratch with more axes than a row and a lane have
TEST(ShortRowsTest, DistancesOfPointsOfBatches) {
  const Tensor x("x", f32, {2, row_count, 3}), centre("centre", f32, {16, 3}),
      d("d", f32, {2, row_count, 16}), least("least", f32, {2, row_count}),
      place("place", i64, {2, row_count});
  const Index b, i, k, c;
  Program program("batches");
  program << (d(b, i, k) = sum((x(b, i, c) - centre(k, c)) * (x(b, i, c) - centre(k, c))))
          << (least(b, i) = minimum(d(b, i, k)))
          << (place(b, i) = minimum(where(d(b, i, k) == least(b, i), embed(k), 16)));
  d.set_mode(MemoryMode::local);
  EXPECT_TRUE(is_side_by_side(program));
}

// S5: rows may be stored where they were read
TEST(ShortRowsTest, RowsInPlace) {
  const Tensor x("x", f32, {row_count, 10}), most("most", f32, {row_count});
  const Index i, k;
  Program program("in_place");
  program << (most(i) = maximum(x(i, k))) << (x(i, k) = x(i, k) - most(i));
  EXPECT_TRUE(is_side_by_side(program));
}

// D9: rows that read others, and rows whose elements lie apart, stay one after the other
TEST(ShortRowsTest, OtherRowsStay) {
  const Tensor x("x", f32, {row_count, 10}), far("far", f32, {row_count, 10, 2}),
      y("y", f32, {row_count + 1}), next("next", i64, {row_count});
  const Index i(row_count), k;
  Program chain("chain"), apart("apart"), taken("taken");
  chain << (y(i + 1) = maximum(x(i, k) * y(i)));
  EXPECT_FALSE(is_side_by_side(chain));
  apart << (y(i) = maximum(far(i, k, 1)));
  EXPECT_FALSE(is_side_by_side(apart));
  taken << (y(i) = maximum(x(at(next(i)), k)));
  EXPECT_FALSE(is_side_by_side(taken));
}

// D9: rows that read what the row before left are taken one after the other
TEST(ShortRowsTest, RowsMayReadWhatOthersLeave) {
  const Tensor x("x", f32, {20, 10}), chain("chain", f32, {21});
  const Index i(20), k;
  Program program("carried");
  program << (chain(i + 1) = maximum(x(i, k) * chain(i)));
  Lowered plain = optimize(lower(program));
  plain.loop = parsed(R"(buffer t0 inout f32[21]
buffer t1 input f32[20,10]
kernel {
  for i0 in 0..20 {
    let x0: f32 = -inf:f32
    for i1 in 0..10 {
      x0 = max.f32(x0, mul.f32(t1[i0, i1], t0[i0]))
    }
    t0[i0 + 1] = x0
  }
}
)");
  EXPECT_EQ(comments(schedule(plain, tiny_target(Isa::avx512)).loop), "");
}

// J9: compilers find the vectors of a few plain operations by themselves
TEST(ShortRowsTest, FewPlainOperationsStay) {
  const auto sums = [](std::int64_t count) {
    const Tensor x("x", f32, {row_count, count}), y("y", f32, {row_count});
    const Index i, k;
    Program program("sums");
    program << (y(i) = sum(x(i, k) * x(i, k)));
    return program;
  };
  EXPECT_FALSE(is_side_by_side(sums(8)));
  EXPECT_TRUE(is_side_by_side(sums(9)));
}

}  // namespace
}  // namespace heddle::jit::testing
