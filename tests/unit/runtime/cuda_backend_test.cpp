// The cuda backend on stand-ins for driver and compiler: how it is found, what it compiles and
// keeps, and what it says where a part is missing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class CudaBackendTest : public testing::Test {
 protected:
  /// Backends with a cache of the test's own.
  [[nodiscard]] BackendOptions options() const {
    BackendOptions options;
    options.name = "cuda";
    options.cuda_driver = test::cuda_standin;
    options.nvrtc = test::nvrtc_standin;
    options.cache = true;
    options.cache_dir = (directory_.path() / "cache").string();
    return options;
  }
  [[nodiscard]] static Program increment(const Tensor& x, float amount = 1) {
    const Index i;
    Program program("increment");
    program << (x(i) += amount);
    return program;
  }

  /// For each barrier of a program's kernels, and each wait for copies: its text, and the fault
  /// that the stand-in finds without it, or nothing. Each element of the inputs is 1, and of the
  /// result `expected`.
  std::vector<std::pair<std::string, std::string>> faults_without(const Program& program,
                                                                  const std::vector<Tensor>& inputs,
                                                                  const Tensor& result,
                                                                  float expected) const {
    std::vector<std::pair<std::string, std::string>> found;
    const std::string source = Backend::open(options()).compile(program).source();
    for (std::size_t at = 0; at < source.size(); ++at) {
      for (const char* const each : {"__syncthreads();", "__syncwarp();", "wait_for_copies();"})
        if (source.compare(at, std::strlen(each), each) == 0) found.emplace_back(each, "");
    }
    for (std::size_t dropped = 0; dropped <= found.size(); ++dropped) {
      BackendOptions with = options();
      with.cache = false;
      // Errors of a GPU stay with its driver.
      const std::string file =
          (directory_.path() / ("driver" + std::to_string(dropped) + ".so")).string();
      std::filesystem::copy(test::cuda_standin, file);
      with.cuda_driver = file;
      EXPECT_EQ(setenv("HEDDLE_TEST_NVRTC_DROPS", std::to_string(dropped).c_str(), 1), 0);
      const Backend backend = Backend::open(with);
      const Code code = backend.compile(program);
      unsetenv("HEDDLE_TEST_NVRTC_DROPS");
      const Routine run = Context(backend.physical_device(0).new_virtual_device()).link(code);
      for (const Tensor& each : inputs) {
        const auto elements = static_cast<std::size_t>(*each.type().num_elements());
        run.context().write(each, std::vector<float>(elements, 1));
      }
      const Status ended = run.schedule().wait();
      void* const driver = ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
      const auto* const gpu =
          static_cast<const cuda_standin::Controls*>(::dlsym(driver, "cuda_standin"));
      if (ended.ok()) {
        EXPECT_THAT(run.context().read<float>(result), Each(expected));
      } else {
        EXPECT_THAT(ended.to_string(), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
        EXPECT_LT(dropped, found.size()) << "all are there: " << gpu->fault();
        if (dropped < found.size()) found[dropped].second = gpu->fault();
        gpu->reset();  // frees what it is asked to again
      }
      ::dlclose(driver);
    }
    return found;
  }

  const TempDirectory directory_;
  const Tensor x_{"x", f32, {1000}};
};

// B4: programs are compiled for the GPU that is here, and run on it
TEST_F(CudaBackendTest, ComputesWhatProgramsSay) {
  const Backend backend = Backend::open(options());
  EXPECT_EQ(backend.num_physical_devices(), 2);
  const Device device = backend.physical_device(1).new_virtual_device();
  const Code code = backend.compile(increment(x_));
  EXPECT_THAT(code.loop_text(), AllOf(HasSubstr("parallel i0"), HasSubstr("block i1")));
  const Routine run = Context(device).link(code);
  std::vector<float> values(1000);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k);
  run.context().write(x_, values);
  for (int times = 0; times < 3; ++times) run.schedule();
  const std::vector<float> found = run.context().read<float>(x_);
  for (std::size_t k = 0; k < found.size(); ++k)
    ASSERT_EQ(found[k], static_cast<float>(k + 3)) << k;
}

