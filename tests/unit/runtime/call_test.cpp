// Values of static indices: by index, by position, and bound once for many schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/runtime/launch_cost.hpp"

namespace heddle {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// Notes the values of two static indices.
class CallTest : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Routine linked() const {
    Program p("note");
    p << (seen(0) = embed(row)) << (seen(1) = embed(column));
    p << (used(row, column) = 1);  // which says how far they go
    return Context(device).link(backend.compile(p));
  }
  [[nodiscard]] std::vector<std::int64_t> values() const {
    return run.context().read<std::int64_t>(seen);
  }
  [[nodiscard]] static std::string refusal(const std::function<void()>& act) {
    const Status status = failure(act);
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    return status.to_string();
  }

  const Backend backend = Backend::open(GetParam());
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor seen{"seen", i64, {2}}, used{"used", f32, {4, 8}};
  const StaticIndex row{"row"}, column{"column"};
  const Routine run = linked();
};
INSTANTIATE_TEST_SUITE_P(Backends, CallTest, testing::Values("cc", "sync_cc"));

// J6: values by position go to the indices in the order that the code tells, however they are given
TEST_P(CallTest, TakesValuesByPosition) {
  EXPECT_THAT(run.code().statics(), ElementsAre(row, column));
  const std::int64_t cell = 5;
  const std::size_t size = 6;
  const std::vector<std::int64_t> list{2, 7};
  const std::array<std::int64_t, 2> array{1, 0};
  run.schedule({3, 4});
  EXPECT_THAT(values(), ElementsAre(3, 4));
  run.schedule({2, &cell});
  EXPECT_THAT(values(), ElementsAre(2, 5));
  run.schedule({0, size});
  EXPECT_THAT(values(), ElementsAre(0, 6));
  run.schedule(list);
  EXPECT_THAT(values(), ElementsAre(2, 7));
  run.schedule(array);
  EXPECT_THAT(values(), ElementsAre(1, 0));
  run.schedule(std::span(list));
  EXPECT_THAT(values(), ElementsAre(2, 7));
  run.schedule({{column, 1}, {row, 2}});
  EXPECT_THAT(values(), ElementsAre(2, 1));
}

// J6: too few, too many and values out of range are refused as by index
TEST_P(CallTest, RefusesByPositionAsByIndex) {
  const auto said = [&](const BindingsView& given) {
    return refusal([&] { run.schedule(given); });
  };
  EXPECT_EQ(said({3}), said({{row, 3}}));
  EXPECT_THAT(said({3}), HasSubstr("'column' is not bound"));
  EXPECT_EQ(said({}), said(Bindings()));
  EXPECT_EQ(said({4, 0}), said({{row, 4}, {column, 0}}));
  EXPECT_EQ(said(std::vector<std::int64_t>{0, -1}), said({{row, 0}, {column, -1}}));
  EXPECT_EQ(said({0, ~std::uint64_t{0}}), said({{row, 0}, {column, ~std::uint64_t{0}}}));
  EXPECT_THAT(said({1, 2, 3}), HasSubstr("routine 'note': 3 values for its 2 static indices"));
}

// J6: a call that was prepared reads its cells each time, and checks what they hold
TEST_P(CallTest, PreparedCallsReadTheirCells) {
  std::optional<Call> call;
  std::int64_t cell = 3;
  call.emplace(run.prepare({{column, 7}, {row, &cell}}));
  call->schedule();
  EXPECT_THAT(values(), ElementsAre(3, 7));
  cell = 1;
  EXPECT_TRUE(call->schedule().wait().ok());
  EXPECT_THAT(values(), ElementsAre(1, 7));
  cell = 4;
  const Call copy = *call;
  EXPECT_EQ(refusal([&] { copy.schedule(); }), refusal([&] { run.schedule({4, 7}); }));
  cell = 0;
  run.prepare({&cell, 2}).schedule();
  EXPECT_THAT(values(), ElementsAre(0, 2));
  EXPECT_EQ(call->routine().name(), "note");
}

// J6: what is wrong with its bindings is told when it is prepared
TEST_P(CallTest, PreparingRefusesAsScheduling) {
  const std::int64_t* const nowhere = nullptr;
  for (const Bindings& bad :
       {Bindings{{row, 3}}, Bindings{{row, 3}, {column, 8}}, Bindings{{row, 3}, {column, nowhere}},
        Bindings{{row, 3}, {column, 0}, {row, 3}}}) {
    EXPECT_EQ(refusal([&] { static_cast<void>(run.prepare(bad)); }),
              refusal([&] { run.schedule(bad); }));
  }
}

// D13, D17: a prepared call is refused as its routine is
TEST_P(CallTest, PreparedCallsAreRefusedAsRoutines) {
  const Call call = run.prepare({1, 2});
  call.schedule();
  const Buffer given = run.context().view(used).buffer().donate();
  EXPECT_THAT(failure([&] { call.schedule(); }).to_string(),
              testing::AllOf(HasSubstr("'used'"), HasSubstr("was donated")));
  const Routine again = linked();
  const Call finalised = again.prepare({1, 2});
  again.context().finalize();
  EXPECT_THAT(failure([&] { finalised.schedule(); }).to_string(), HasSubstr("was finalised"));
}

// D16: nor do values by position or prepared calls take memory
TEST_P(CallTest, TakesNoMemory) {
  const Call call = run.prepare({1, 2});
  const std::vector<std::int64_t> list{2, 7};
  const auto row_of_each = [&] {
    return cost_of(device, [&] {
      for (int k = 0; k < 100; ++k) {
        run.schedule({k % 4, k % 8});
        run.schedule(list);
        call.schedule();
      }
    });
  };
  static_cast<void>(row_of_each());  // what is kept from the first time on
  EXPECT_THAT(row_of_each(), Each(0));
}

}  // namespace
}  // namespace heddle
