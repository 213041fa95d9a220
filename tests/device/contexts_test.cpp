// State of backends, contexts and routines before, between and after their use.
#include <functional>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ContextsTest : public Conformance {};
HEDDLE_CONFORMANCE_SUITE(ContextsTest);

// J7, J11: programs equal up to tensors are compiled once, also concurrently, and each routine runs
// with its own tensors
TEST_P(ContextsTest, TwinsShareTheirCompileAndNothingElse) {
  struct Twin {
    explicit Twin(const std::string& name) : x(name + " in", f32, {3}), y(name + " out", f32, {3}) {
      const Index i;
      program << (y(i) = x(i) * 2.0 + x(at));
    }
    Tensor x, y;
    StaticIndex at{"at", 3};
    Program program{"twin"};
  };
  const KernelCacheCounters before = backend.compile_counters();
  std::vector<Twin> twins;
  std::vector<PendingCode> codes;
  for (const char* const name : {"first", "second", "third", "fourth"}) {
    twins.emplace_back(name);
    codes.push_back(backend.compile_async(twins.back().program));
  }
  for (std::size_t k = 0; k < twins.size(); ++k) {
    const Twin& twin = twins[k];
    const Routine run = Context(device).link(codes[k]);
    const auto value = static_cast<float>(k);
    run.context().write(twin.x, std::vector<float>{value, 10, 20});
    run.schedule({{twin.at, 1}});
    EXPECT_THAT(run.context().read<float>(twin.y), ElementsAre(2 * value + 10, 30, 50));
    EXPECT_THAT(run.context().tensors(), testing::SizeIs(2));
  }
  const KernelCacheCounters after = backend.compile_counters();
  EXPECT_EQ(after.compiled + after.disk_hits, before.compiled + before.disk_hits + 1);
  EXPECT_EQ(after.shared + after.memory_hits, before.shared + before.memory_hits + 3);
}

// O20: an empty context holds no tensors and expects no merge
TEST_P(ContextsTest, EmptyContextHoldsNothing) {
  const Context empty(device);
  const Tensor t("t", f32, {2});
  EXPECT_THAT(empty.tensors(), IsEmpty());
  EXPECT_EQ(empty.num_bytes(), 0u);
  EXPECT_FALSE(empty.contains(t));
  EXPECT_FALSE(empty.parent().has_value());
  EXPECT_FALSE(empty.expected_merge_tensor().has_value());
  EXPECT_THAT(empty.label(), HasSubstr(device.name()));
  EXPECT_TRUE(empty.device() == device);
  const Status lacking = failure([&] { static_cast<void>(empty.read<float>(t)); });
  EXPECT_EQ(lacking.code(), ErrorCode::not_found);
  EXPECT_THAT(text(lacking), AllOf(HasSubstr("'t'"), HasSubstr(device.name())));
}

// O18, O19, J8: a routine has its context after linking and its name, and can be scheduled
// repeatedly
TEST_P(ContextsTest, RoutinesRunAsOftenAsAsked) {
  const Tensor x("x", i32, {2});
  Index i;
  Program count("count");
  count << (x(i) += 1);
  const Context before(device);
  const Routine run = before.link(backend.compile(count));
  EXPECT_EQ(run.name(), "count");
  EXPECT_TRUE(run.context().contains(x));
  EXPECT_FALSE(before.contains(x));
  std::uint64_t last = 0;
  for (int k = 0; k < 10; ++k) {
    const Event event = run.schedule();
    EXPECT_GT(event.ticket(), last);
    EXPECT_EQ(event.device_id(), device.timeline().id());
    last = event.ticket();
  }
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(10, 10));
}

// O3, O44, B2: open returns a usable instance; finalising one instance leaves a second instance of
// the same name usable
TEST_P(ContextsTest, InstancesDoNotShareTheirEnd) {
  const Backend second = Backend::open(GetParam());
  const Device other = second.physical_device(0).new_virtual_device();
  EXPECT_EQ(other.name(), device.name());
  backend.finalize();
  const Tensor x("x", i32, {2});
  Index i;
  Program p("p");
  p << (x(i) += 3);
  const Routine run = Context(other).link(second.compile(p));
  run.schedule();
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(3, 3));
}

// O14, O45, S15: an inline row completes work before the call returns; a threaded row may not
TEST_P(ContextsTest, IdleMeansEndedAndInlineRowsAreAlwaysIdle) {
  const Tensor x("x", i32, {2});
  Index i;
  Program p("p");
  p << (x(i) += 1);
  const Routine run = Context(device).link(backend.compile(p));
  const Event event = run.schedule();
  if (GetParam().starts_with("sync_")) {
    EXPECT_TRUE(event.done());
    EXPECT_TRUE(device.is_idle());
  }
  device.await();
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(device.is_idle());
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  EXPECT_FALSE(device.is_idle());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  device.await();
  EXPECT_TRUE(device.is_idle());
}

