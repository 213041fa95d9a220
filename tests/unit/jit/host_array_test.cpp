// Host arrays: initialisers, element access, rendering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "heddle/host_array.hpp"
#include "heddle/status.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> elements(const HostArray& array) {
  std::vector<double> values;
  for (std::int64_t k = 0; k < array.num_elements(); ++k) values.push_back(array.at(k));
  return values;
}

ErrorCode code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode::ok;
}

// D4: constant fill, strict and cycling
TEST(HostArrayTest, FillsStrictlyOrByCycling) {
  const std::vector<double> two{1, 2};
  EXPECT_THAT(elements(HostArray::fill(ArrayType{i32, {5}}, two)), ElementsAre(1, 2, 1, 2, 1));
  EXPECT_EQ(code_of([&] { HostArray::fill(ArrayType{i32, {5}}, two, true); }),
            ErrorCode::invalid_argument);
  EXPECT_THAT(elements(HostArray::fill(ArrayType{f16, {2}}, two, true)), ElementsAre(1, 2));
  EXPECT_EQ(code_of([&] { HostArray::fill(ArrayType{i32, {5}}, {}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(HostArray::fill(ArrayType{i32, {0}}, {}).num_elements(), 0);
}

// D4: range over offsets
TEST(HostArrayTest, RangeCountsRowMajor) {
  EXPECT_THAT(elements(HostArray::range(ArrayType{bf16, {2, 2}})), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(HostArray::range(ArrayType{u8, {300}}).at(299), 43);
}

// D10: a seed gives the same numbers everywhere, below one in every dtype
TEST(HostArrayTest, UniformIsSeededAndInTheHalfOpenInterval) {
  for (const DType t : {f16, bf16, f32, f64}) {
    const auto a = elements(HostArray::uniform(ArrayType{t, {4096}}, 7));
    EXPECT_EQ(a, elements(HostArray::uniform(ArrayType{t, {4096}}, 7)));
    EXPECT_NE(a, elements(HostArray::uniform(ArrayType{t, {4096}}, 8)));
    double sum = 0;
    for (const double v : a) {
      ASSERT_GE(v, 0);
      ASSERT_LT(v, 1);
      sum += v;
    }
    EXPECT_NEAR(sum / 4096, 0.5, 0.03);
  }
  EXPECT_EQ(code_of([] { HostArray::uniform(ArrayType{i32, {1}}, 1); }),
            ErrorCode::invalid_argument);
}

// D4: file-mapped, with both byte sizes in the message
TEST(HostArrayTest, MapsAFileCopyOnWrite) {
  const std::string path = testing::TempDir() + "heddle_map.bin";
  const std::vector<float> values{1, 2, 3};
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), sizeof(float) * 3);
  const HostArray mapped = HostArray::map_file(ArrayType{f32, {3}}, path);
  EXPECT_THAT(elements(mapped), ElementsAre(1, 2, 3));
  mapped.set(0, 9);
  EXPECT_EQ(HostArray::map_file(ArrayType{f32, {3}}, path).at(0), 1);
  try {
    HostArray::map_file(ArrayType{f64, {3}}, path);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("12 bytes"));
    EXPECT_THAT(e.what(), HasSubstr("24"));
  }
  std::remove(path.c_str());
  EXPECT_EQ(code_of([&] { HostArray::map_file(ArrayType{f32, {3}}, path); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([] { HostArray::map_file(ArrayType{f32, {3}}, "/"); }),
            ErrorCode::invalid_argument);
}

// D4, bad input: a pipe that nobody writes to holds nobody up
TEST(HostArrayTest, MapsNoPipe) {
  const std::string path = testing::TempDir() + "heddle_map.pipe";
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  try {
    HostArray::map_file(ArrayType{u8, {1}}, path);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.what(), AllOf(HasSubstr(path), HasSubstr("u8[1]"), HasSubstr("regular file")));
  }
  std::remove(path.c_str());
}

// D4: borrowed memory is the caller's own
TEST(HostArrayTest, BorrowsWithoutCopying) {
  std::vector<std::int32_t> mine{1, 2};
  const HostArray array = HostArray::borrow(ArrayType{i32, {2}}, mine.data());
  mine[1] = 7;
  EXPECT_EQ(array.at(1), 7);
  EXPECT_EQ(array.data(), mine.data());
  EXPECT_EQ(code_of([] { HostArray::borrow(ArrayType{i32, {2}}, nullptr); }),
            ErrorCode::invalid_argument);
}

// D2
TEST(HostArrayTest, IsZeroFilledAndAligned) {
  const HostArray array(ArrayType{f64, {33}});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data()) % 64, 0u);
  for (const double v : array.values<double>()) EXPECT_EQ(v, 0);
}

// J1: wrong views and positions are errors
TEST(HostArrayTest, ChecksTypesCountsAndPositions) {
  const HostArray array = HostArray::of<float>({2}, std::vector<float>{1, 2});
  EXPECT_EQ(code_of([&] { static_cast<void>(array.values<double>()); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { static_cast<void>(array.at(2)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { static_cast<void>(array.at(-1)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { HostArray::of<float>({3}, std::vector<float>{1, 2}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { HostArray(ArrayType{f32, {-2}}); }), ErrorCode::invalid_argument);
}

// D4: printing is bounded, whatever the size
TEST(HostArrayTest, RendersWithElision) {
  EXPECT_EQ(HostArray::range(ArrayType{i32, {2, 3}}).to_string(),
            "i32[2,3] [[0, 1, 2],\n [3, 4, 5]]");
  EXPECT_EQ(HostArray::range(ArrayType{i32, {9}}).to_string(), "i32[9] [0, 1, 2, ..., 6, 7, 8]");
  EXPECT_EQ(HostArray::fill(ArrayType{f32, {}}, std::vector<double>{0.5}).to_string(), "f32[] 0.5");
  EXPECT_EQ(HostArray(ArrayType{bool_, {0}}).to_string(), "bool[0] []");
  EXPECT_LT(HostArray(ArrayType{u8, {9, 9, 9, 9, 9, 9}}).to_string().size(), 20'000u);
}

}  // namespace
}  // namespace heddle
