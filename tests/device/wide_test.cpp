// Kernels that run in parts, on several processors at once: the same bits at any width, even while
// other devices take processors away.
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/executor.hpp"
#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class WideTest : public testing::TestWithParam<std::string> {
 protected:
  /// Small arrays make many parts, and there may be more threads than processors.
  static Backend open(int width) {
    BackendOptions options;
    options.name = GetParam();
    options.width = width;
    options.oversubscribed = true;
    options.kernels = KernelProfile{.part_bytes = 1024};
    return Backend::open(std::move(options));
  }
  static Array array(const Device& device, const Dims& dims, unsigned seed) {
    const HostArray values(ArrayType{f32, dims});
    auto* const to = static_cast<float*>(values.data());
    for (std::int64_t k = 0; k < values.num_elements(); ++k) {
      seed = seed * 1664525U + 1013904223U;
      to[k] = static_cast<float>(seed >> 8U) / static_cast<float>(1U << 24U) - 0.5F;
    }
    return {device, values};
  }
  using Bits = std::vector<std::vector<float>>;
  /// Results of a few functions: products with packed operands, full, row and column sums, rows
  /// with several passes, transposes, and consecutive loop nests.
  struct Functions {
    explicit Functions(const Device& on)
        : device(on),
          product(on, [](Node x, Node y) { return matmul(x, softmax(matmul(x, y))); }),
          rows(on,
               [](Node x, Node scale) {
                 const Node normal = layer_norm(x, scale, scale);
                 return std::pair(normal, sum(exp(normal), {1}));
               }),
          sums(
              on,
              [](Node x) { return std::pair(sum(x) + sum(x * x), sum(x, {0}) + maximum(x, {0})); }),
          turned(on, [](Node x) { return transpose(max(x, 0.F)) * 2.F + transpose(x); }) {}
    [[nodiscard]] Bits run() const {
      const Array x = array(device, {97, 97}, 1), y = array(device, {97, 97}, 2);
      const Array long_rows = array(device, {67, 300}, 3), scale = array(device, {300}, 4);
      const auto [normal, total] = rows(long_rows, scale);
      // As large as three blocks of a long sum.
      const auto [all, columns] = sums(array(device, {330, 300}, 5));
      Bits bits;
      for (const Array& each : {product(x, y), normal, total, all, columns, turned(long_rows)})
        bits.push_back(each.values<float>());
      return bits;
    }
    Device device;
    Executor<std::function<Node(Node, Node)>> product;
    Executor<std::function<std::pair<Node, Node>(Node, Node)>> rows;
    Executor<std::function<std::pair<Node, Node>(Node)>> sums;
    Executor<std::function<Node(Node)>> turned;
  };
  static bool same(const Bits& a, const Bits& b) {
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (std::memcmp(a[k].data(), b[k].data(), a[k].size() * sizeof(float)) != 0) return false;
    }
    return true;
  }
};
HEDDLE_CONFORMANCE_SUITE(WideTest);

// S19, B3: results have the same bits at any width and timing
TEST_P(WideTest, WidthChangesNoBit) {
  const std::vector<int> few{1, 7, width_automatic}, all{1, 2, 3, 7, 16, width_automatic};
#ifdef HEDDLE_SANITIZED
  constexpr int rounds = 2;
#else
  constexpr int rounds = 10;
#endif
  Bits narrow;
  for (const int width : GetParam() == "cc" ? all : few) {
    const Backend backend = open(width);
    const Functions functions(backend.physical_device(0).new_virtual_device());
    if (narrow.empty()) narrow = functions.run();
    for (int times = 0; times < rounds; ++times)
      ASSERT_TRUE(same(functions.run(), narrow)) << "width " << width;
  }
}

// D1: a newly opened virtual device takes its processor back, and frees the processor when closed
TEST_P(WideTest, ProcessorsComeAndGo) {
  const Backend backend = open(width_automatic);
  const Functions functions(backend.physical_device(0).new_virtual_device());
  const Bits wanted = functions.run();
  std::atomic<bool> over = false;
  std::thread host([&] {
    const int last = backend.num_physical_devices() - 1;
    while (!over) {
      const Device other = backend.physical_device(last).new_virtual_device();
      EXPECT_EQ(Array(other, 2.F).item<float>(), 2);
    }
  });
  for (int times = 0; times < 20; ++times) EXPECT_TRUE(same(functions.run(), wanted));
  over = true;
  host.join();
}

// S19: devices of several processors share a backend, and virtual devices share a team
TEST_P(WideTest, DevicesShareATeam) {
  const Backend backend = open(3);
  std::vector<std::thread> hosts;
  std::vector<Bits> found(4);
  for (std::size_t t = 0; t < found.size(); ++t) {
    hosts.emplace_back([&backend, &found, t] {
      const int last = backend.num_physical_devices() - 1;
      const Functions functions(
          backend.physical_device(t % 2 == 0 ? 0 : last).new_virtual_device());
      for (int times = 0; times < 4; ++times) found[t] = functions.run();
    });
  }
  for (std::thread& host : hosts) host.join();
  for (const Bits& each : found) EXPECT_TRUE(same(each, found[0]));
}

// D12: in place, and in a replay
TEST_P(WideTest, DonatedAndReplayedAlike) {
  const Backend backend = open(2);
  const Device device = backend.physical_device(0).new_virtual_device();
  const Executor step(device, [](Node state, Node by) { return state * 0.5F + by; });
  const Array by = array(device, {64, 100}, 5);
  Array state = array(device, {64, 100}, 6);
  std::vector<float> expected = state.values<float>();
  const std::vector<float> add = by.values<float>();
  for (int times = 0; times < 20; ++times) {
    state = step(donate(state), by);
    for (std::size_t k = 0; k < expected.size(); ++k) expected[k] = expected[k] * 0.5F + add[k];
  }
  EXPECT_EQ(state.values<float>(), expected);
  Recording recording;
  const Array twice = step.record(recording, step.record(recording, state, by), by);
  const Replay replay = recording.finish();
  replay.run();
  for (int times = 0; times < 2; ++times) {
    for (std::size_t k = 0; k < expected.size(); ++k) expected[k] = expected[k] * 0.5F + add[k];
  }
  EXPECT_EQ(twice.values<float>(), expected);
}

// S19: invalid widths are refused with a message
TEST_P(WideTest, MalformedWidthsAreRefused) {
  for (const int width : {0, -3, 100'000}) {
    BackendOptions options;
    options.name = GetParam();
    options.width = width;
    EXPECT_THAT(text(failure([&] { static_cast<void>(Backend::open(options)); })),
                AllOf(HasSubstr("invalid_argument"),
                      HasSubstr("BackendOptions::width is " + std::to_string(width)),
                      HasSubstr("width_all or width_automatic")));
  }
}

}  // namespace
}  // namespace heddle