// S23, B4: the host's code in a routine runs after the kernels before it, and before those behind
// it: a stream that runs ahead waits
TEST_F(CudaBackendTest, HostCallsComeBetweenKernels) {
  const Backend backend = Backend::open(options());
  const Code code = backend.compile(increment(x_));
  const Routine plain = Context(backend.physical_device(0).new_virtual_device()).link(code);
  plain.context().write(x_, std::vector<float>(1000, 1));
  // The stand-in's memory is the host's, but for a bit of its addresses.
  auto* const data = reinterpret_cast<float*>(
      reinterpret_cast<std::uintptr_t>(Inside::of(plain.context().view(x_).buffer())->data) &
      ~cuda_standin::not_of_host);
  std::vector<float> seen(1000);
  auto with_call = std::make_shared<jit::CodeData>(*Inside::of(code));
  auto core = std::make_shared<jit::Core>(*with_call->core);
  core->steps.emplace_back(jit::CallStep{[&] {
    std::copy_n(data, seen.size(), seen.begin());
    std::fill_n(data, seen.size(), 10.0F);
    return Status();
  }});
  core->steps.push_back(core->steps.front());
  with_call->core = std::move(core);
  const Routine calls = plain.context().link(Inside::make<Code>(std::move(with_call)));
  for (int times = 0; times < 5; ++times) plain.schedule();
  throw_if_failed(calls.schedule().wait());
  EXPECT_THAT(seen, Each(7));
  EXPECT_THAT(plain.context().read<float>(x_), Each(11));
}

// D12, B4: kernels access 16 bytes at once where their arrays begin at multiples of 16 bytes, and
// compute the same on views that begin between two of them
TEST_F(CudaBackendTest, ViewsMayBeginAnywhere) {
  const Tensor y("y", f32, {1000});
  const Index i;
  Program program("twice");
  program << (y(i) = 2 * x_(i));
  const Backend backend = Backend::open(options());
  const Device device = backend.physical_device(0).new_virtual_device();
  const Code code = backend.compile(program);
  EXPECT_THAT(code.source(), AllOf(HasSubstr("load_f32x4("), HasSubstr("store_f32x4(")));
  const Buffer from = Buffer::allocate(device, {f32, {1004}}),
               to = Buffer::allocate(device, {f32, {1004}});
  for (const auto& [x_at, y_at] : {std::pair(0, 0), std::pair(4, 16), std::pair(16, 4)}) {
    const Routine run = Context(device)
                            .with(x_, BufferView(from, x_.type(), x_at))
                            .with(y, BufferView(to, y.type(), y_at))
                            .link(code);
    run.context().write(x_, std::vector<float>(1000, static_cast<float>(1 + x_at)));
    const Status ended = run.schedule().wait();
    ASSERT_TRUE(ended.ok()) << ended.to_string();
    EXPECT_THAT(run.context().read<float>(y), Each(2 + 2 * x_at));
  }
}

// B4: HEDDLE_CUDA_CHECK=each waits for every kernel
TEST_F(CudaBackendTest, KernelsAreCheckedWhenAsked) {
  void* const library = ::dlopen(test::cuda_standin, RTLD_NOW);
  const auto* const gpu =
      static_cast<const cuda_standin::Controls*>(::dlsym(library, "cuda_standin"));
  const auto marks = [&] {
    const Backend backend = Backend::open(options());
    const Routine run = Context(backend.physical_device(0).new_virtual_device())
                            .link(backend.compile(increment(x_)));
    run.context().write(x_, std::vector<float>(1000, 1));
    const std::size_t before = gpu->calls("cuEventRecord");
    throw_if_failed(run.schedule().wait());
    return gpu->calls("cuEventRecord") - before;
  };
  const std::size_t usual = marks();
  ASSERT_EQ(setenv("HEDDLE_CUDA_CHECK", "Each", 1), 0);
  EXPECT_EQ(marks(), usual + 1);
  unsetenv("HEDDLE_CUDA_CHECK");
  ::dlclose(library);
}

// J10, B4: binaries are kept, and found by later backends
TEST_F(CudaBackendTest, KernelsAreKept) {
  static_cast<void>(Backend::open(options()).compile(increment(x_)));
  const Backend later = Backend::open(options());
  const Code code = later.compile(increment(x_));
  EXPECT_EQ(later.compile_counters().compiled, 0u);
  EXPECT_EQ(later.compile_counters().disk_hits, 1u);
  const Routine run = Context(later.physical_device(0).new_virtual_device()).link(code);
  run.context().write(x_, std::vector<float>(1000, 1));
  run.schedule();
  EXPECT_EQ(run.context().read<float>(x_)[999], 2);
}

