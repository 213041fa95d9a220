// Computed positions on every backend: reads clamp to the axis, writes outside are dropped, and
// writes to one element keep their order.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::Each;
using testing::ElementsAre;

class PositionsTest : public Conformance {
 protected:
  /// A routine of the program in a context with these positions.
  template <class T>
  Routine with_rows(const Program& program, const Tensor& rows, const std::vector<T>& values) {
    const Routine made = Context(device).link(backend.compile(program));
    made.context().write(rows, values);
    return made;
  }
  static std::vector<float> counted(std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t k = 0; k < count; ++k) values[k] = static_cast<float>(k) + 0.5F;
    return values;
  }
};
HEDDLE_CONFORMANCE_SUITE(PositionsTest);

// J13, B3: rows by number; positions beyond the ends read the first or last row
TEST_P(PositionsTest, ReadsOutsideAreOfTheNearestElement) {
  const Tensor rows("rows", i32, {6}), x("x", f32, {4, 33}), y("y", f32, {6, 33});
  Index i, k;
  Program p("gather");
  p << (y(i, k) = x(at(rows(i)), k));
  const Routine gather = with_rows<std::int32_t>(
      p, rows, {2, -1, 3, 4, std::numeric_limits<std::int32_t>::min(), 1 << 30});
  const std::vector<float> values = counted(4 * 33);
  gather.context().write(x, values);
  gather.schedule();
  const std::vector<float> found = gather.context().read<float>(y);
  const std::vector<std::size_t> from{2, 0, 3, 3, 0, 3};
  for (std::size_t row = 0; row < from.size(); ++row) {
    for (std::size_t column = 0; column < 33; ++column)
      ASSERT_EQ(found[row * 33 + column], values[from[row] * 33 + column]) << row << " " << column;
  }
}

// B3: indices are numbers as exact in vectors as one by one: as f32, compared, least and greatest
TEST_P(PositionsTest, IndicesAreExactInVectors) {
  constexpr std::int64_t count = 1000, far = (std::int64_t{1} << 24) + 1;
  const Tensor x("x", f32, {count}), ramp("ramp", f32, {count}), masked("masked", f32, {count}),
      first("first", i64, {}), last("last", i64, {}), rounded("rounded", f32, {count}),
      wide("wide", f64, {count}), places("places", i64, {count}), wide_at("wide_at", i64, {});
  Index i, j, k, l, m, n64, w;
  Program p("indices");
  p << (ramp(i) = cast(embed(count - 3 * i), f32) + x(i) * 0.0)
    << (rounded(m) = cast(embed(m + far), f32) + x(m) * 0.0)
    << (masked(j) = where(embed(j) < 501, x(j), -1.0))
    << (first() = minimum(where(x(k) > 700.0, embed(k), count)))
    << (last() = maximum(where(x(l) < 300.0, embed(2 * l + 1), std::int64_t{-1})))
    << (places(n64) = where(embed(n64) < 500, embed(far * 1000 - 3 * n64), std::int64_t{7}))
    << (wide_at() = minimum(where(wide(w) > 700.0, embed(w + far * 1000), far * 2000)));
  const Routine run = Context(device).link(backend.compile(p));
  const std::vector<float> elements = counted(count);
  run.context().write(x, elements);
  run.context().write(wide, std::vector<double>(elements.begin(), elements.end()));
  run.schedule();
  const auto wide_places = run.context().read<std::int64_t>(places);
  const auto ramps = run.context().read<float>(ramp), masks = run.context().read<float>(masked),
             far_ones = run.context().read<float>(rounded);
  for (std::size_t n = 0; n < count; ++n) {
    const auto at = static_cast<std::int64_t>(n);
    ASSERT_EQ(ramps[n], static_cast<float>(count - 3 * at)) << n;
    ASSERT_EQ(far_ones[n], static_cast<float>(at + far)) << n;
    ASSERT_EQ(wide_places[n], at < 500 ? far * 1000 - 3 * at : 7) << n;
    ASSERT_EQ(masks[n], n < 501 ? static_cast<float>(n) + 0.5F : -1.0F) << n;
  }
  EXPECT_THAT(run.context().read<std::int64_t>(first), ElementsAre(700));
  EXPECT_THAT(run.context().read<std::int64_t>(last), ElementsAre(599));
  EXPECT_THAT(run.context().read<std::int64_t>(wide_at), ElementsAre(700 + far * 1000));
}

// J13: u64 is never negative; small types may be too small for the axis
TEST_P(PositionsTest, PositionsHaveAnyIntegerType) {
  const Tensor x("x", f32, {300}), wide("wide", u64, {3}), narrow("narrow", u8, {3}),
      low("low", i8, {3}), a("a", f32, {3}), b("b", f32, {3}), c("c", f32, {3});
  Index i;
  Program p("types");
  p << (a(i) = x(at(wide(i)))) << (b(i) = x(at(narrow(i)))) << (c(i) = x(at(low(i))));
  const Routine run = with_rows<std::uint64_t>(
      p, wide, {1, std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max()});
  run.context().write(narrow, std::vector<std::uint8_t>{0, 255, 7});
  run.context().write(low, std::vector<std::int8_t>{-128, 127, 0});
  run.context().write(x, counted(300));
  run.schedule();
  EXPECT_THAT(run.context().read<float>(a), ElementsAre(1.5F, 299.5F, 299.5F));
  EXPECT_THAT(run.context().read<float>(b), ElementsAre(0.5F, 255.5F, 7.5F));
  EXPECT_THAT(run.context().read<float>(c), ElementsAre(0.5F, 127.5F, 0.5F));
}

