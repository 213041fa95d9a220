// Random graphs as functions of executors: arguments that stay, others that are donated, and side
// parameters, drawn at random; against an interpreter of their nodes, or of their loops where sums
// depend on their order: every bit. HEDDLE_TEST_SEEDS=n looks at n graphs instead of 120,
// HEDDLE_TEST_SEED=s at those from s on, HEDDLE_TEST_BACKENDS=b at those by backend b.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/random_arguments.hpp"
#include "heddle/heddle.hpp"
#include "support/graph_interpreter.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

enum class How : std::uint8_t { kept, donated, side, side_donated };

/// A random graph, called.
class CalledGraph {
 public:
  CalledGraph(const Device& device, std::uint64_t seed, const Target& target)
      : random_(seed), device_(device) {
    for (std::size_t k = 0; k < random_.arguments.size(); ++k)
      how_.push_back(static_cast<How>(drawn(seed, 4 + k % 4) / 7 % 4));
    wanted_ = random_.wanted(true, target);
  }

  /// The same executor for several calls, each with arrays of its own, some of which die.
  void check() {
    const auto function = [random = &random_, how = how_](const Graph& graph,
                                                          const std::vector<Node>& kept,
                                                          const std::vector<Node>& donated) {
      std::vector<std::optional<Node>> parameters;
      std::size_t next_kept = 0, next_donated = 0;
      for (const How each : how) {
        if (each == How::kept) {
          parameters.emplace_back(kept[next_kept++]);
        } else if (each == How::donated) {
          parameters.emplace_back(donated[next_donated++]);
        } else {
          parameters.emplace_back();
        }
      }
      return random_nodes(random->seed, random->size, graph, parameters);
    };
    ExecutorOptions options;
    options.name = "random";
    options.on_side_parameters = [&](SideParameters& sides) { set(sides); };
    options.logger = [&](const LoggedNodes& logged) {
      marked_.assign(logged.values.begin(), logged.values.end());
    };
    const Executor executor(device_, function, options);
    for (int call = 0; call < 3; ++call) {
      make_arrays();
      const std::vector<Array> results =
          call == 2 ? executor.on(device_)(of(How::kept), donate(gone_ = of(How::donated)))
                    : executor(of(How::kept), donate(gone_ = of(How::donated)));
      compare(results);
      if (::testing::Test::HasFatalFailure()) return;
    }
    ASSERT_EQ(executor.statistics().traces, 1U);
  }

 private:
  void make_arrays() {
    arrays_.clear();
    for (const HostArray& argument : random_.arguments) arrays_.emplace_back(device_, argument);
  }
  [[nodiscard]] std::vector<Array> of(How how) const {
    std::vector<Array> some;
    for (std::size_t k = 0; k < arrays_.size(); ++k) {
      if (how_[k] == how) some.push_back(arrays_[k]);
    }
    return some;
  }
  void set(SideParameters& sides) const {
    std::size_t at = 0;
    for (std::size_t k = 0; k < arrays_.size(); ++k) {
      if (how_[k] == How::side) sides.set(at++, arrays_[k]);
      if (how_[k] == How::side_donated) sides.set(at++, donate(arrays_[k]));
    }
    ASSERT_EQ(at, sides.size());
  }
  void compare(std::vector<Array> found) const {
    found.insert(found.end(), marked_.begin(), marked_.end());
    ASSERT_EQ(found.size(), wanted_.size());
    for (std::size_t n = 0; n < wanted_.size(); ++n)
      expect(wanted_[n], found[n], "result " + std::to_string(n));
    for (std::size_t k = 0; k < arrays_.size(); ++k) {
      const bool stays = how_[k] == How::kept || how_[k] == How::side;
      ASSERT_EQ(arrays_[k].live(), stays) << "seed " << random_.seed << ", parameter " << k;
      if (stays) expect(random_.arguments[k], arrays_[k], "parameter " + std::to_string(k));
    }
  }
  void expect(const HostArray& wanted, const Array& array, const std::string& what) const {
    const HostArray found = array.to_host();
    ASSERT_TRUE(same_elements(wanted, found)) << "seed " << random_.seed << ", " << what << "\n"
                                              << wanted.to_string() << "\n"
                                              << found.to_string() << "\n"
                                              << random_.graph.to_string();
  }

  const RandomGraph random_;
  const Device device_;
  std::vector<How> how_;
  std::vector<HostArray> wanted_;
  std::vector<Array> arrays_, gone_, marked_;
};

std::vector<std::string> backends_of_graphs() {
  if (const char* const asked = std::getenv("HEDDLE_TEST_BACKENDS")) return {asked};
  return {"gccjit", "sync_cc", "pooled_gccjit"};
}

class ExecutorGraphsTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, ExecutorGraphsTest, ::testing::ValuesIn(backends_of_graphs()),
                         [](const auto& backend) { return backend.param; });

// F3, F4: executors compute what their functions mean, whatever they are given and take
TEST_P(ExecutorGraphsTest, EqualInterpreted) {
  const Backend backend = Backend::open(GetParam());
  const Device device = backend.physical_device(0).new_virtual_device();
  std::uint64_t seed = test::from_environment("HEDDLE_TEST_SEED", 1);
  if (GetParam() == "sync_cc") seed += std::uint64_t{1} << 40U;
  if (GetParam() == "pooled_gccjit") seed += std::uint64_t{1} << 41U;
  const Target target = GetParam() == "cuda" ? gpu_target(90) : native_target();
  for (std::uint64_t left = test::seeds(120) / 3; left > 0; --left, ++seed) {
    CalledGraph(device, seed, target).check();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace heddle::jit::testing