// B3: a result of a CPU goes to the GPU, and what that makes of it comes back
TEST_F(CudaBackendTest, CopiesGoToCpusAndBack) {
  const Backend gpus = Backend::open(options()), cpus = Backend::open("sync_cc");
  const Routine there =
      Context(gpus.physical_device(0).new_virtual_device()).link(gpus.compile(increment(x_)));
  const Routine here =
      Context(cpus.physical_device(0).new_virtual_device()).link(cpus.compile(increment(x_)));
  here.context().write(x_, std::vector<float>(1000, 1));
  here.schedule();
  there.context().write(x_, here.context().read<float>(x_));
  there.schedule();
  here.context().write(x_, there.context().read<float>(x_));
  here.schedule();
  EXPECT_EQ(here.context().read<float>(x_)[500], 4);
}

// B4, J9: scatters run in one thread, in order, or where that is allowed in many threads, by atomic
// operations: of integers with the same bits, of floats with sums in another order
TEST_F(CudaBackendTest, ScattersAreAtomicWhereThatIsAllowed) {
  const Tensor to("to", i32, {3000}), whole("whole", i64, {3000}), part("part", f32, {3000}),
      wholes("wholes", i64, {16}), counts("counts", u32, {16}), parts("parts", f32, {16});
  const Index i, j;
  Program program("scatter");
  program << (wholes(j) = 5) << (wholes(at(to(i))) += whole(i)) << (counts(j) = 0)
          << (counts(at(to(i))) += 1) << (parts(j) = 0) << (parts(at(to(i))) += part(i));
  std::vector<std::int32_t> places(3000);
  std::vector<std::int64_t> numbers(3000);
  std::vector<float> fractions(3000);
  for (std::size_t k = 0; k < places.size(); ++k) {
    places[k] = static_cast<std::int32_t>(k * k % 17);  // 16 is none
    numbers[k] = static_cast<std::int64_t>(k * 0x9e3779b97f4a7c15u);
    fractions[k] = 1.0F / static_cast<float>(k + 1);
  }
  const Backend backend = Backend::open(options());
  const auto run = [&](const Code& code) {
    const Routine routine = Context(backend.physical_device(0).new_virtual_device()).link(code);
    routine.context().write(to, places);
    routine.context().write(whole, numbers);
    routine.context().write(part, fractions);
    routine.schedule();
    return std::tuple(routine.context().read<std::int64_t>(wholes),
                      routine.context().read<std::uint32_t>(counts),
                      routine.context().read<float>(parts));
  };
  const Code ordered = backend.compile(program);
  const Code unordered = backend.compile(program, {.unordered_scatters = true});
  EXPECT_THAT(ordered.loop_text(), Not(HasSubstr("atomically")));
  EXPECT_THAT(unordered.loop_text(), HasSubstr("block i3 in 0..256 {\n      at i4 "));
  for (const char* const type : {"i64", "u32", "f32"})
    EXPECT_THAT(unordered.loop_text(), HasSubstr(std::string("atomically= add.") + type));
  EXPECT_THAT(ordered.source(), Not(HasSubstr(" atomicAdd(&")));
  EXPECT_THAT(unordered.source(), AllOf(HasSubstr(" atomicAdd(&"), HasSubstr("(GLOBAL u64*)")));
  const auto [sums, numbers_of, fractions_of] = run(ordered);
  const auto [more_sums, more_numbers, more_fractions] = run(unordered);
  EXPECT_EQ(more_sums, sums);
  EXPECT_EQ(more_numbers, numbers_of);
  EXPECT_EQ(numbers_of[2], 353u) << "of 6 and 11 modulo 17";
  EXPECT_THAT(more_fractions, testing::Pointwise(testing::FloatNear(1e-5F), fractions_of));
}

// D3, B4: groups are at several statements at once: what these use has memory of its own
TEST_F(CudaBackendTest, StatementsAtOnceHaveScratchOfTheirOwn) {
  const Tensor a("a", f32, {300, 4}), b("b", f32, {300, 64}), c("c", f32, {300, 4}),
      d("d", f32, {300, 64}), s("s", f32, {300}), t("t", f32, {300}), y("y", f32, {300, 64}),
      z("z", f32, {300, 64});
  s.set_mode(MemoryMode::local);
  t.set_mode(MemoryMode::local);
  const Index i, j, k;
  Program program("both");
  program << (s(i) = sum(a(i, k))) << (y(i, j) = b(i, j) - s(i)) << (t(i) = sum(c(i, k)))
          << (z(i, j) = d(i, j) - t(i));
  const Backend backend = Backend::open(options());
  const Routine run =
      Context(backend.physical_device(0).new_virtual_device()).link(backend.compile(program));
  std::vector<float> rows(1200);
  for (std::size_t at = 0; at < rows.size(); ++at) rows[at] = static_cast<float>(at / 4);
  run.context().write(a, rows);
  run.context().write(c, std::vector<float>(1200, 1));
  run.context().write(b, std::vector<float>(300 * 64, 0));
  run.context().write(d, std::vector<float>(300 * 64, 0));
  run.schedule();
  const std::vector<float> first = run.context().read<float>(y),
                           other = run.context().read<float>(z);
  for (std::size_t at = 0; at < first.size(); ++at) {
    ASSERT_EQ(first[at], -4 * static_cast<float>(at / 64)) << at;
    ASSERT_EQ(other[at], -4) << at;
  }
}

