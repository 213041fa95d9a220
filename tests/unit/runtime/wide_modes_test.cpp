// Compiled kernels in parts, in every mode: the bits of width 1 at any width, by both compilers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/heddle.hpp"
#include "heddle/simulation.hpp"
#include "jit/code/core.hpp"
#include "jit/system/inside.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/forked.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/temp_directory.hpp"
#include "tests/unit/runtime/parts_fixture.hpp"

namespace heddle::rt {
namespace {

using sched::Mode;
using Bits = std::vector<std::vector<float>>;

/// A computation, and what it is given.
struct Work {
  std::string name;
  GraphProgram program;
  std::vector<std::vector<float>> given;
};

std::vector<float> values_of(const Tensor& tensor, unsigned seed) {
  std::vector<float> values(static_cast<std::size_t>(*tensor.type().num_elements()));
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(seed >> 8U) / static_cast<float>(1U << 24U) - 0.5F;
  }
  return values;
}

template <class Function>
Work work(std::string name, const std::vector<Dims>& dims, const Function& function) {
  const Graph graph(name);
  std::vector<Node> nodes;
  for (const Dims& each : dims) nodes.push_back(graph.parameter("x", {f32, each}));
  graph.finish({function(nodes)});
  Work made{std::move(name), graph.program(), {}};
  for (unsigned k = 0; k < made.program.parameters.size(); ++k)
    made.given.push_back(values_of(made.program.parameters[k], k + 1));
  return made;
}

/// What reads and writes its arrays in each way that schedules know.
const std::vector<Work>& works() {
  static const std::vector<Work> all = [] {
    std::vector<Work> made;
    made.push_back(
        work("matmul", {{97, 97}, {97, 97}}, [](auto& x) { return matmul(x[0], x[1]); }));
    made.push_back(work("softmax", {{67, 300}}, [](auto& x) { return softmax(x[0]); }));
    made.push_back(work("columns", {{100, 1000}}, [](auto& x) { return sum(x[0], {0}); }));
    made.push_back(work("elements", {{70, 90}}, [](auto& x) { return exp(x[0]) * 2.F + x[0]; }));
    made.push_back(work("turned", {{70, 90}}, [](auto& x) { return transpose(x[0]) * 2.F; }));
    made.push_back(work("convolution", {{2, 3, 20, 20}, {8, 3, 3, 3}},
                        [](auto& x) { return conv(x[0], x[1]); }));
    made.push_back(work("several", {{64, 64}, {64, 64}},
                        [](auto& x) { return matmul(x[0], softmax(matmul(x[0], x[1]))); }));
    return made;
  }();
  return all;
}

/// Compiled kernels of all tests here are kept.
BackendOptions options_of(const std::string& compiler) {
  static const TempDirectory kept;
  BackendOptions options;
  options.name = compiler;
  options.oversubscribed = true;
  options.kernels = KernelProfile{.part_bytes = 1024};
  options.cache = true;
  options.cache_dir = (kept.path() / "cache").string();
  return options;
}

/// What all of it gives, on a new device; each ran in parts or, at width 1, whole.
Bits run(const Backend& backend, bool in_parts) {
  const Device device = backend.physical_device(0).new_virtual_device();
  Bits bits;
  for (const Work& each : works()) {
    const std::uint64_t before = device.statistics().parts;
    const Routine routine = Context(device).link(backend.compile(each.program.program));
    for (std::size_t k = 0; k < each.given.size(); ++k)
      routine.context().write(each.program.parameters[k], each.given[k]);
    routine.schedule();
    bits.push_back(routine.context().read<float>(each.program.results[0]));
    EXPECT_EQ(device.statistics().parts > before, in_parts) << each.name;
  }
  return bits;
}

testing::AssertionResult same(const Bits& found, const Bits& wanted) {
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (std::memcmp(found[k].data(), wanted[k].data(), wanted[k].size() * sizeof(float)) != 0)
      return testing::AssertionFailure() << works()[k].name;
  }
  return testing::AssertionSuccess();
}

/// Of width 1, once for each compiler.
const Bits& narrow(const std::string& compiler) {
  static std::map<std::string, Bits> known;
  const auto at = known.find(compiler);
  if (at != known.end()) return at->second;
  BackendOptions options = options_of(compiler);
  options.width = 1;
  return known[compiler] = run(Backend::open(options), false);
}

constexpr unsigned widths[] = {2, 3, 7, 16};

