// Every conversion between every pair of types, on every CPU compiler, against an independent
// reference; the 16-bit floats exhaustively.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compilers.hpp"
#include "edge_values.hpp"
#include "jit/emit/c.hpp"
#include "jit/value/element.hpp"
#include "kernel_runner.hpp"
#include "support/cast_reference.hpp"
#include "support/scalar_reference.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::size_t small_bits_count = 65536;

template <class T>
T element(const std::vector<std::byte>& bytes, std::size_t k) {
  T value{};
  std::memcpy(&value, bytes.data() + k * sizeof(T), sizeof(T));
  return value;
}

Exact read_exact(DType t, const std::vector<std::byte>& bytes, std::size_t k) {
  if (is_storage_only(t)) return static_cast<Exact>(decode(t, element<std::uint16_t>(bytes, k)));
  if (t == bool_) return element<std::uint8_t>(bytes, k) != 0 ? 1 : 0;
  return with_type(t,
                   [&](auto tag) { return static_cast<Exact>(element<decltype(tag)>(bytes, k)); });
}

/// All 16-bit patterns, or edge values of the type and of every conversion's limits.
std::vector<std::byte> values_of(DType from) {
  if (is_storage_only(from)) {
    std::vector<std::uint16_t> all(small_bits_count);
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<std::uint16_t>(k);
    return bytes_of(all);
  }
  if (from == bool_) return bytes_of(std::vector<std::uint8_t>{0, 1, 2, 255});
  return with_type(from, [](auto tag) -> std::vector<std::byte> {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, bool>) {
      return {};
    } else {
      std::vector<T> values = edge_values<T>(200);
      if constexpr (std::is_floating_point_v<T>) {
        for (int exponent = -150; exponent <= 130; ++exponent) {
          for (const double factor : {1.0, 1.5, -1.0, -1.75}) {
            const auto at = static_cast<T>(std::ldexp(factor, exponent));
            values.insert(values.end(),
                          {at, std::nextafter(at, T(0)), std::nextafter(at, T(4e38))});
          }
        }
      }
      return bytes_of(values);
    }
  });
}

/// Every value of a 16-bit format, the middle to its successor, and the floats around the middle.
std::vector<std::byte> around_all(DType t) {
  std::vector<float> values;
  for (std::uint32_t k = 0; k < small_bits_count; ++k) {
    const double here = decode(t, static_cast<std::uint16_t>(k));
    const double next = decode(t, static_cast<std::uint16_t>(k + 1));
    const auto middle = static_cast<float>((here + next) / 2);
    values.insert(values.end(),
                  {static_cast<float>(here), middle, std::nextafter(middle, -INFINITY),
                   std::nextafter(middle, INFINITY)});
  }
  return bytes_of(values);
}

struct Pair {
  DType from, to;
  std::vector<std::byte> input;
};

CompileUnit unit_of(const std::vector<Pair>& pairs) {
  CompileUnit unit;
  unit.name = "casts";
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const Pair& pair = pairs[k];
    const auto count = static_cast<std::int64_t>(pair.input.size() / size_of(pair.from));
    Loop loop;
    loop.buffers = {{Role::input, {pair.from, {count}}}, {Role::output, {pair.to, {count}}}};
    auto load = make_load(0, pair.from, {affine_var(0)});
    loop.body = {make_loop(0, 0, count,
                           {make_store(1, {affine_var(0)}, make_cast(std::move(load), pair.to))})};
    KernelSource kernel;
    kernel.name = "cast" + std::to_string(k);
    kernel.loop = VerifiedLoop(std::move(loop));
    unit.kernels.push_back(std::move(kernel));
  }
  return unit;
}

void check_pair(const Pair& pair, heddle_kernel_function function) {
  const std::size_t count = pair.input.size() / size_of(pair.from);
  Call call;
  call.buffers = {pair.input, std::vector<std::byte>(count * size_of(pair.to), std::byte{0xaa})};
  call.run(function);
  int mismatches = 0;
  for (std::size_t k = 0; k < count && mismatches < 5; ++k) {
    const Exact value = read_exact(pair.from, pair.input, k);
    const Exact got = read_exact(pair.to, call.buffers[1], k);
    const Exact expected = converted(value, pair.from, pair.to);
    const bool same = (std::isnan(got) && std::isnan(expected)) ||
                      (got == expected && std::signbit(got) == std::signbit(expected));
    if (same) continue;
    ++mismatches;
    ADD_FAILURE() << name(pair.from) << " " << value << " to " << name(pair.to) << " gave " << got
                  << ", expected " << expected;
  }
}