// B4: a sum that is kept in a local, and that the elements of several arrays are computed from
TEST_F(CudaBackendTest, EachThreadHasTheSumsOfLocals) {
  const Backend backend = Backend::open(options());
  Graph graph("sums");
  const Node x = graph.parameter("x", {f32, {3}}), s = sum(x * x);
  graph.finish({s - x, cast(s - x * s, f64)});
  const GraphProgram made = graph.program();
  const Routine run =
      Context(backend.physical_device(0).new_virtual_device()).link(backend.compile(made.program));
  run.context().write(made.parameters[0], std::vector<float>{1, 2, 3});
  run.schedule();
  EXPECT_THAT(run.context().read<float>(made.results[0]), ElementsAre(13, 12, 11));
  EXPECT_THAT(run.context().read<double>(made.results[1]), ElementsAre(0, -14, -28));
}

// B4: no driver, no compiler: which file, and what to do
TEST_F(CudaBackendTest, MissingPartsAreTold) {
  BackendOptions without = options();
  without.cuda_driver = "/nowhere/libcuda.so";
  const Status driver = failure([&] { static_cast<void>(Backend::open(without)); });
  EXPECT_EQ(driver.code(), ErrorCode::unavailable);
  EXPECT_THAT(driver.to_string(),
              AllOf(HasSubstr("backend 'cuda' cannot be used here"),
                    HasSubstr("there is no CUDA driver"), HasSubstr("/nowhere/libcuda.so")));
  without = options();
  without.nvrtc = "/nowhere/libnvrtc.so";
  const Backend backend = Backend::open(without);
  const Status compiler = failure([&] { static_cast<void>(backend.compile(increment(x_))); });
  EXPECT_EQ(compiler.code(), ErrorCode::unavailable);
  EXPECT_THAT(compiler.to_string(),
              AllOf(HasSubstr("NVRTC cannot be loaded"), HasSubstr("/nowhere/libnvrtc.so"),
                    HasSubstr("set HEDDLE_NVRTC")));
  const std::string text = (directory_.path() / "text.so").string();
  std::ofstream(text) << "no library";
  without.nvrtc = text;
  EXPECT_THAT(failure([&] {
                static_cast<void>(Backend::open(without).compile(increment(x_)));
              }).to_string(),
              AllOf(HasSubstr("NVRTC cannot be loaded"), HasSubstr(text)));
  without.nvrtc = test::cuda_standin;
  EXPECT_THAT(failure([&] {
                static_cast<void>(Backend::open(without).compile(increment(x_)));
              }).to_string(),
              AllOf(HasSubstr("is no NVRTC: it lacks nvrtcVersion")));
}

// B4: what the compiler refuses is told in its words, with the text that it was given
TEST_F(CudaBackendTest, CompilersAreQuoted) {
  ASSERT_EQ(setenv("HEDDLE_TEST_NVRTC_SAYS", "no such luck", 1), 0);
  const Status status =
      failure([&] { static_cast<void>(Backend::open(options()).compile(increment(x_))); });
  unsetenv("HEDDLE_TEST_NVRTC_SAYS");
  EXPECT_EQ(status.code(), ErrorCode::compile_failed);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("nvrtc could not compile unit 'increment'"),
                                        HasSubstr("NVRTC_ERROR_COMPILATION"),
                                        HasSubstr("no such luck"), HasSubstr(".cu")));
}

// B4: threads of a group wait for each other where one reads what another wrote: without one of the
// barriers that join their sums, the stand-in finds two that touch one element at once
TEST_F(CudaBackendTest, BarriersAreNeeded) {
  const Tensor rows("rows", f32, {3, 1000}), sums("sums", f32, {3});
  const Index i, j;
  Program program("sums");
  program << (sums(i) = sum(rows(i, j)));
  std::size_t needed = 0;
  for (const auto& [barrier, fault] : faults_without(program, {rows}, sums, 1000)) {
    if (fault.empty()) continue;
    EXPECT_THAT(fault, HasSubstr("without a barrier in between"));
    ++needed;
  }
  EXPECT_GE(needed, 8U) << "256 sums are joined in 8 steps";
}

