// What a host sets for itself, locales and floating-point environments, is nothing to what heddle
// names, describes, prints and parses. These also run in locales (tests/locales).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <locale>
#include <string>
#include <variant>
#include <vector>

#include "files/descriptor.hpp"
#include "heddle/host_array.hpp"
#include "heddle/program.hpp"
#include "jit/code/stages.hpp"
#include "jit/loop/scanner.hpp"
#include "jit/loop/text.hpp"
#include "jit/tune/tuned_file.hpp"
#include "jit/vector/target.hpp"
#include "tests/device/host_floating.hpp"

namespace heddle::jit {
namespace {

using testing::ElementsAre;

// J14: letters of a host's alphabet are none of names, whatever its locale counts as letters
TEST(SettingsTest, NamesAreAscii) {
  Program program;
  program.comment("gr\xfc\xdf Dich 7");  // Latin 1
  EXPECT_EQ(name_of(program, ""), "gr_Dich_7");
  EXPECT_EQ(symbol("gr\xfc\xdf Dich 7"), "gr___Dich_7");
}

// J14: numbers of texts are read as they were written, where a host separates thousands by blanks
TEST(SettingsTest, IntegersAreReadWithoutSeparators) {
  struct Spaced : std::numpunct<char> {
    char do_thousands_sep() const override { return ' '; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::string text = Target().to_string();
  const std::locale before = std::locale::global(std::locale(std::locale(), new Spaced));
  const auto target = Target::parse(text);
  std::locale::global(before);
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->to_string(), text);
}

// J14: compilers are asked to speak English, and what they say is compared with these
TEST(SettingsTest, TheSystemSpeaksEnglish) {
  EXPECT_EQ(files::errno_text(ENOSPC), "No space left on device");
  EXPECT_EQ(files::signal_text(SIGKILL), "Killed");
}

/// Element bits of what hosts make of these numbers.
template <class T, class Bits>
std::vector<Bits> bits_of(DType dtype, const std::vector<double>& values) {
  std::vector<Bits> bits;
  const HostArray array = HostArray::fill({dtype, Dims{values.size()}}, values);
  for (const T value : array.values<T>()) bits.push_back(std::bit_cast<Bits>(value));
  return bits;
}

// J14: conversions round to nearest, keep what is tiny, and stop no host
TEST(SettingsTest, NumbersOfTheHostAreRoundedToNearest) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{0.1, -0.1, 1e-40, 1e300, -inf, std::nan("")};
  for (const HostFloating& floating : host_floatings) {
    SCOPED_TRACE(floating.name);
    const UnusualHost host(floating);
    const auto f32s = bits_of<float, std::uint32_t>(f32, values);
    const auto f16s = bits_of<Float16, std::uint16_t>(f16, {0.1, -0.1, 1e-7, 70000, 1.0003});
    const auto bf16s = bits_of<BFloat16, std::uint16_t>(bf16, {0.1, -0.1, 1e-40, 1e300});
    const auto i8s = bits_of<std::int8_t, std::uint8_t>(i8, {-0.9, 300, std::nan(""), 1e300});
    HostArray tiny(ArrayType{f32, {1}});
    tiny.set(0, 1e-40);
    const auto read = std::bit_cast<std::uint64_t>(tiny.at(0));
    const HostArray range = HostArray::range({f32, {1}}),
                    random = HostArray::uniform({f16, {3}}, 7);
    const std::string shown = tiny.to_string() + random.to_string();
    EXPECT_TRUE(host.is_as_before());
    EXPECT_THAT(f32s, ElementsAre(0x3dcccccdU, 0xbdcccccdU, 0x000116c2U, 0x7f800000U, 0xff800000U,
                                  0x7fc00000U));
    EXPECT_THAT(f16s, ElementsAre(0x2e66, 0xae66, 0x0002, 0x7c00, 0x3c00));
    EXPECT_THAT(bf16s, ElementsAre(0x3dcd, 0xbdcd, 0x0001, 0x7f80));
    EXPECT_THAT(i8s, ElementsAre(0x00, 0x7f, 0x00, 0x7f));
    EXPECT_EQ(read, 0x37a16c2000000000U);
    EXPECT_EQ(shown, "f32[1] [9.99995e-41]" + HostArray::uniform({f16, {3}}, 7).to_string());
  }
}

// J14: integers beyond what f32 has exactly
TEST(SettingsTest, LongRangesAreRoundedToNearest) {
  const UnusualHost host(host_floatings[1]);
  const HostArray range = HostArray::range({f32, {16'777'218}});
  EXPECT_EQ(range.values<float>().back(), 16'777'216.0F);
}

/// Of a program with literals that are converted, tiny and huge.
std::string program_text() {
  const Tensor x("x", f32, {4}), y("y", f64, {4}), z("z", f16, {4});
  const Index i;
  Program program("numbers");
  const volatile float tiny = 1e-40F;
  program << (y(i) = x(i) * 0.1 + tiny + cast(Expr(1e300), f32) + 1e-310)
          << (z(i) = cast(Expr(0.1), f16) + x(i) * 16777217);
  return program.to_string();
}

// J14: literals too
TEST(SettingsTest, LiteralsAreRoundedToNearest) {
  const std::string expected = program_text();
  EXPECT_THAT(expected, testing::HasSubstr("0.10000000149011612"));
  EXPECT_THAT(expected, testing::HasSubstr("9.99994610111476e-41"));
  for (const HostFloating& floating : host_floatings) {
    const UnusualHost host(floating);
    const std::string text = program_text();
    EXPECT_TRUE(host.is_as_before()) << floating.name;
    EXPECT_EQ(text, expected) << floating.name;
  }
}

// J14, W3: texts of numbers are printed and read back
TEST(SettingsTest, TextsOfNumbersAreReadBack) {
  TunedSchedule tuned;
  tuned.candidates.push_back({.estimated_us = 0.1,
                              .verdict = TuneVerdict::measured,
                              .rounds = 7,
                              .median_us = 1234567.8901234567,
                              .ratio = 1 / 3.0});
  const TunedFor whose{KeyHasher().add("p").finish(), "m"};
  for (const HostFloating& floating : host_floatings) {
    SCOPED_TRACE(floating.name);
    const UnusualHost host(floating);
    for (const std::string text : {"1e-40:f32", "0.1:f32", "1e-310:f64", "0.1:f64", "nan:f32",
                                   "2.220446049250313e-16:f64", "5.9604645e-08:f16"}) {
      EXPECT_EQ(print(Scanner(text, "a test").scalar()), text);
    }
    EXPECT_TRUE(std::holds_alternative<TunedSchedule>(parse_tuned(to_text(tuned, whose), whose)));
    EXPECT_TRUE(host.is_as_before());
  }
}

}  // namespace
}  // namespace heddle::jit