// Kernels are not sanitized, whichever compiler they are from.
constexpr int rounds = test::slower > 1 ? 1 : 3;
std::vector<std::string> compilers() {
  if (test::slower > 1) return {"cc"};
  return {"cc", "gccjit"};
}

class WideModesTest : public testing::TestWithParam<std::tuple<std::string, Mode>> {
 protected:
  std::string compiler() const { return std::get<0>(GetParam()); }
  BackendOptions options() const {
    BackendOptions made = options_of(compiler());
    made.mode = std::get<1>(GetParam());
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, WideModesTest,
                         testing::Combine(testing::ValuesIn(compilers()),
                                          testing::Values(Mode::threaded, Mode::pooled,
                                                          Mode::inline_, Mode::manual)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param) + "_" +
                                  name_of(std::get<1>(tested.param));
                         });

// S19, B3, W1: neither the width nor the mode changes a bit, nor how many workers there are
TEST_P(WideModesTest, WidthChangesNoBit) {
  for (const unsigned width : widths) {
    BackendOptions wide = options();
    wide.width = static_cast<int>(width);
    for (const unsigned workers : {2U, 5U}) {
      if (wide.mode == Mode::pooled) wide.scheduling.workers = workers;
      const Backend backend = Backend::open(wide);
      for (int times = 0; times < rounds; ++times)
        ASSERT_TRUE(same(run(backend, true), narrow(compiler()))) << "width " << width;
    }
  }
}

// S15, S19: on the host's own scheduler, whose threads help
TEST_P(WideModesTest, TheHostsSchedulerGivesTheThreads) {
  for (const unsigned width : widths) {
    BackendOptions wide = options();
    wide.scheduler = Scheduler(of_width(width));
    if (wide.mode == Mode::manual) wide.width = static_cast<int>(width);
    const Backend backend = Backend::open(wide);
    for (int times = 0; times < rounds; ++times)
      ASSERT_TRUE(same(run(backend, true), narrow(compiler()))) << "width " << width;
  }
}

// S19: several devices at once, with tasks in parts of the host's between
TEST_P(WideModesTest, DevicesAtOnce) {
  Scheduler scheduler(of_width(3));
  BackendOptions wide = options();
  wide.scheduler = scheduler;
  if (wide.mode == Mode::manual) wide.width = 3;
  const Backend backend = Backend::open(wide);
  static_cast<void>(run(backend, true));  // the threads have started
  std::atomic<bool> over{false};
  std::thread beside([&] {
    const sched::TaskDevice device = scheduler.new_device("host");
    while (!over) {
      std::atomic<std::size_t> sum{0};
      const auto add = [&](std::size_t from, std::size_t to) { sum += to - from; };
      EXPECT_TRUE(device.submit_parallel("sum", 100, add).wait().ok());
      EXPECT_EQ(sum, 100U);
    }
  });
  std::vector<std::thread> hosts;
  std::vector<Bits> found(3);
  for (Bits& bits : found) {
    hosts.emplace_back([&] {
      for (int times = 0; times < 2; ++times) bits = run(backend, true);
    });
  }
  for (std::thread& host : hosts) host.join();
  over = true;
  beside.join();
  for (const Bits& bits : found) EXPECT_TRUE(same(bits, narrow(compiler())));
}

// S14: a forked child is refused, wherever the parts run
TEST_P(WideModesTest, ForkedChildrenAreRefused) {
  BackendOptions wide = options();
  wide.width = 3;
  const Backend backend = Backend::open(wide);
  const Device device = backend.physical_device(0).new_virtual_device();
  const Work& each = works()[0];
  const Routine routine = Context(device).link(backend.compile(each.program.program));
  ASSERT_TRUE(routine.schedule().wait().ok());
  EXPECT_TRUE(in_forked_child([&] {
    return failure([&] { throw_if_failed(routine.schedule().wait()); }).code() ==
           ErrorCode::unavailable;
  }));
  EXPECT_TRUE(routine.schedule().wait().ok());
}