// J1: what is converted before there is a kernel is what a kernel would give
TEST(ConvertTest, ConstantsAsByTheReference) {
  for (std::size_t f = 0; f < dtype_count; ++f) {
    const auto from = static_cast<DType>(f);
    const std::vector<std::byte> values = values_of(from);
    for (std::size_t t = 0; t < dtype_count; ++t) {
      const auto to = static_cast<DType>(t);
      for (std::size_t k = 0; k < values.size() / size_of(from); ++k) {
        const Scalar value = load_element(from, values.data(), k);
        const Scalar made = convert(value, to), wanted = reference_cast(value, to);
        ASSERT_TRUE(made == wanted || (std::isnan(made.f) && std::isnan(wanted.f)))
            << name(from) << " " << value.i << " " << value.f << " to " << name(to) << ": "
            << made.i << " " << made.f << ", expected " << wanted.i << " " << wanted.f;
      }
    }
  }
}

class CastsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, CastsTest, ::testing::ValuesIn(every_compiler()), param_name);

TEST_P(CastsTest, ConvertEveryPairOfTypes) {
  // J1: the table of conversions; 16-bit floats exhaustively
  std::vector<Pair> pairs;
  for (std::size_t from = 0; from < dtype_count; ++from) {
    for (std::size_t to = 0; to < dtype_count; ++to) {
      if (from == to) continue;
      pairs.push_back(
          {static_cast<DType>(from), static_cast<DType>(to), values_of(static_cast<DType>(from))});
    }
  }
  pairs.push_back({f32, f16, around_all(f16)});
  pairs.push_back({f32, bf16, around_all(bf16)});
  const auto module = loaded(*make()->compile(unit_of(pairs)));
  for (std::size_t k = 0; k < pairs.size(); ++k) check_pair(pairs[k], module->host_function(k));
}

TEST_P(CastsTest, KeepNotANumber) {
  // J1: NaN stays NaN in the 16-bit types and becomes 0 as an integer
  const std::vector<float> nans{std::bit_cast<float>(0x7f800001u),
                                std::bit_cast<float>(0xff800001u),
                                std::bit_cast<float>(0x7fffffffu), NAN};
  std::vector<Pair> pairs;
  for (const DType to : {f16, bf16, f64, i32, u8, bool_})
    pairs.push_back({f32, to, bytes_of(nans)});
  const auto module = loaded(*make()->compile(unit_of(pairs)));
  for (std::size_t k = 0; k < pairs.size(); ++k) check_pair(pairs[k], module->host_function(k));
}

// B3: a conversion that compilers take to run hardly ever, as it is behind many conditions, is
// inlined all the same
TEST_P(CastsTest, AreInlinedWhereTheyHardlyEverRun) {
  std::string begin, end;
  for (int k = 0; k < 16; ++k) {
    begin += fmt::format("at i{} in 0..4 = t0[{}] {{\n", k, k);
    end += "}\n";
  }
  const std::string text = fmt::format(R"(buffer t0 input i64[16]
buffer t1 input f16[4]
buffer t2 input f16[4]
buffer t3 inout f16[4]
kernel {{
{}t3[i15] = f16(add.f32(f32(t1[i0]), f32(t2[i1])))
{}}}
)",
                                       begin, end);
  const auto module = loaded(*make()->compile(unit_from("rare", text)));
  Call call;
  std::vector<std::int64_t> at(16, 2);
  const std::vector<Float16> ones(4, Float16(1.0F));
  call.buffers = {bytes_of(at), bytes_of(ones), bytes_of(ones), bytes_of(ones)};
  call.run(module->host_function(0));
  EXPECT_EQ(elements_of<std::uint16_t>(call.buffers[3]),
            (std::vector<std::uint16_t>{0x3c00, 0x3c00, 0x4000, 0x3c00}));
}

/// Conversions in lanes, and where each vector of the last part has but some of its lanes.
CompileUnit lanes_of_halves() {
  return unit_from("halves", fmt::format(R"(buffer t0 input f32[{0}]
buffer t1 input f16[{0}]
buffer t2 output f16[{0}]
buffer t3 output f32[{0}]
buffer t4 output f32[{0}]
buffer t5 output f16[{0}]
buffer t6 output f32[{0}]
kernel {{
  for i0 in 0..{1} {{
    lanes i1 in 0..{2} {{
      let x0: f16 = f16(t0[{2}*i0 + i1])
      t2[{2}*i0 + i1] = x0
      t3[{2}*i0 + i1] = f32(x0)
      t4[{2}*i0 + i1] = f32(t1[{2}*i0 + i1])
      t5[{2}*i0 + i1] = f16(mul.f32(f32(f16(add.f32(f32(t1[{2}*i0 + i1]), 1:f32))), 3:f32))
      t6[{2}*i0 + i1] = f32(f16(t0[{2}*i0 + i1]))
    }}
  }}
}}
)",
                                         4096 * 44, 4096, 44));
}

