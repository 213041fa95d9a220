// Handles of the runtime that were moved from, and types that no array has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What `handle` still is after it was moved from.
template <class T>
const T& moved_from(T& handle) {
  const T taken = std::move(handle);
  return handle;
}

// B2, D12, J8: moving a handle copies it
TEST(RuntimeHandlesTest, SurviveBeingMovedFrom) {
  Backend backend = Backend::open("null");
  EXPECT_EQ(moved_from(backend).name(), "null");
  Hardware physical = backend.physical_device(0);
  EXPECT_EQ(moved_from(physical).name(), "null:0");
  Device device = physical.new_virtual_device();
  EXPECT_EQ(moved_from(device).name(), "null:0.0");
  EXPECT_TRUE(device.is_idle());
  Buffer buffer = Buffer::allocate(device, {f32, {4}});
  EXPECT_EQ(moved_from(buffer).num_bytes(), 16u);
  BufferView view(buffer, {f32, {2}}, 8);
  EXPECT_EQ(moved_from(view).num_bytes(), 8u);
  const Tensor a("a", f32, {4});
  Index i;
  Program p("p");
  p << (a(i) = 1.0);
  PendingCode pending = backend.compile_async(p);
  EXPECT_EQ(moved_from(pending).get().name(), "p");
  Context context(device);
  Routine routine = moved_from(context).link(pending);
  EXPECT_EQ(moved_from(routine).name(), "p");
  EXPECT_TRUE(routine.schedule().wait().ok());
}

// D13
TEST(RuntimeHandlesTest, ArraysMayBeWithoutAValue) {
  Backend backend = Backend::open("sync_cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const std::vector<Array> none(2);
  EXPECT_FALSE(none[0].defined());
  EXPECT_EQ(none[0], none[1]);
  EXPECT_EQ(none[0].to_string(), "an array without a value");
  EXPECT_EQ(failure([&] { static_cast<void>(none[0].type()); }).code(),
            ErrorCode::failed_precondition);
  EXPECT_EQ(failure([&] { static_cast<void>(none[0].copy_to(device)); }).code(),
            ErrorCode::failed_precondition);
  struct Model {
    Array weights;
    HostArray data;
  } model;
  EXPECT_EQ(model.data.type(), (ArrayType{f32, {0}}));
  model.weights = Array(device, {1.F, 2.F});
  EXPECT_TRUE(model.weights.defined());
  const Executor sum(device, "sum", [](Node a, Node b) { return a + b; });
  EXPECT_THAT(sum(model.weights, model.weights).values<float>(), testing::ElementsAre(2.F, 4.F));
  for (const auto& call :
       {std::function([&] { static_cast<void>(sum(model.weights, none[0])); }),
        std::function([&] { static_cast<void>(sum.compile(model.weights, none[0])); })}) {
    const Status status = failure(call);
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'sum'"), HasSubstr("array 1 of the arguments' 2")));
  }
  const auto compiled = sum.compile(model.weights, model.weights);
  EXPECT_EQ(failure([&] { static_cast<void>(compiled(none[0], model.weights)); }).code(),
            ErrorCode::failed_precondition);
  EXPECT_EQ(
      failure([&] { static_cast<void>(compiled.call_unchecked(none[0], model.weights)); }).code(),
      ErrorCode::failed_precondition);
  EXPECT_THAT(std::string(failure([&] {
                            const Variable<std::vector<Array>> w("w", {model.weights, none[0]});
                          }).message()),
              AllOf(HasSubstr("'w'"), HasSubstr("array 1 of 2")));
  const Variable<Array> w("w", model.weights);
  EXPECT_THAT(std::string(failure([&] { w.set(none[0]); }).message()), HasSubstr("'w'"));
}

// J1, D12, bad input
TEST(RuntimeHandlesTest, NumbersThatAreNoDTypeAreRefused) {
  const Device device = Backend::open("null").physical_device(0).new_virtual_device();
  const ArrayType none{static_cast<DType>(77), {2}};
  const Buffer buffer = Buffer::allocate(device, {f32, {4}});
  const Status allocated = failure([&] { static_cast<void>(Buffer::allocate(device, none)); });
  const Status viewed = failure([&] { static_cast<void>(BufferView(buffer, none)); });
  for (const Status& status : {allocated, viewed}) {
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("77"), HasSubstr("f32, f64")));
  }
}

// J8: batches name the range of their positions
TEST(RuntimeHandlesTest, PositionsOfBatches) {
  const Backend backend = Backend::open({.name = "cc"});
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {2});
  Program p("p");
  const Index i;
  p << (x(i) += 1);
  const CodeBatch codes = backend.compile_batch(std::vector<Program>{p});
  const RoutineBatch routines = Context(device).link_batch(codes);
  EXPECT_TRUE(codes[0] && routines[0]);
  for (const auto& position : std::vector<std::function<void()>>{
           [&] { static_cast<void>(codes[1]); }, [&] { static_cast<void>(routines[1]); }}) {
    const Status why = failure(position);
    EXPECT_EQ(why.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(why.to_string(), HasSubstr("no position 1 (expected below 1)"));
  }
}

// Options and names are told apart, also where they are written in place
TEST(RuntimeHandlesTest, OptionsInPlace) {
  Scheduler mine;
  EXPECT_EQ(mine.new_device({.name = "io"}).name(), "io");
  EXPECT_EQ(mine.new_device("network").name(), "network");
  EXPECT_EQ(Backend::open({.name = "cc"}).name(), Backend::open("cc").name());
}

}  // namespace
}  // namespace heddle