// B4: the next terms of a product are copied while the threads multiply the present ones: without
// one of the waits, the stand-in finds a thread that touches what is not there yet; without one of
// the barriers, a thread that writes what another reads
TEST_F(CudaBackendTest, CopiesAreWaitedFor) {
  const Tensor a("a", f32, {32, 56}), b("b", f32, {56, 32}), c("c", f32, {32, 32});
  const Index i, j, k;
  Program program("product");
  program << (c(i, j) += a(i, k) * b(k, j));
  std::size_t waits = 0, barriers = 0, unneeded = 0;
  for (const auto& [barrier, fault] : faults_without(program, {a, b}, c, 56)) {
    if (barrier == "wait_for_copies();") {
      EXPECT_THAT(fault, HasSubstr("to which a copy goes on"));
      ++waits;
    } else if (fault.empty()) {
      ++unneeded;
    } else {
      EXPECT_THAT(fault, HasSubstr("without a barrier in between"));
      ++barriers;
    }
  }
  EXPECT_EQ(waits, 4U) << "two of a loop over pairs of blocks, before the last terms, after them";
  EXPECT_EQ(barriers, 5U) << "with each wait, and before the first copies";
  EXPECT_LE(unneeded, 1U) << "between two groups, of which there is one";
}

// O57, B4: a traced kernel tells each value while it runs, more than there is room for at once; a
// kernel that is traced by nobody tells nobody
TEST_F(CudaBackendTest, KernelsTellEachValue) {
  constexpr std::int64_t many = 3000;
  const Tensor x("x", f32, {many}), y("y", i32, {many});
  const Index i;
  Program program("program");
  program << (x(i) = 2 * x(i)) << (y(i) = cast(x(i), i32) + 1);
  CompileOptions traced;
  traced.trace_values = true;
  for (const char* const check : {"0", "each"}) {
    BackendOptions with = options();
    with.cuda_check_each = std::string_view(check) == "each";
    const Backend backend = Backend::open(with);
    const Routine run = Context(backend.physical_device(0).new_virtual_device())
                            .link(backend.compile(program, traced));
    run.context().write(x, std::vector<float>(many, 3));
    EXPECT_TRUE(run.schedule().wait().ok());
    std::vector<std::string> told;
    std::size_t count = 0;
    ScheduleOptions schedule;
    schedule.trace = [&](const TracedValue& v) {
      if (++count % many != 1) return;
      told.push_back(fmt::format("{}[{}] {} to {}", v.tensor, v.offset, v.before, v.after));
    };
    EXPECT_TRUE(run.schedule({}, schedule).wait().ok());
    EXPECT_EQ(count, 2 * many);
    EXPECT_THAT(told, ElementsAre("x[0] 6 to 12", "y[0] 7 to 13"));
    EXPECT_THAT(run.context().read<std::int32_t>(y), Each(13));
  }
}

// S11, B4: a kernel that is asked to stop says so, and the device goes on; one whose threads wait
// for each other, too
TEST_F(CudaBackendTest, LongKernelsStopWhenAsked) {
  const Backend backend = Backend::open(options());
  const Device device = backend.physical_device(0).new_virtual_device();
  // The stand-in starts each thread of each group, after a stop too: of groups that meet, few.
  const Tensor x("x", f64, {1'000'000}), s("s", f64, {200'000}), y("y", f64, {100'000}),
      few("few", f64, {2000}), z("z", f64, {2000});
  const Index i, j, half(500'000);
  Program products("products"), sums("sums");
  products << (z(i) += sin(x(j) * few(i)) * exp(x(j)));
  sums << (y(i) = sum(sin(x(2 * half)) + s(2 * i)));
  for (const Program& minutes : {products, sums}) {
    const Code code = backend.compile(minutes);
    const bool meets = code.source().find("SHARED(f64, ") != std::string::npos;
    EXPECT_EQ(meets, minutes.name() == "products") << "each kind once";
    EXPECT_EQ(code.source().find("__syncthreads_or") != std::string::npos, meets);
    const Routine run = Context(device).link(code);
    const auto start = std::chrono::steady_clock::now();
    const Event event = run.schedule();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    device.cancel_pending();
    const Status ended = event.wait();
    EXPECT_EQ(ended.code(), ErrorCode::cancelled) << ended.to_string();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10 * test::slower))
        << "all of it: minutes";
    bool ran = false;
    EXPECT_TRUE(device.submit("after", [&ran] { ran = true; }).wait().ok());
    EXPECT_TRUE(ran);
  }
}

}  // namespace
}  // namespace heddle
