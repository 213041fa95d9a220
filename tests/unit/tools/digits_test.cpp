// The demo's data and its drawing.
#include "tools/demo/digits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "tools/demo/plot.hpp"

namespace heddle::demo {
namespace {

using testing::HasSubstr;
using testing::Not;

// The whole file, scaled: its first image is a zero whose third pixel is 5 of 16.
TEST(DigitsTest, HoldsAllImages) {
  const Digits digits = all_digits();
  ASSERT_EQ(digits.size(), 1797u);
  ASSERT_EQ(digits.pixels.size(), 1797u * 64);
  EXPECT_EQ(digits.labels[0], 0);
  EXPECT_EQ(digits.labels[1796], 8);
  EXPECT_FLOAT_EQ(digits.pixels[2], 5.0F / 16);
  EXPECT_LT(*std::ranges::max_element(digits.labels), 10);
  EXPECT_GE(*std::ranges::min_element(digits.pixels), 0);
  EXPECT_EQ(*std::ranges::max_element(digits.pixels), 1);
}

// D10: the order depends on the seed alone, and on nothing of the C++ library's.
TEST(DigitsTest, PermutationFollowsItsSeed) {
  std::vector<std::size_t> order = permutation(100, 3);
  EXPECT_EQ(order, permutation(100, 3));
  EXPECT_NE(order, permutation(100, 4));
  std::ranges::sort(order);
  for (std::size_t k = 0; k < order.size(); ++k) EXPECT_EQ(order[k], k);
  EXPECT_TRUE(permutation(0, 1).empty());
}

TEST(DigitsTest, SplitKeepsEveryImageOnce) {
  const Digits all = all_digits();
  const DigitsSplit parts = split(all, 360, 42);
  EXPECT_EQ(parts.test.size(), 360u);
  EXPECT_EQ(parts.train.size(), 1437u);
  const auto ink = [](const Digits& digits) {
    return std::accumulate(digits.pixels.begin(), digits.pixels.end(), 0.0);
  };
  EXPECT_DOUBLE_EQ(ink(parts.test) + ink(parts.train), ink(all));
}

std::vector<EpochReport> made_up_run() {
  std::vector<EpochReport> epochs(3);
  for (int k = 0; k < 3; ++k) {
    epochs[static_cast<std::size_t>(k)].epoch = k + 1;
    epochs[static_cast<std::size_t>(k)].loss = 1.0F / static_cast<float>(1 + 10 * k);
    epochs[static_cast<std::size_t>(k)].test_accuracy = 0.8 + 0.05 * k;
  }
  return epochs;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(PlotTest, DrawsEveryEpochOnBothScales) {
  const std::string svg = plot_svg(made_up_run(), "a <b> & c");
  EXPECT_EQ(count(svg, "<circle"), 6u);
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_THAT(svg, HasSubstr("a &lt;b&gt; &amp; c"));
  EXPECT_THAT(svg, HasSubstr(">epoch<"));
  EXPECT_THAT(svg, HasSubstr(">100%<"));
  EXPECT_THAT(svg, HasSubstr("</svg>\n"));
}

TEST(PlotTest, LeavesOutWhatIsNoNumber) {
  std::vector<EpochReport> epochs = made_up_run();
  epochs[1].loss = std::numeric_limits<float>::quiet_NaN();
  const std::string partial = plot_svg(epochs, "partial");
  EXPECT_EQ(count(partial, "<circle"), 4u);
  EXPECT_THAT(partial, Not(HasSubstr("nan")));
  for (EpochReport& epoch : epochs) epoch.loss = std::numeric_limits<float>::infinity();
  EXPECT_THAT(plot_svg(epochs, "none"), HasSubstr("no finite losses"));
  EXPECT_THAT(plot_svg({}, "empty"), HasSubstr("no finite losses"));
}

}  // namespace
}  // namespace heddle::demo