// O38: the events that a transfer waits for have ended when the data moves
TEST_P(ContextsTest, TransfersAndRoutinesWaitForTheEventsTheyAreGiven) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor t("t", f32, {2});
  Index i;
  Program fill("fill"), add("add");
  fill << (t(i) = Expr(5.0));
  add << (t(i) += merge(t)(i));
  const Routine source = Context(device).link(backend.compile(fill));
  const Routine consumer = Context(other).link(backend.compile(add));
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);  // delays the source
  TransferOptions after;
  after.after = {source.schedule()};
  const Transfer loaded = load_merge(consumer, source.context(), MergeMode::stream, after);
  const Event added = consumer.schedule();
  ScheduleOptions later;
  later.after = {added};
  const Event refilled = source.schedule({}, later);  // the streamed buffer is free again
  EXPECT_FALSE(loaded.event.done());
  EXPECT_FALSE(added.done());
  EXPECT_FALSE(refilled.done());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(refilled.wait().ok());
  EXPECT_THAT(consumer.context().read<float>(t), ElementsAre(5, 5));
}

// O9: a device names its physical device, its backend and the open instance of both
TEST_P(ContextsTest, DevicesLeadToTheirBackend) {
  const Hardware physical = device.physical_device();
  EXPECT_TRUE(physical == backend.physical_device(0));
  EXPECT_EQ(physical.ordinal(), device.ordinal());
  const Backend same = Context(device).device().physical_device().backend();
  EXPECT_EQ(same.name(), GetParam());
  same.finalize();  // finalises this instance and no other
  EXPECT_EQ(failure([&] { static_cast<void>(physical.new_virtual_device()); }).code(),
            ErrorCode::failed_precondition);
  EXPECT_EQ(
      failure([&] { static_cast<void>(backend.physical_device(0).new_virtual_device()); }).code(),
      ErrorCode::failed_precondition);
}

// O28, O30, J8: a batch returns the context downstream of its routines, which expects the merge
// tensor of the context where the batch was linked; each routine expects its own
TEST_P(ContextsTest, BatchesGiveTheContextDownstream) {
  const Tensor g("g", f32, {2}), x("x", f32, {2}), y("y", f32, {2});
  Index i;
  Program add("add"), make("make"), use("use");
  add << (g(i) += merge(g)(i));
  make << (x(i) = Expr(2.0));
  use << (y(i) += merge(x)(i));
  const Routine prior = Context(device).link(backend.compile(add));
  const std::vector<Program> programs{make, use};
  const RoutineBatch batch = prior.context().link_batch(backend.compile_batch(programs));
  EXPECT_TRUE(batch.context().contains(g) && batch.context().contains(y));
  EXPECT_EQ(batch.context().view(x).buffer(), batch[0]->context().view(x).buffer());
  EXPECT_EQ(batch.context().expected_merge_tensor(), g);
  EXPECT_EQ(batch[0]->context().expected_merge_tensor(), std::nullopt);
  EXPECT_EQ(batch[1]->context().expected_merge_tensor(), x);
  EXPECT_EQ(prior.context().expected_merge_tensor(), g);
  EXPECT_FALSE(prior.context().contains(x));
  for (const auto& routine : batch) {
    if (routine->merge_tensor()) {
      EXPECT_TRUE(merge(*routine, batch.context(), MergeMode::copy).wait().ok());
    } else {
      routine->schedule();
    }
  }
  EXPECT_THAT(batch.context().read<float>(y), ElementsAre(2, 2));
  // A batch without entries returns the context where it was linked.
  BatchOptions nothing;
  nothing.occupancy = [](const std::string&, std::size_t) { return false; };
  const RoutineBatch none = prior.context().link_batch(backend.compile_batch(programs, nothing));
  EXPECT_EQ(none.size(), 2u);
  EXPECT_EQ(none.context().expected_merge_tensor(), g);
}

// O29, J8: code lists the tensors that it takes from its link context, which avoids tensors that
// start as zero by mistake
TEST_P(ContextsTest, CodeTellsWhatItTakesFromThePriorContext) {
  const Tensor in("in", f32, {2}), kept("kept", f32, {2}), out("out", f32, {2}), t("t", f32, {2}),
      g("g", f32, {2}), hosted("hosted", HostArray({f32, {2}}));
  Index i;
  Program p("p"), make("make");
  p << (t(i) = in(i) * 2.0) << (out(i) = t(i) + hosted(i) + merge(g)(i)) << (kept(i) += out(i));
  make << (in(i) = Expr(1.0)) << (kept(i) = Expr(1.0));
  const Code code = backend.compile(p);
  EXPECT_THAT(code.tensors_from_prior(), testing::UnorderedElementsAre(in, kept));
  LinkOptions options;
  options.from_prior_context = code.tensors_from_prior();
  const Status refused = failure([&] { static_cast<void>(Context(device).link(code, options)); });
  EXPECT_EQ(refused.code(), ErrorCode::not_found);
  const Routine prior = Context(device).link(backend.compile(make));
  EXPECT_NO_THROW(static_cast<void>(prior.context().link(code, options)));
  EXPECT_THAT(backend.compile(make).tensors_from_prior(), IsEmpty());
}