std::ptrdiff_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// S19, S24: what helps with kernels helps with tasks in parts: these start no more threads, on the
// backend's own scheduler or on the host's
TEST_P(WideModesTest, ThereIsOneSetOfThreads) {
  BackendOptions own = options(), hosts = options();
  own.width = 3;
  hosts.scheduler = Scheduler(of_width(3));
  if (hosts.mode == Mode::manual) hosts.width = 3;
  for (const BackendOptions& each : {own, hosts}) {
    const Backend backend = Backend::open(each);
    const Device device = backend.physical_device(0).new_virtual_device();
    const Work& some = works()[0];
    const Routine routine = Context(device).link(backend.compile(some.program.program));
    ASSERT_TRUE(routine.schedule().wait().ok());
    EXPECT_GT(device.statistics().parts, 0U);
    const std::ptrdiff_t threads = threads_of_process();
    std::atomic<std::size_t> sum{0};
    const auto add = [&](std::size_t from, std::size_t to) { sum += to - from; };
    EXPECT_TRUE(device.timeline().submit_parallel("sum", 100, add).wait().ok());
    EXPECT_EQ(sum, 100U);
    EXPECT_LE(threads_of_process(), threads);
  }
}

class SimulatedWidthTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Compilers, SimulatedWidthTest, testing::Values("gccjit", "cc"),
                         [](const auto& compiler) { return compiler.param; });

struct SimulatedWorks {
  Bits bits;
  std::uint64_t hash = 0, parts = 0;
};

/// Each computation on a device of its own, all at once.
SimulatedWorks simulate_works(const std::string& compiler, std::uint64_t seed,
                              const std::vector<Code>& codes) {
  SimulationOptions simulated;
  simulated.seed = seed;
  simulated.faults.fill(false);
  constexpr unsigned drawn[] = {1, 2, 3, 7, 16};
  simulated.width = drawn[seed % std::size(drawn)];
  Simulation simulation(simulated);
  BackendOptions options = options_of(compiler);
  options.scheduler = simulation.scheduler();
  const Backend backend = Backend::open(options);
  SimulatedWorks played;
  simulation.host("host", [&] {
    std::vector<Routine> routines;
    for (std::size_t k = 0; k < codes.size(); ++k) {
      const Work& each = works()[k];
      routines.push_back(Context(backend.physical_device(0).new_virtual_device()).link(codes[k]));
      for (std::size_t of = 0; of < each.given.size(); ++of)
        routines.back().context().write(each.program.parameters[of], each.given[of]);
      routines.back().schedule();
    }
    for (std::size_t k = 0; k < codes.size(); ++k) {
      played.bits.push_back(routines[k].context().read<float>(works()[k].program.results[0]));
      const std::uint64_t parts = routines[k].context().device().statistics().parts;
      EXPECT_EQ(parts > 1, simulated.width > 1) << works()[k].name;
      played.parts += parts;
    }
  });
  const SimulationReport report = simulation.run();
  EXPECT_TRUE(report.status.ok()) << report.status.to_string();
  played.hash = report.hash;
  return played;
}

// S18, S19: whatever the seed and the width, kernels whose parts interleave give the same bits, and
// a seed goes the same way again. HEDDLE_TEST_SEEDS=n looks at n seeds, HEDDLE_TEST_SEED=s at those
// from s on.
TEST_P(SimulatedWidthTest, SeedsChangeNoBit) {
  std::vector<Code> codes;
  for (const Work& each : works())
    codes.push_back(Backend::open(options_of(GetParam())).compile(each.program.program));
  const std::uint64_t first = test::from_environment("HEDDLE_TEST_SEED", 1);
  const std::uint64_t seeds = test::seeds(100);
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const SimulatedWorks played = simulate_works(GetParam(), seed, codes);
    ASSERT_TRUE(same(played.bits, narrow(GetParam()))) << "seed " << seed;
    if (seed % 20 == 0) {
      ASSERT_EQ(simulate_works(GetParam(), seed, codes).hash, played.hash) << "seed " << seed;
    }
    hashes.insert(played.hash);
  }
  EXPECT_GT(hashes.size(), seeds * 9 / 10);
}

// S19: some of the kernels here have scratch that parts have their own of
TEST_P(SimulatedWidthTest, KernelsHaveScratchOfTheirOwn) {
  const Backend backend = Backend::open(options_of(GetParam()));
  std::size_t with_own = 0, in_parts = 0;
  for (const Work& each : works()) {
    const Code code = backend.compile(each.program.program);
    if (Inside::of(code)->core->own_bytes > 0) ++with_own;
    for (const jit::Step& step : Inside::of(code)->core->steps) {
      if (const auto* const kernel = std::get_if<jit::KernelStep>(&step);
          kernel != nullptr && kernel->parts > 1)
        ++in_parts;
    }
  }
  EXPECT_GE(with_own, 1U);
  EXPECT_GE(in_parts, works().size());
}

}  // namespace
}  // namespace heddle::rt
