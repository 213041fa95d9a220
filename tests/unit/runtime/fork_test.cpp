// Forked children of processes whose threads use heddle: no call hangs there. But for sanitizers,
// whose own locks these threads may hold as their process is forked.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "devices/memory_account.hpp"
#include "heddle/heddle.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/host_uses.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/replay/recording.hpp"
#include "runtime/settings/registry.hpp"
#include "tests/support/forked.hpp"
#include "tests/support/seeds.hpp"

namespace heddle {
namespace {

/// Routines on two devices, of which one uses the other's memory.
struct Things {
  Things() {
    for (const Tensor* const each : {&a, &b}) each->set_mode(MemoryMode::on_device);
    Program increments("increments"), merges("merges"), hosts("hosts");
    increments << (a(i) = a(i) + 1);
    merges << (b(i) = heddle::merge(a)(i));
    hosts << (hosted(i) = hosted(i) + 1);
    program = increments;
    code = backend.compile(increments);
    increment = Context(device).link(*code);
    shares = Context(other).with(a, increment->context().view(a)).link(*code);
    apart = Context(other).link(*code);
    consumer = Context(other).link(backend.compile(merges));
    host = Context(device).link(backend.compile(hosts));
    call = increment->prepare();
    recording.schedule(*increment);
    recording.merge(*consumer, increment->context(), MergeMode::stream);
    replay = recording.finish();
  }
  [[nodiscard]] Device open() const { return backend.physical_device(0).new_virtual_device(); }

  const Backend backend = Backend::open("cc");
  const Device device = open(), other = open();
  const Index i;
  const Tensor a{"a", i32, {100}}, b{"b", i32, {100}};
  const Tensor hosted{"hosted", HostArray(ArrayType{i32, {100}})};
  const std::vector<int> values = std::vector<int>(100);
  std::optional<Program> program;
  std::optional<Code> code;
  std::optional<Routine> increment, shares, apart, consumer, host;
  std::optional<Call> call;
  std::optional<Replay> replay;
  Recording recording;
  const Array array{device, {1.0F, 2.0F}};
  const Executor<Node (*)(Node)> inc{device, +[](Node x) { return x + 1; }, {.name = "inc"}};
  const Variable<Array> sum{"sum", Array(device, {0.0F, 0.0F})};
  const Executor<std::function<Node(const Graph&, Node)>> count{
      device, [this](const Graph& graph, Node x) {
        sum.update(graph, sum.read(graph) + x);
        return x;
      }};
};

struct UsedCall {
  const char* name;
  std::function<void(Things&)> call;
  bool answers = false;  ///< also in forked children
};

const std::vector<UsedCall> used_calls{
    {"Schedule", [](Things& t) { t.increment->schedule(); }},
    {"ScheduleCall", [](Things& t) { t.call->schedule(); }},
    {"ScheduleTraced",
     [](Things& t) {
       ScheduleOptions options;
       options.contain = true;
       t.increment->schedule({}, options);
     }},
    {"Read", [](Things& t) { static_cast<void>(t.increment->context().read<int>(t.a)); }},
    {"Write", [](Things& t) { t.increment->context().write(t.a, t.values); }},
    {"Copy", [](Things& t) { copy(t.a, t.increment->context(), t.apart->context()); }},
    {"HostStorage",
     [](Things& t) {
       t.host->context().to_host(t.hosted);
       t.host->context().from_host(t.hosted);
     }},
    {"LoadMerge",
     [](Things& t) { load_merge(*t.consumer, t.increment->context(), MergeMode::copy); }},
    {"Merge", [](Things& t) { merge(*t.consumer, t.increment->context(), MergeMode::stream); }},
    {"Record",
     [](Things& t) {
       Recording recording;
       recording.schedule(*t.increment);
       recording.merge(*t.consumer, t.increment->context(), MergeMode::stream);
       static_cast<void>(recording.finish());
     }},
    {"RecordTogether", [](Things& t) { t.recording.schedule(*t.increment); }},
    {"Replay", [](Things& t) { t.replay->run(); }},
    {"Link", [](Things& t) { static_cast<void>(Context(t.device).link(*t.code)); }},
    {"With",
     [](Things& t) {
       static_cast<void>(Context(t.other).with(t.a, t.increment->context().view(t.a)));
     }},
    {"Compile", [](Things& t) { static_cast<void>(t.backend.compile(*t.program)); }},
    {"Allocate", [](Things& t) { static_cast<void>(Buffer::allocate(t.device, t.a.type())); }},
    {"Donate",
     [](Things& t) { static_cast<void>(Buffer::allocate(t.device, t.a.type()).donate()); }},
    {"Trim", [](Things& t) { t.device.trim(); }, true},
    {"NewDevice", [](Things& t) { static_cast<void>(t.open()); }},
    {"Numbers",
     [](Things& t) {
       static_cast<void>(t.device.memory());
       static_cast<void>(t.device.statistics());
       static_cast<void>(t.backend.snapshot());
       static_cast<void>(t.backend.to_string());
     },
     true},
    {"Finalize", [](Things& t) { t.open().finalize(); }},
    {"Modes",
     [](Things& t) {
       t.a.set_mode(MemoryMode::on_device);
       static_cast<void>(t.a.to_string());
     },
     true},
    {"CallExecutor", [](Things& t) { t.inc(t.array); }},
    {"DonateToExecutor", [](Things& t) { t.inc(donate(Array(t.device, {1.0F, 2.0F}))); }},
    {"CompileExecutor",
     [](Things& t) {
       const Executor fresh(t.device, [](Node x) { return x + 2; });
       static_cast<void>(fresh.compile(t.array));
     }},
    {"UpdateVariable", [](Things& t) { t.count(t.array); }},
    {"ReadVariable", [](Things& t) { static_cast<void>(t.sum.value()); }, true},
    {"AskExecutor",
     [](Things& t) {
       static_cast<void>(t.inc.statistics());
       static_cast<void>(t.inc.graphs());
     },
     true},
    {"DropExecutor",
     [](Things& t) {
       const auto again = t.inc;
       const Executor fresh(t.device, [](Node x) { return x + 1; });
       fresh.finalize();
     },
     true},
    {"Tasks", [](Things& t) { t.other.wait(t.device.submit("task", [] {})); }, true},
};

[[nodiscard]] bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::unavailable &&
           std::string_view(error.what()).find("forked") != std::string_view::npos;
  }
  return false;
}

