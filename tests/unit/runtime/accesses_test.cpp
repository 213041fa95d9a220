// What calls touch one after the other, as one work: what that reads of what was there before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "runtime/door/submit.hpp"

namespace heddle::rt {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

using Part = std::tuple<std::size_t, std::size_t, Use>;

class AccessesTest : public testing::Test {
 protected:
  /// What calls touch that use these bytes of a buffer, in turn.
  std::vector<Part> then(const std::vector<std::vector<Part>>& calls) {
    Accesses all;
    for (const auto& call : calls) {
      Accesses one;
      for (const auto& [begin, end, use] : call) {
        const ArrayType bytes{u8, {static_cast<std::int64_t>(end - begin)}};
        const BufferView view(buffer, bytes, begin);
        one.add({&view, use, nullptr});
      }
      all.then(one);
    }
    std::vector<Part> parts;
    for (const Accesses::Touch& each : all.touches())
      parts.emplace_back(each.range.begin, each.range.end, each.use);
    return parts;
  }

  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Buffer buffer = Buffer::allocate(device, {u8, {16}});
};

// D9, D19: what was overwritten before is not read from before, whether whole or in parts
TEST_F(AccessesTest, OverwrittenBytesAreNotReadFromBefore) {
  const Part low{0, 8, Use::overwrite}, high{8, 16, Use::overwrite};
  EXPECT_THAT(then({{{0, 16, Use::overwrite}}, {{4, 8, Use::read}}}),
              ElementsAre(Part(0, 16, Use::overwrite)));
  EXPECT_THAT(then({{low}, {high}, {{0, 16, Use::read}}}), ElementsAre(low, high));
  EXPECT_THAT(then({{low}, {{4, 12, Use::change}}}), ElementsAre(low, Part(8, 12, Use::change)));
  EXPECT_THAT(then({{{4, 8, Use::overwrite}}, {{0, 16, Use::read}}}),
              UnorderedElementsAre(Part(4, 8, Use::overwrite), Part(0, 4, Use::read),
                                   Part(8, 16, Use::read)));
}

// D9: where one view is two operands of a launch, what is read of the slice is not overwritten, and
// slices that differ are any part of it
TEST_F(AccessesTest, SlicesThatAreReadTooAreNotOverwritten) {
  const jit::Slice read{0, 4, {4}, false}, written{0, 4, {4}, true}, other{0, 4, {8}, true};
  const BufferView view(buffer, {u8, {16}}, 0);
  const std::int64_t values[] = {2};
  const auto both = [&](const jit::Slice& first, const jit::Slice& second) {
    Accesses all;
    all.add({.view = &view,
             .use = first.overwritten ? Use::change : Use::read,
             .tensor = nullptr,
             .only_writes = first.overwritten,
             .slice = &first});
    all.add({.view = &view,
             .use = Use::change,
             .tensor = nullptr,
             .only_writes = true,
             .slice = &second});
    EXPECT_EQ(all.touches().size(), 1U);
    const Hazards::Next next = Accesses::next(all.touches()[0], 0, 0, true, values);
    return Part(next.range.begin, next.range.end, next.use);
  };
  EXPECT_EQ(both(read, written), Part(8, 12, Use::change));
  EXPECT_EQ(both(written, read), Part(8, 12, Use::change));
  EXPECT_EQ(both(written, written), Part(8, 12, Use::overwrite));
  EXPECT_EQ(both(read, other), Part(0, 16, Use::change));
  EXPECT_EQ(both(other, read), Part(0, 16, Use::change));
}

// D9, D19: what a later call overwrites is new afterwards, whatever earlier ones read of it
TEST_F(AccessesTest, WhatLaterCallsOverwriteIsReplaced) {
  const Part all{0, 16, Use::overwrite};
  for (const Use first : {Use::read, Use::change}) {
    EXPECT_THAT(then({{{0, 16, first}}, {all}}), ElementsAre(Part(0, 16, Use::replace)));
    EXPECT_THAT(then({{{0, 16, first}}, {all}, {all}}), ElementsAre(Part(0, 16, Use::replace)));
    EXPECT_THAT(then({{{0, 16, first}}, {all}, {{4, 8, Use::change}}}),
                ElementsAre(Part(0, 16, Use::replace)));
  }
  EXPECT_THAT(then({{{0, 16, Use::read}, all}}), ElementsAre(Part(0, 16, Use::change)))
      << "one call copies it onto itself: what is missing stays so";
}

// D9, D19: a call may read before it overwrites
TEST_F(AccessesTest, CallsMayReadWhatTheyOverwrite) {
  const Part whole{0, 16, Use::overwrite}, low{0, 8, Use::read};
  EXPECT_THAT(then({{whole, low}}), UnorderedElementsAre(whole, low));
  EXPECT_THAT(then({{low}, {whole}}), UnorderedElementsAre(low, whole));
}

}  // namespace
}  // namespace heddle::rt
