// Executors: what calls compute, what they may be given, what they say where that does not fit.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

template <class T>
struct ExecutorsDense {
  T weight, bias;
};
template <class T>
HEDDLE_TREE(ExecutorsDense<T>, weight, bias)

class ExecutorsTest : public Conformance {
 protected:
  using Values = std::vector<float>;
  /// Holds a device up until it goes.
  struct Gate {
    explicit Gate(const Device& of) : opened(timeline.next()) { of.wait(opened); }
    ~Gate() { open(); }
    void open() { static_cast<void>(timeline.signal(opened.ticket())); }
    sched::ExternalTimeline timeline{"gate"};
    Event opened;
  };
  [[nodiscard]] Array row(const Values& values) const { return Array(device, values); }
  [[nodiscard]] Device another() const { return backend.physical_device(0).new_virtual_device(); }
  [[nodiscard]] Executor<Node (*)(Node)> plus_one(ExecutorOptions options = {.name = "inc"}) const {
    return {device, +[](Node x) { return x + 1; }, std::move(options)};
  }
  [[nodiscard]] Executor<Node (*)(Node, Node)> adder(ExecutorOptions options = {
                                                         .name = "add"}) const {
    return {device, +[](Node x, Node y) { return x + y; }, std::move(options)};
  }
  /// An array that `on` should have filled, after `gate`, and did not.
  [[nodiscard]] static Array lost(const Device& on) {
    const BufferView view(Buffer::allocate(on, {f32, {2}}), {f32, {2}});
    return Array(on, view, on.submit("sensor", Touches{.writes = {view}}, [] {
      throw std::runtime_error("unplugged");
    }));
  }
  static std::string refusal(ErrorCode code, const std::function<void()>& act) {
    const Status status = failure(act);
    EXPECT_EQ(status.code(), code) << text(status);
    return text(status);
  }
};
HEDDLE_CONFORMANCE_SUITE(ExecutorsTest);

// F5: what the function says, traced at the first call of new types alone
TEST_P(ExecutorsTest, ComputeWhatTheirFunctionsSay) {
  const Executor affine(device, [](Node x, Node w, Node b) { return matmul(x, w) + b; });
  const Array x(device, {2, 3}, Values{1, 2, 3, -1, 0, 1});
  const Array w(device, {3, 2}, Values{1, 2, 3, 4, 5, 6}), b = row({0.5F, 1});
  for (int round = 0; round < 3; ++round) {
    const Array y = affine(x, w, b);
    EXPECT_EQ(y.type(), (ArrayType{f32, {2, 2}}));
    EXPECT_EQ(y.device(), device);
    EXPECT_THAT(y.values<float>(), ElementsAre(22.5F, 29, 4.5F, 5));
  }
  EXPECT_EQ(affine.statistics().traces, 1U);
  EXPECT_THAT(affine(w, x, 1.0F).values<float>(), ElementsAre(0, 3, 6, 0, 7, 14, 0, 11, 22));
  const ExecutorStatistics told = affine.statistics();
  EXPECT_EQ(told.calls, 4U);
  EXPECT_EQ(told.misses, 2U);
  EXPECT_EQ(told.traces, 2U);
  EXPECT_EQ(told.compiles, 2U);
  EXPECT_EQ(told.entries, 2U);
  EXPECT_EQ(told.dropped, 0U);
  EXPECT_EQ(affine.name(), "executor");
  EXPECT_EQ(affine.device(), device);
}