// O29, J8: a listed tensor that is in neither code nor context is an error
TEST_P(ContextsTest, ListedTensorsAreKnown) {
  const Tensor x("x", f32, {2}), y("y", f32, {2}), z("z", f32, {2}), kept("kept", f32, {2});
  Index i;
  Program first("first"), second("second");
  first << (kept(i) = x(i) * 2.0) << (y(i) = kept(i) + 1.0);
  second << (z(i) = y(i));
  const std::vector<Program> programs{first, second};
  const CodeBatch batch = backend.compile_batch(programs);
  const Context empty(device);
  const auto refused = [&](const std::function<void()>& link, const char* what) {
    const Status why = failure(link);
    EXPECT_EQ(why.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(text(why), AllOf(HasSubstr(what), HasSubstr("'z'"), HasSubstr(device.name()),
                                 HasSubstr("from_prior_context")));
  };
  const auto links = [&](const Context& in, const Code& code, const LinkOptions& options) {
    EXPECT_NO_THROW(static_cast<void>(in.link(code, options)));
  };
  refused([&] { static_cast<void>(empty.link(*batch[0], {.from_prior_context = {z}})); },
          "routine 'first'");
  const Context holds = empty.with(z, {Buffer::allocate(device, z.type()), z.type()});
  links(holds, *batch[0], {.from_prior_context = {z}});
  links(empty, *batch[0], {.from_prior_context = {kept}});
  const Context below = empty.link(*batch[0]).context();
  links(below, *batch[1], {.from_prior_context = {kept, x, y}});
  EXPECT_NO_THROW(static_cast<void>(holds.link_batch(batch, {.from_prior_context = {z, kept}})));
  const Tensor slip("z", f32, {2});
  refused([&] { static_cast<void>(holds.link_batch(batch, {.from_prior_context = {slip}})); },
          "the batch");
}

// J6, O43: an index may be bound to the caller's cell, which is read at scheduling time; later
// changes of the cell have no effect, and the cell may be destroyed before the task runs
TEST_P(ContextsTest, CellsAreReadWhenScheduled) {
  const Tensor x("x", i32, {4}), y("y", i32, {1});
  Index i;
  const StaticIndex row("row", 4);
  Program pick("pick");
  pick << (y(i) = y(i) * 10 + x(row));
  const Routine run = Context(device).link(backend.compile(pick));
  run.context().write(x, std::vector<std::int32_t>{1, 2, 3, 4});
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  {
    std::int64_t cell = 0;
    const Bindings bindings{{row, &cell}};
    for (; cell < 3; ++cell) run.schedule(bindings);
    cell = 9;
    EXPECT_THAT(text(failure([&] { run.schedule(bindings); })),
                AllOf(HasSubstr("'row'"), HasSubstr("9"), HasSubstr("0 to 3")));
    run.schedule({{row, std::size_t{3}}});
  }
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_THAT(run.context().read<std::int32_t>(y), ElementsAre(1234));
  const std::int64_t* const nowhere = nullptr;
  EXPECT_EQ(failure([&] { run.schedule({{row, nowhere}}); }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(failure([&] { run.schedule({{row, ~std::uint64_t{0}}}); }).code(),
            ErrorCode::invalid_argument);
}

// O50, O51: errors contain the names in use and say which side caused them
TEST_P(ContextsTest, ErrorsNameTheBackendInUse) {
  EXPECT_THAT(backend.to_string(), HasSubstr(GetParam()));
  EXPECT_EQ(device.backend().name(), GetParam());
  const Status range = failure([&] { static_cast<void>(backend.physical_device(-1)); });
  EXPECT_EQ(range.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(text(range), HasSubstr("'" + GetParam() + "'"));
  device.submit("broken", [] { throw std::runtime_error("cable"); });
  const Status failed = failure([&] { device.await(); });
  EXPECT_EQ(failed.code(), ErrorCode::device_failed);
  EXPECT_THAT(text(failed), AllOf(HasSubstr(device.name()), HasSubstr("'broken'")));
  backend.finalize();
  const Status closed =
      failure([&] { static_cast<void>(backend.physical_device(0).new_virtual_device()); });
  EXPECT_EQ(closed.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(closed), HasSubstr("'" + GetParam() + "'"));
}

}  // namespace
}  // namespace heddle
