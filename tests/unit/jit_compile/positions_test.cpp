// Kernels with computed positions: whatever is computed, nothing outside a buffer is touched.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <type_traits>

#include "compilers.hpp"
#include "kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

class PositionKernelsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, PositionKernelsTest, ::testing::ValuesIn(every_compiler()),
                         param_name);

/// `count` floats between pages that nobody may touch: at the end of theirs, or at the beginning.
class Fenced {
 public:
  Fenced(std::size_t count, bool at_the_end) : page_(static_cast<std::size_t>(getpagesize())) {
    void* const mapped = mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(mapped);
    if (mprotect(base_ + page_, page_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    bytes_ = count * sizeof(float);
    data_ = base_ + page_ + (at_the_end ? page_ - bytes_ : 0);
  }
  ~Fenced() { munmap(base_, 3 * page_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(data_); }
  [[nodiscard]] heddle_kernel_buffer entry() const { return {data_, bytes_}; }

 private:
  std::size_t page_, bytes_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

/// Positions of each type, the extremes of it included.
template <class T>
std::vector<T> all_kinds(std::size_t count) {
  std::vector<T> values{0,
                        1,
                        6,
                        7,
                        std::numeric_limits<T>::min(),
                        std::numeric_limits<T>::max(),
                        static_cast<T>(std::numeric_limits<T>::max() / 2 + 1),
                        static_cast<T>(-1),
                        static_cast<T>(-7)};
  using Bits = std::make_unsigned_t<T>;  // wraps
  for (std::size_t k = 0; values.size() < count; ++k) {
    const auto bits = static_cast<Bits>(values[k % 9]);
    values.push_back(static_cast<T>(static_cast<Bits>(bits + static_cast<Bits>(k))));
  }
  return values;
}

template <class T>
bool is_below(T value) {
  if constexpr (std::is_signed_v<T>) return value < 0;
  return false;
}

/// Straight loops that compilers may make vectors of, and loops inside of a position.
constexpr std::string_view loop_text = R"(buffer t0 input T[100]
buffer t1 input f32[7]
buffer t2 output f32[100]
buffer t3 inout f32[7]
kernel {
  for i0 in 0..100 {
    nearest i1 in 0..7 = t0[i0] {
      t2[i0] = t1[i1]
    }
  }
  for i2 in 0..100 {
    at i3 in 0..7 = t0[i2] {
      t3[i3] = add.f32(t3[i3], t2[i2])
    }
  }
  for i4 in 0..100 {
    at i5 in -3..2 = t0[i4] {
      for i6 in 0..3 {
        t3[i5 + i6 + 3] = mul.f32(t3[i5 + i6 + 3], 0.5:f32)
      }
    }
  }
}
)";

template <class T>
void expect_inside(const dev::Module& module, std::size_t kernel, std::string_view type) {
  const std::vector<T> positions = all_kinds<T>(100);
  std::vector<std::byte> bytes = bytes_of(positions);
  for (const bool at_the_end : {true, false}) {
    const Fenced read(7, at_the_end), written(7, at_the_end);
    std::array<float, 7> wanted{};
    std::vector<float> wanted_rows;
    for (std::size_t k = 0; k < 7; ++k) read.data()[k] = static_cast<float>(k) + 0.25F;
    std::fill_n(written.data(), 7, 1.0F);
    wanted.fill(1.0F);
    const auto row = [](T value) {
      return is_below(value) ? 0 : std::min<std::uint64_t>(static_cast<std::uint64_t>(value), 6);
    };
    const auto is_inside = [](T value, std::int64_t from, std::int64_t to) {
      if (is_below(value)) return static_cast<std::int64_t>(value) >= from;
      return static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(to);
    };
    for (const T position : positions) wanted_rows.push_back(read.data()[row(position)]);
    for (std::size_t k = 0; k < 100; ++k) {
      if (is_inside(positions[k], 0, 7))
        wanted[static_cast<std::size_t>(positions[k])] += wanted_rows[k];
    }
    for (const T position : positions) {
      if (!is_inside(position, -3, 2)) continue;
      for (std::int64_t k = 0; k < 3; ++k)
        wanted[static_cast<std::size_t>(static_cast<std::int64_t>(position) + k + 3)] *= 0.5F;
    }
    std::vector<std::byte> rows(400);
    std::vector<heddle_kernel_buffer> entries{
        {bytes.data(), bytes.size()}, read.entry(), {rows.data(), rows.size()}, written.entry()};
    call_kernel(module.host_function(kernel), entries, {});
    EXPECT_EQ(elements_of<float>(rows), wanted_rows) << type;
    EXPECT_TRUE(std::ranges::equal(std::span(written.data(), 7), wanted)) << type;
  }
}

// J13, B3: all integer types, with their extremes, beside pages that must not be touched
TEST_P(PositionKernelsTest, NothingOutsideIsTouched) {
  CompileUnit unit;
  unit.name = "positions";
  constexpr std::array types{"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"};
  for (const std::string type : types)
    unit.kernels.push_back(kernel_from(type, replaced(std::string(loop_text), "T[", type + "[")));
  const auto module = loaded(*make()->compile(unit));
  expect_inside<std::uint8_t>(*module, 0, "u8");
  expect_inside<std::int8_t>(*module, 1, "i8");
  expect_inside<std::uint16_t>(*module, 2, "u16");
  expect_inside<std::int16_t>(*module, 3, "i16");
  expect_inside<std::uint32_t>(*module, 4, "u32");
  expect_inside<std::int32_t>(*module, 5, "i32");
  expect_inside<std::uint64_t>(*module, 6, "u64");
  expect_inside<std::int64_t>(*module, 7, "i64");
}

// J13: ranges that a type does not reach, or all of which lies beside it
TEST_P(PositionKernelsTest, RangesBesideTheType) {
  const auto module = loaded(*make()->compile(unit_from("beside", R"(buffer t0 input u8[]
buffer t1 output i64[5]
kernel {
  nearest i0 in -9..-2 = t0[] {
    t1[0] = index(i0)
  }
  at i1 in -9..-2 = t0[] {
    t1[1] = index(i1)
  }
  nearest i2 in 300..400 = t0[] {
    t1[2] = index(i2)
  }
  at i3 in 300..400 = t0[] {
    t1[3] = index(i3)
  }
  at i4 in -5..1000 = t0[] {
    t1[4] = index(i4)
  }
}
)")));
  std::vector<std::byte> position{std::byte{200}},
      found = bytes_of(std::vector<std::int64_t>(5, 7));
  std::vector<heddle_kernel_buffer> entries{{position.data(), 1}, {found.data(), found.size()}};
  call_kernel(module->host_function(0), entries, {});
  EXPECT_EQ(elements_of<std::int64_t>(found), (std::vector<std::int64_t>{-3, 7, 300, 7, 200}));
}

}  // namespace
}  // namespace heddle::jit::testing