// Trees go in and come out, with all their leaves where they were
TEST_P(ExecutorsTest, TakeAndGiveTrees) {
  using Named = std::map<std::string, Node>;
  const Executor mixed(device, [](const ExecutorsDense<Node>& d, const std::array<Node, 2>& pair,
                                  const Named& named, std::optional<Node> rest) {
    ExecutorsDense<Node> made{d.weight * 2, d.bias - pair[1]};
    Named also{{"n", named.at("n") + 1}, {"a", named.at("a") * 3}};
    return std::tuple(made, std::vector<Node>{pair[0] * 5, pair[0]}, also, std::move(rest));
  });
  const std::map<std::string, Array> named{{"n", row({7})}, {"a", row({8})}};
  const auto [dense, list, more, rest] =
      mixed(ExecutorsDense<Array>{row({1, 2}), row({3, 4})}, std::array{row({1}), row({1, 1})},
            named, std::optional<Array>(row({9})));
  EXPECT_THAT(dense.weight.values<float>(), ElementsAre(2, 4));
  EXPECT_THAT(dense.bias.values<float>(), ElementsAre(2, 3));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_THAT(list[0].values<float>(), ElementsAre(5));
  EXPECT_THAT(list[1].values<float>(), ElementsAre(1));
  EXPECT_THAT(more.at("n").values<float>(), ElementsAre(8));
  EXPECT_THAT(more.at("a").values<float>(), ElementsAre(24));
  EXPECT_THAT(rest->values<float>(), ElementsAre(9));
}

// F5: arguments of the same leaves in other trees are others, also where nothing else differs
TEST_P(ExecutorsTest, TellStructuresApart) {
  const Executor sums(device, [](const std::vector<Node>& a, const std::vector<Node>& b,
                                 const std::optional<Node>& c) {
    const auto of = [](const std::vector<Node>& list, Node all) {
      for (const Node& each : list) all = all + each;
      return all;
    };
    return std::tuple(of(a, a[0]), of(b, b[0]), c);
  });
  const Array one = row({1}), two = row({2}), four = row({4});
  using List = std::vector<Array>;
  const auto [a, b, c] = sums(List{one, two}, List{four}, std::optional<Array>());
  EXPECT_THAT(a.values<float>(), ElementsAre(4));
  EXPECT_THAT(b.values<float>(), ElementsAre(8));
  EXPECT_FALSE(c.has_value());
  const auto [d, e, f] = sums(List{one}, List{two, four}, std::optional<Array>());
  EXPECT_THAT(d.values<float>(), ElementsAre(2));
  EXPECT_THAT(e.values<float>(), ElementsAre(8));
  const auto [g, h, i] = sums(List{one}, List{two}, std::optional<Array>(four));
  EXPECT_THAT(i->values<float>(), ElementsAre(4));
  EXPECT_EQ(sums.statistics().traces, 3U);
}

// Generic functions are traced for what they are given, though its leaves are the same
TEST_P(ExecutorsTest, TellTypesOfTreesApart) {
  const Executor generic(device, [](const auto& tree) {
    using Tree = std::remove_cvref_t<decltype(tree)>;
    if constexpr (std::same_as<Tree, ExecutorsDense<Node>>) {
      return std::pair(tree.weight - tree.bias, tree.bias);
    } else {
      return std::pair(tree[0] + tree[1], tree[1]);
    }
  });
  const Array two = row({2}), five = row({5});
  const auto [less, bias] = generic(ExecutorsDense<Array>{five, two});
  const auto [more, last] = generic(std::array{five, two});
  EXPECT_THAT(less.values<float>(), ElementsAre(3));
  EXPECT_THAT(more.values<float>(), ElementsAre(7));
  EXPECT_EQ(generic.statistics().entries, 2U);
}

// Values of the host are copied before the call returns, whatever they are
TEST_P(ExecutorsTest, TakeValuesOfTheHost) {
  const Executor add(device, [](Node x, Node y) { return x + y; });
  Gate gate(device);
  Values list{1, 2};
  HostArray host = HostArray::range({f32, {2}});
  const Array sum = add(list, host);
  const Array span = add(std::span<const float>(list), 10.0F);
  list.assign(2, 99);
  host.set(0, 99);
  gate.open();
  EXPECT_THAT(sum.values<float>(), ElementsAre(1, 3));
  EXPECT_THAT(span.values<float>(), ElementsAre(11, 12));
  EXPECT_EQ(add(3, 4).item<std::int32_t>(), 7);
  EXPECT_EQ(add(std::int64_t{3}, 4).type(), (ArrayType{i64, {}}));
}

}  // namespace
}  // namespace heddle
