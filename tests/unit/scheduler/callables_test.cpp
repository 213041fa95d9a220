// What may be submitted, and what becomes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>

#include "heddle/scheduler.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using sched::TaskDevice;
using testing::HasSubstr;

class CallablesTest : public DeviceTest {};
HEDDLE_DEVICE_SUITE(CallablesTest);

int total_called = 0;
void count_call() { ++total_called; }

// S1, S3: functions, lvalues, constants and things that can only be moved
TEST_P(CallablesTest, TakesWhatCanBeCalled) {
  const TaskDevice device = open("work");
  total_called = 0;
  device.submit("function", count_call);
  device.submit("pointer", &count_call);
  auto add = [amount = 10] { total_called += amount; };
  const auto& constant = add;
  device.submit("constant", constant);
  device.submit("lvalue", add);
  std::function<void()> function = add;
  device.submit("std::function", function);
  device.submit("moved", [amount = std::make_unique<int>(100)] { total_called += *amount; });
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(total_called, 132);
  function();  // submitting copied it
  EXPECT_EQ(total_called, 142);
}

// S10: a null pointer fails as an empty std::function does
TEST_P(CallablesTest, NullPointersFailTheirTask) {
  const TaskDevice device = open("work");
  void (*const nothing)() = nullptr;
  sched::SubmitOptions contain;
  contain.contain = true;
  EXPECT_THAT(text(device.submit("nothing", nothing, contain).wait()),
              AllOf(HasSubstr("'nothing'"), HasSubstr("null pointer")));
  const Event empty = device.submit("empty", std::function<void()>(), contain);
  EXPECT_EQ(empty.wait().code(), ErrorCode::device_failed);
  EXPECT_TRUE(device.await().ok());
}

// S7, bad input: of an empty callback or executor the call itself tells, before and after the end
TEST_P(CallablesTest, EmptyCallbacksAndExecutorsAreRefused) {
  const TaskDevice device = open("work");
  const auto refused = [](const Event& event) {
    const std::function<void(const Status&)> none, callback = [](const Status&) {};
    const Event::Executor here = [](const std::function<void()>& call) { call(); };
    const std::pair<const char*, std::function<void()>> calls[] = {
        {"callback is empty", [&] { event.then(none); }},
        {"callback is empty", [&] { event.then(here, none); }},
        {"executor is empty", [&] { event.then(Event::Executor(), callback); }}};
    for (const auto& [told, call] : calls) {
      const Status status = failure(call);
      EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(text(status), AllOf(HasSubstr(event.to_string()), HasSubstr(told),
                                      HasSubstr("expected a function")));
    }
  };
  sched::ExternalTimeline gate("gate");
  const Event pending = gate.next();
  refused(pending);
  EXPECT_TRUE(gate.signal(pending.ticket()).ok());
  refused(pending);
  const Event done = device.submit("task", [] {});
  EXPECT_TRUE(done.wait().ok());
  refused(done);
}

// S4: a policy that is none is refused, by whoever is given it
TEST_P(CallablesTest, PoliciesThatAreNoneAreRefused) {
  const TaskDevice device = open("work");
  sched::SubmitOptions submitted;
  submitted.full = sched::FullPolicy(9);
  EXPECT_THAT(text(device.submit(
                             "task", [] {}, submitted)
                       .status()),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("'task': no policy 9")));
  sched::DeviceOptions opened = options("bad");
  opened.full = sched::FullPolicy(9);
  EXPECT_THAT([&] { static_cast<void>(scheduler_.new_device(opened)); },
              testing::ThrowsMessage<Error>(HasSubstr("'bad': no policy 9")));
}

/// Copies throw, moves do not.
struct ThrowsWhenCopied {
  explicit ThrowsWhenCopied(int value) : value_(value) {}
  ThrowsWhenCopied(const ThrowsWhenCopied& other) : value_(other.value_) {
    if (value_ < 0) throw std::runtime_error("no copy");
  }
  ThrowsWhenCopied(ThrowsWhenCopied&& other) noexcept : value_(other.value_) {}
  void operator()() const { total_called = value_; }
  int value_;
};

// S1, S22: a callable that cannot be copied fails its submitter, before there is a ticket
TEST_P(CallablesTest, WhatThrowsWhenCopiedTakesNoTicket) {
  const TaskDevice device = open("work");
  const ThrowsWhenCopied bad(-1), good(5);
  EXPECT_THROW(device.submit("bad", bad), std::runtime_error);
  const Event event = device.submit("good", good);
  EXPECT_EQ(event.ticket(), 1u);
  EXPECT_TRUE(event.wait().ok());
  EXPECT_EQ(total_called, 5);
}

// S4: a refused caller keeps what was to be submitted, and may try again
TEST_P(CallablesTest, RefusalsLeaveTheCallableAsItWas) {
  const TaskDevice device = open("work", 1);
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  auto task = [value = std::make_unique<int>(7)] { total_called = *value; };
  sched::SubmitOptions options;
  options.full = sched::FullPolicy::fail;
  EXPECT_FALSE(device.submit("try", std::move(task), options).accepted());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(device.await().ok());
  EXPECT_TRUE(device.submit("again", std::move(task)).wait().ok());
  EXPECT_EQ(total_called, 7);
}

/// Says what its task holds.
struct Complaint : std::exception {
  explicit Complaint(const char* why) : text(why) {}
  [[nodiscard]] const char* what() const noexcept override { return text; }
  const char* text;
};

// S10: the message of an exception may lie in the callable that threw it
TEST_P(CallablesTest, FailuresAreReadBeforeTheCallableGoes) {
  const TaskDevice device = open("work");
  const Event event = device.submit(
      "complain", [text = std::make_unique<std::string>("a long complaint, kept by its task")] {
        throw Complaint(text->c_str());
      });
  EXPECT_THAT(text(event.wait()), HasSubstr("kept by its task"));
}

// S9, S17: the label is that of the running task, in its end too
TEST_P(CallablesTest, LabelsAndTicketsAreTheRunningTasksOwn) {
  const TaskDevice device = open("work");
  std::vector<std::string> seen;
  const auto note = [&seen] {
    seen.push_back(std::string(this_task::label()) + std::to_string(this_task::ticket()));
  };
  struct NotesItsEnd {
    explicit NotesItsEnd(std::function<void()> f) : note(std::move(f)) {}
    NotesItsEnd(NotesItsEnd&& other) noexcept : note(std::exchange(other.note, nullptr)) {}
    ~NotesItsEnd() {
      if (note) note();
    }
    void operator()() const { note(); }
    std::function<void()> note;
  };
  device.submit("a", NotesItsEnd(note));
  device.submit("b", note);
  sched::SubmitOptions contain;
  contain.contain = true;
  device.submit("c", note, contain);
  EXPECT_TRUE(device.await().ok());
  EXPECT_THAT(seen, testing::ElementsAre("a1", "a1", "b2", "c3"));
}

}  // namespace
}  // namespace heddle
