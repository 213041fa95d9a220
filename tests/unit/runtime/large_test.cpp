// An array of more than 2^31 elements: every loop, subscript and byte count needs 64 bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "heddle/heddle.hpp"

namespace heddle {
namespace {

using testing::Each;
using testing::ElementsAre;

std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::int64_t kib = 0;
  for (std::string word; file >> word;) {
    if (word == "MemAvailable:") file >> kib;
  }
  return kib * 1024;
}

class LargeTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, LargeTest, testing::Values("cc", "gccjit"),
                         [](const auto& backend) { return std::string(backend.param); });

// D3: written, summed, sliced and read past element 2^31
TEST_P(LargeTest, MoreElementsThanThirtyTwoBitsCount) {
  constexpr std::int64_t rows = 65'537, columns = 32'768;
  const std::int64_t elements = rows * columns;
  ASSERT_GT(elements, std::int64_t{1} << 31);
  if (available_bytes() < 4 * elements) {
    std::printf("a machine without %lld free bytes runs nothing here\n",
                static_cast<long long>(4 * elements));
    GTEST_SKIP() << "too little memory";
  }
  const Backend backend = Backend::open(GetParam());
  const Tensor big("big", i8, {rows, columns}), sums("sums", i64, {rows}), one("one", i8, {2});
  Index i, j, k;
  const StaticIndex row("row", rows);
  Program fill("fill"), add("add"), pick("pick");
  fill << (big(i, j) = cast(embed(i) * 3 + embed(j), i8));
  add << (sums(i) = sum(cast(big(i, j), i64)));
  pick << (one(k) = big(row, 32'766 + k));
  const Routine filled =
      Context(backend.physical_device(0).new_virtual_device()).link(backend.compile(fill));
  const Routine added = filled.context().link(backend.compile(add));
  const Routine picked = added.context().link(backend.compile(pick));
  filled.schedule();
  added.schedule();
  picked.schedule({{row, rows - 1}});
  // A row holds each i8 value 128 times.
  EXPECT_THAT(added.context().read<std::int64_t>(sums), Each(-128 * 128));
  const auto value = [](std::int64_t r, std::int64_t c) {
    return static_cast<std::int8_t>(3 * r + c);
  };
  EXPECT_THAT(picked.context().read<std::int8_t>(one),
              ElementsAre(value(rows - 1, columns - 2), value(rows - 1, columns - 1)));
  const BufferView view = filled.context().view(big);
  EXPECT_EQ(view.num_bytes(), static_cast<std::size_t>(elements));
  for (const std::int64_t at :
       {(std::int64_t{1} << 31) - 1, (std::int64_t{1} << 31) + 7, elements - 1}) {
    std::int8_t found = 0;
    const BufferView element(view.buffer(), {i8, {1}}, static_cast<std::size_t>(at));
    EXPECT_TRUE(
        element.to_host(filled.context().device(), std::as_writable_bytes(std::span(&found, 1)))
            .wait()
            .ok());
    EXPECT_EQ(found, value(at / columns, at % columns)) << at;
  }
}

}  // namespace
}  // namespace heddle