// J1, J9: f16 in lanes has the bits that it has in plain loops, those of NaN included: all f16, and
// f32 around and between them
TEST_P(CastsTest, HalvesInLanesHaveTheBitsOfPlainLoops) {
  constexpr std::size_t count = std::size_t{4096} * 44;
  std::vector<float> wide = elements_of<float>(around_all(f16));
  for (std::uint32_t k = 0; wide.size() < 2 * count; ++k)  // of all exponents, NaN among them
    wide.push_back(std::bit_cast<float>(k * 0x9e3779b9U));
  std::vector<std::uint16_t> half(count);
  for (std::size_t k = 0; k < count; ++k) half[k] = static_cast<std::uint16_t>(k);
  const auto results = [&](Isa isa, std::size_t from) {
    ToolOptions options;
    options.target = with_isa(native_target(), isa);
    const auto module = loaded(*make(options)->compile(lanes_of_halves()));
    Call call;
    const auto first = wide.begin() + static_cast<std::ptrdiff_t>(from);
    call.buffers = {bytes_of(std::vector<float>(first, first + count)), bytes_of(half)};
    for (const DType type : {f16, f32, f32, f16, f32})
      call.buffers.emplace_back(count * size_of(type), std::byte{0xaa});
    call.run(module->host_function(0));
    return call.buffers;
  };
  for (const std::size_t from : {std::size_t{0}, wide.size() - count}) {
    const auto expected = results(Isa::none, from);
    EXPECT_TRUE(expected[6] == expected[3]) << "both conversions at once";
    for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
      if (isa > native_target().isa) continue;
      const auto found = results(isa, from);
      for (std::size_t k = 2; k < found.size(); ++k)
        EXPECT_TRUE(found[k] == expected[k]) << name(isa) << " t" << k;
    }
  }
}

constexpr std::int64_t small_rows = 1536;

/// Elements of 8 and 16 bits as f32, in lanes; the last loop needs the 0 or 1 of a bool.
CompileUnit lanes_of_small_elements() {
  return unit_from("small", fmt::format(R"(buffer t0 input bool[{0}]
buffer t1 input u8[{0}]
buffer t2 input i8[{0}]
buffer t3 input u16[{0}]
buffer t4 input i16[{0}]
buffer t5 output f32[{0}]
buffer t6 output f32[{0}]
buffer t7 output f32[{0}]
buffer t8 output f32[{0}]
buffer t9 output f32[{0}]
buffer t10 output f32[{0}]
kernel {{
  for i0 in 0..{1} {{
    lanes i1 in 0..44 {{
      t5[44*i0 + i1] = where.f32(ne.f32(f32(t0[44*i0 + i1]), 0:f32), 3:f32, 5:f32)
      t6[44*i0 + i1] = f32(t1[44*i0 + i1])
      t7[44*i0 + i1] = f32(t2[44*i0 + i1])
      t8[44*i0 + i1] = f32(t3[44*i0 + i1])
      t9[44*i0 + i1] = f32(t4[44*i0 + i1])
    }}
    lanes i2 in 0..44 {{
      t10[44*i0 + i2] = f32(t0[44*i0 + i2])
    }}
  }}
}}
)",
                                        small_rows * 44, small_rows));
}

// J1, J9: elements of 8 and 16 bits have in lanes the values that they have in plain loops, as have
// bools, whose bytes may be any
TEST_P(CastsTest, SmallElementsInLanesHaveTheValuesOfPlainLoops) {
  constexpr std::size_t count = std::size_t{small_rows} * 44;
  std::vector<std::uint8_t> bytes(count);
  std::vector<std::uint16_t> words(count);
  for (std::size_t k = 0; k < count; ++k) {
    bytes[k] = static_cast<std::uint8_t>(k % 3 == 0 ? 0 : k);
    words[k] = static_cast<std::uint16_t>(k);
  }
  const auto results = [&](Isa isa) {
    ToolOptions options;
    options.target = with_isa(native_target(), isa);
    const CompileUnit unit = lanes_of_small_elements();
    if (isa >= Isa::avx2) {
      EXPECT_NE(emit_c(unit, options.target).find("load_i16"), std::string::npos);
    }
    const auto module = loaded(*make(options)->compile(unit));
    Call call;
    for (const auto& each :
         {bytes_of(bytes), bytes_of(bytes), bytes_of(bytes), bytes_of(words), bytes_of(words)})
      call.buffers.push_back(each);
    for (int k = 0; k < 6; ++k) call.buffers.emplace_back(count * 4, std::byte{0xaa});
    call.run(module->host_function(0));
    return call.buffers;
  };
  const auto expected = results(Isa::none);
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa > native_target().isa) continue;
    const auto found = results(isa);
    for (std::size_t k = 5; k < found.size(); ++k)
      EXPECT_TRUE(found[k] == expected[k]) << name(isa) << " t" << k;
  }
}

}  // namespace
}  // namespace heddle::jit::testing