[[nodiscard]] Device open_own() {
  return Backend::open("sync_cc").physical_device(0).new_virtual_device();
}

/// Forks so often, while a thread does `repeat` again and again.
void fork_while(const std::function<void()>& repeat, std::uint64_t forks,
                const std::function<bool()>& child) {
  std::atomic<bool> over{false};
  std::thread repeats([&] {
    while (!over) repeat();
  });
  for (std::uint64_t k = 0; k < forks / test::slower; ++k) {
    if (in_forked_child(child)) continue;
    ADD_FAILURE() << "fork " << k;
    break;
  }
  over = true;
  repeats.join();
}

class ForkedCallTest : public testing::TestWithParam<UsedCall> {
 protected:
  void fork_while_used(const std::function<bool()>& child) {
    fork_while([this] { GetParam().call(*things); }, 40, child);
  }

  const std::unique_ptr<Things> things = std::make_unique<Things>();
};

// S14: a forked child that makes the call, too, gets its answer or `unavailable`
TEST_P(ForkedCallTest, EndsInChildren) {
  fork_while_used([this] {
    try {
      GetParam().call(*things);
    } catch (const Error& error) {
      return error.code() == ErrorCode::unavailable;
    }
    return true;
  });
}

// S14: a forked child computes with a backend of its own, whatever its parent's threads do
TEST_P(ForkedCallTest, ChildrenHaveBackendsOfTheirOwn) {
  fork_while_used([this] {
    const Device own = open_own();
    const Routine routine = Context(own).link(*things->code);
    Recording recording;
    recording.schedule(routine);
    recording.finish().run();
    const bool good = routine.context().read<int>(things->a)[99] == 1;
    own.trim();
    return good;
  });
}

INSTANTIATE_TEST_SUITE_P(All, ForkedCallTest, testing::ValuesIn(used_calls),
                         [](const auto& used) { return std::string(used.param.name); });

class ForkedChildTest : public testing::Test {
 protected:
  Things things;
  rt::Execution& execution = *Inside::of(things.device)->execution;
  rt::Execution& other = *Inside::of(things.other)->execution;
};

// S14: whatever a thread that it lacks was at, a forked child is refused what needs its parent's
// devices
TEST_F(ForkedChildTest, IsRefusedByTheDevicesOfItsParent) {
  const std::scoped_lock held(Inside::of(things.backend)->mutex, execution.merge.mutex,
                              other.merge.mutex);
  for (const UsedCall& used : used_calls) {
    if (used.answers) continue;
    EXPECT_TRUE(in_forked_child([&] { return is_refused([&] { used.call(things); }); }))
        << used.name;
  }
  EXPECT_TRUE(in_forked_child([&] { return is_refused([&] { things.device.finalize(); }); }));
  EXPECT_TRUE(in_forked_child([&] { return is_refused([&] { things.backend.finalize(); }); }));
  const Backend null = Backend::open("null");
  EXPECT_TRUE(in_forked_child(
      [&] { return is_refused([&] { static_cast<void>(null.compile(*things.program)); }); }));
}

