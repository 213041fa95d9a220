// Refusals while recording, the call's name in refused runs, and values after runs.
#include <functional>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

/// Two devices that have `t`, with a routine that adds one to `t` and a routine that adds the
/// peer's `t`.
class RecordingTest : public Conformance {
 protected:
  [[nodiscard]] Context holding(const Device& on) const {
    return Context(on).with(t, {Buffer::allocate(on, t.type()), t.type()});
  }
  [[nodiscard]] Code compiled(const char* name, bool merges) const {
    const Index i;
    Program p(name);
    if (merges)
      p << (t(i) += merge(t)(i));
    else
      p << (t(i) += 1.0);
    return backend.compile(p);
  }
  static Buffer donated(const Context& context, const Tensor& tensor) {
    return context.view(tensor).buffer().donate();
  }

  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor t{"t", f32, {4}};
  const Code increment = compiled("increment", false), gather = compiled("gather", true);
  const Routine here = holding(device).link(increment), there = holding(other).link(increment);
  const Context mine = here.context(), its = there.context();
};
HEDDLE_CONFORMANCE_SUITE(RecordingTest);

// D17, D9: any call that would record donated memory is refused
TEST_P(RecordingTest, DonatedMemoryIsRefused) {
  const Routine gathers = mine.link(gather), gathers_there = its.link(gather);
  const Call prepared = here.prepare();
  const std::vector<Context> both{its, mine};
  const Buffer taken = donated(mine, t);
  Recording recording("step");
  const std::function<void()> calls[] = {
      [&] { recording.schedule(here); },
      [&] { recording.schedule(prepared); },
      [&] { recording.copy(t, mine, its); },
      [&] { recording.copy(t, its, mine); },
      [&] { recording.merge(gathers, its, MergeMode::copy); },
      [&] { recording.merge(gathers_there, mine, MergeMode::stream); }};
  const char* const names[] = {"routine 'increment'", "routine 'increment'", "copy of 't'",
                               "copy of 't'",         "routine 'gather'",    "routine 'gather'"};
  for (std::size_t k = 0; k < std::size(calls); ++k) {
    const Status why = failure(calls[k]);
    EXPECT_EQ(why.code(), ErrorCode::failed_precondition) << k;
    EXPECT_THAT(text(why), AllOf(HasSubstr("recording 'step' on " +
                                           (k == 2 || k == 5 ? other : device).name()),
                                 HasSubstr(names[k]), HasSubstr("tensor 't'"), HasSubstr("donated"),
                                 HasSubstr("recording_test.cpp")))
        << k;
  }
  const std::pair<const char*, std::function<void()>> collectives[] = {
      {"reduce", [&] { recording.reduce(t, both); }},
      {"broadcast", [&] { recording.broadcast(t, both); }},
      {"all_reduce", [&] { recording.all_reduce(t, both); }}};
  for (const auto& [name, call] : collectives) {
    const Status why = failure(call);
    EXPECT_EQ(why.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(why), AllOf(HasSubstr(std::string(name) + " over context '" + mine.label()),
                                 HasSubstr("tensor 't'"), HasSubstr("donated"),
                                 HasSubstr("recording_test.cpp")));
  }
  EXPECT_EQ(recording.finish().num_recorded(), 0u);
}

// D17: promised memory exists by the time of a run, or the run is refused
TEST_P(RecordingTest, PromisedMemoryIsTaken) {
  const Tensor next("next", f32, {4});
  const Index i;
  Program step("step"), twice("twice");
  step << (next(i) = t(i) + 1.0);
  twice << (next(i) = next(i) * 2.0);
  const Routine takes = mine.link(backend.compile(step), {.donate = {t}});
  const Routine uses = takes.context().link(backend.compile(twice));
  Recording recording("later");
  recording.schedule(uses);
  const Replay replay = recording.finish();
  EXPECT_THAT(text(failure([&] { replay.run(); })),
              AllOf(HasSubstr("'later'"), HasSubstr("routine 'twice'"), HasSubstr("'next'")));
  takes.schedule();
  replay.run();
  EXPECT_THAT(uses.context().read<float>(next), Each(2));
}