// J13: sums at repeated rows are taken in the order of iterations, which rounding makes visible
TEST_P(PositionsTest, WritesToOneElementKeepTheirOrder) {
  constexpr std::size_t count = 1000, width = 17;
  const Tensor rows("rows", i64, {count}), x("x", f32, {count, width}),
      sums("sums", f32, {7, width}), last("last", f32, {7});
  Index i, k;
  Program p("scatter");
  p << (sums(at(rows(i)), k) += x(i, k)) << (last(at(rows(i))) = x(i, 0));
  std::vector<std::int64_t> to(count);
  std::vector<float> terms(count * width);
  std::uint32_t random = 1;
  const auto next = [&random] { return random = random * 1664525U + 1013904223U; };
  for (auto& row : to) row = static_cast<std::int64_t>(next() >> 16U) % 9 - 1;  // -1 and 7: outside
  for (auto& term : terms) term = std::ldexp(1.0F, static_cast<int>(next() >> 28U)) / 3.0F;
  const Routine run = with_rows(p, rows, to);
  run.context().write(x, terms);
  run.schedule();
  std::vector<float> wanted(7 * width), wanted_last(7);
  for (std::size_t n = 0; n < count; ++n) {
    if (to[n] < 0 || to[n] >= 7) continue;
    const auto row = static_cast<std::size_t>(to[n]);
    for (std::size_t column = 0; column < width; ++column)
      wanted[row * width + column] += terms[n * width + column];
    wanted_last[row] = terms[n * width];
  }
  EXPECT_EQ(run.context().read<float>(sums), wanted);
  EXPECT_EQ(run.context().read<float>(last), wanted_last);
}

// J13, D2: elements at no written position keep their values, and start as zero
TEST_P(PositionsTest, ElementsThatNothingNamesStay) {
  const Tensor rows("rows", i32, {3}), x("x", f32, {3}), y("y", f32, {5}), most("most", f32, {5}),
      times("times", f32, {5});
  Index i;
  Program p("named");
  p << (y(at(rows(i))) = x(i)) << most(at(rows(i))).max_with(x(i)) << (times(at(rows(i))) *= x(i));
  const Routine run = with_rows<std::int32_t>(p, rows, {3, 5, 1});
  run.context().write(x, std::vector<float>{2, 99, 4});
  run.context().write(times, std::vector<float>(5, 10));
  run.schedule();
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(0, 4, 0, 2, 0));
  EXPECT_THAT(run.context().read<float>(most), ElementsAre(0, 4, 0, 2, 0));
  EXPECT_THAT(run.context().read<float>(times), ElementsAre(10, 40, 10, 20, 10));
}

// J13: a window is treated as a whole: reads shift the window inside; writes drop the whole window
TEST_P(PositionsTest, WindowsStayTogether) {
  const Tensor start("start", i32, {}), x("x", f32, {8}), read("read", f32, {3}),
      written("written", f32, {8});
  read.set_mode(MemoryMode::on_device);
  Index i(3);
  Program p("windows");
  p << (read(i) = x(at(start()) + i)) << (written(at(start()) + i) = read(i));
  const Routine run = with_rows<std::int32_t>(p, start, {6});
  run.context().write(x, counted(8));
  run.schedule();
  EXPECT_THAT(run.context().read<float>(read), ElementsAre(5.5F, 6.5F, 7.5F));
  EXPECT_THAT(run.context().read<float>(written), Each(0));
  run.context().write(start, std::vector<std::int32_t>{5});
  run.schedule();
  EXPECT_THAT(run.context().read<float>(written), ElementsAre(0, 0, 0, 0, 0, 5.5F, 6.5F, 7.5F));
}

// J13: axes without elements: writes have no effect, and loops over them have no iterations
TEST_P(PositionsTest, EmptyAxesHoldNothing) {
  const Tensor rows("rows", i32, {3}), x("x", f32, {3}), none("none", f32, {0}),
      no_rows("no_rows", i32, {0}), y("y", f32, {3});
  Index i, j;
  Program p("empty");
  p << (none(at(rows(i))) += x(i)) << (y(at(no_rows(j))) = 1) << (y(i) += x(at(rows(i))));
  const Routine run = with_rows<std::int32_t>(p, rows, {2, 1, 0});
  run.context().write(x, std::vector<float>{1, 2, 3});
  run.schedule();
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(3, 2, 1));
}

// J13: a statement may read at positions the tensor it writes: earlier iterations are visible
TEST_P(PositionsTest, InPlaceReadsSeeEarlierWrites) {
  const Tensor parent("parent", i32, {5}), depth("depth", i32, {5});
  Index i;
  Program p("depths");
  p << (depth(i) = depth(at(parent(i))) + 1);
  const Routine run = with_rows<std::int32_t>(p, parent, {0, 0, 1, 2, 0});
  run.schedule();
  EXPECT_THAT(run.context().read<std::int32_t>(depth), ElementsAre(1, 2, 3, 4, 2));
}

}  // namespace
}  // namespace heddle