// S14, F7: executors refuse by name, before anything else; variables unless a thread was at them
TEST_F(ForkedChildTest, ExecutorsAndVariablesSayWhoRefuses) {
  const auto says = [](std::string_view text, const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code() == ErrorCode::unavailable &&
             std::string_view(error.what()).find(text) != std::string_view::npos;
    }
    return false;
  };
  things.inc(things.array).wait();
  const auto variable = Inside::of(things.sum);
  const auto held = variable->lock();
  EXPECT_TRUE(in_forked_child([&] {
    return says("executor 'inc': forked", [&] { things.inc(things.array); }) &&
           says("variable 'sum': forked", [&] { static_cast<void>(things.sum.value()); }) &&
           things.inc.statistics().entries == 0;
  }));
}

// S14
TEST_F(ForkedChildTest, DoesNotWaitForContexts) {
  execution.ledger->lock();
  const Context context = things.increment->context();
  std::thread waits([&] { context.finalize(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // with the context's lock
  EXPECT_TRUE(in_forked_child([&] {
    return is_refused([&] { static_cast<void>(context.read<int>(things.a)); }) &&
           is_refused([&] { things.increment->schedule(); }) && !context.contains(things.a);
  }));
  EXPECT_TRUE(in_forked_child([&] {
    context.finalize();
    return true;
  }));
  execution.ledger->unlock();
  waits.join();
}

// S14: a forked child computes with what it inherited, unless that may be half written
TEST_F(ForkedChildTest, ComputesWithMemoryOfItsParentThatIsWhole) {
  const Buffer buffer = things.shares->context().view(things.a).buffer();
  const auto compute = [&] {
    const Routine routine = Context(open_own())
                                .with(things.a, things.shares->context().view(things.a))
                                .link(*things.code);
    routine.schedule();
    return routine.context().read<int>(things.a)[99];
  };
  execution.ledger->lock();
  EXPECT_TRUE(in_forked_child([&] { return is_refused([&] { compute(); }); }));
  EXPECT_TRUE(
      in_forked_child([&] { return is_refused([&] { static_cast<void>(buffer.donate()); }); }));
  execution.ledger->unlock();
  EXPECT_TRUE(in_forked_child([&] { return compute() == 1; }));
  things.increment->schedule().wait();
  load_merge(*things.consumer, things.increment->context(), MergeMode::stream).event.wait();
  const std::scoped_lock held(other.merge.mutex);
  EXPECT_TRUE(in_forked_child([&] { return is_refused([&] { compute(); }); }));
}

// S14
TEST_F(ForkedChildTest, LinksHostStorageOfItsParentThatIsWhole) {
  const auto link = [&] { static_cast<void>(Context(open_own()).link(things.host->code())); };
  const auto uses = rt::uses_of(*things.hosted.host());
  uses->ledger.lock();
  EXPECT_TRUE(in_forked_child([&] { return is_refused(link); }));
  uses->ledger.unlock();
  EXPECT_TRUE(in_forked_child([&] {
    link();
    return true;
  }));
  const auto ask = [&] { return rt::uses_of(*things.hosted.host()) == uses; };
  fork_while(ask, 200, ask);
}

// S14: whatever other threads open
TEST_F(ForkedChildTest, FindsTablesOfItsProcessFree) {
  const auto look = [] { return !rt::all_specs().empty(); };
  fork_while(look, 200, look);
  const dev::MemoryAccount account([] { return dev::MemoryLimit(); });
  const auto trim = [&] {
    account.trim();
    return true;
  };
  fork_while(trim, 200, trim);
}

// S14: the dynamic linker has a lock of its own, which fork() leaves as it is
TEST_F(ForkedChildTest, LoadsKernelsWhateverThreadsLoad) {
  const auto& kernel = std::get<jit::KernelStep>(Inside::of(*things.code)->core->steps.front());
  const auto load = [&] {
    std::shared_ptr<const dev::Module> module;
    return execution.physical->load(kernel.unit->image, {}, &module).ok();
  };
  fork_while([&] { EXPECT_TRUE(load()); }, 600, load);
}

// S14
TEST_F(ForkedChildTest, DoesNotWaitForRecordings) {
  const auto& recording = Inside::of(things.recording);
  for (int k = 0; k < 200'000; ++k) recording->add(nullptr);
  fork_while([&] { static_cast<void>(recording->calls()); }, 200,
             [&] {
               try {
                 recording->add(nullptr);
               } catch (const Error& error) {
                 return error.code() == ErrorCode::unavailable;
               }
               return true;
             });
  EXPECT_TRUE(in_forked_child([&] {
    recording->add(nullptr);
    return true;
  }));
}

// S14: what a forked child frees of its parent's memory goes nowhere, and it is given none
TEST_F(ForkedChildTest, HasNoMemoryByTheDevicesOfItsParent) {
  EXPECT_GT(things.device.statistics().bytes_in_use, 0u);
  EXPECT_FALSE(things.device.memory().empty());
  EXPECT_TRUE(in_forked_child([&] {
    dev::BlockRef block;
    const Status refused = execution.memory->allocate(64, &block);
    return refused.code() == ErrorCode::unavailable &&
           things.device.statistics().bytes_in_use == 0 && things.device.memory().empty();
  }));
}

}  // namespace
}  // namespace heddle