// D17, D9: a refused run names the call, in one task and in several
TEST_P(RecordingTest, RefusedRunsNameTheCall) {
  const Tensor u("u", f32, {4});
  const Index i;
  Program fill("fill");
  fill << (u(i) = Expr(3.0));
  const Routine fills = mine.link(backend.compile(fill));
  Recording one("one"), several("several");
  for (Recording* const each : {&one, &several}) {
    each->schedule(fills);
    each->schedule(here);
  }
  several.copy(t, mine, its);
  const Replay single = one.finish(), whole = several.finish();
  ASSERT_EQ(single.num_tasks(), 1u);
  ASSERT_EQ(whole.num_tasks(), 2u);
  sched::ExternalTimeline gate("gate");
  device.wait(gate.next());
  const Event bad = here.schedule();
  device.cancel_pending();
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_EQ(bad.wait().code(), ErrorCode::cancelled);
  for (const Replay& each : {single, whole}) {
    EXPECT_THAT(text(failure([&] { each.run(); })),
                AllOf(HasSubstr("'" + each.name() + "'"), HasSubstr("routine 'increment'"),
                      HasSubstr("reads tensor 't'"), HasSubstr("not written")));
  }
  mine.write(t, std::vector<float>(4, 1));
  const Buffer taken = donated(mine, t);
  for (const Replay& each : {single, whole}) {
    EXPECT_THAT(text(failure([&] { each.run(); })),
                AllOf(HasSubstr("'" + each.name() + "'"), HasSubstr("routine 'increment'"),
                      HasSubstr("'t'"), HasSubstr("donated"), Not(HasSubstr("'fill'"))));
  }
  Recording copies("copies");
  const Context apart = holding(other);
  copies.copy(t, its, apart);
  const Replay copy_alone = copies.finish();
  const Buffer gone = donated(its, t);
  EXPECT_THAT(text(failure([&] { copy_alone.run(); })),
              AllOf(HasSubstr("'copies'"), HasSubstr("copy of 't'"), HasSubstr("donated")));
}

// D9, D19: memory that a replay reads and then overwrites counts as written, even when a write in
// progress at the start of the run, which manual order did not wait for, fails
TEST_P(RecordingTest, WhatRunsOverwriteIsNotMissing) {
  BackendOptions options;
  options.name = GetParam();
  options.sync = Sync::manual;
  const Backend by_hand = Backend::open(options);
  const Device a = by_hand.physical_device(0).new_virtual_device();
  const Device writer = by_hand.physical_device(0).new_virtual_device();
  const Index i;
  Program p("increment");
  p << (t(i) += 1.0);
  const Code code = by_hand.compile(p);
  const Routine changes = holding(a).link(code), source = holding(a).link(code);
  changes.context().write(t, std::vector<float>(4, 1));
  source.context().write(t, std::vector<float>(4, 5));
  Recording recording;
  recording.schedule(changes);
  recording.copy(t, source.context(), changes.context());
  const Replay replay = recording.finish();
  EXPECT_EQ(replay.num_tasks(), 1u);
  sched::ExternalTimeline gate("gate");
  writer.wait(gate.next());
  const Event fails =
      writer.submit("fails", Touches{.reads = {}, .writes = {changes.context().view(t)}},
                    [] { return Status(ErrorCode::internal, "so"); });
  const std::vector<Event> ends = replay.run();
  throw_if_failed(gate.signal(1));
  EXPECT_EQ(fails.wait().code(), ErrorCode::device_failed);
  for (const Event& each : ends) throw_if_failed(each.wait());
  ScheduleOptions automatic;
  automatic.sync = Sync::automatic;  // refuses reads of memory that was not written
  throw_if_failed(changes.schedule({}, automatic).wait());
  EXPECT_EQ(changes.context().read<float>(t)[0], 6.0f);
}

}  // namespace
}  // namespace heddle
