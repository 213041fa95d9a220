// Collectives against plain loops.
#include <functional>
#include <numeric>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CollectivesTest : public Conformance {
 protected:
  /// As many devices, each with the tensors.
  void open(std::size_t parties, const std::vector<Tensor>& tensors) {
    contexts.clear();
    for (std::size_t k = 0; k < parties; ++k) {
      Context context(backend.physical_device(0).new_virtual_device());
      for (const Tensor& each : tensors) {
        context = context.with(
            each, BufferView(Buffer::allocate(context.device(), each.type()), each.type()));
      }
      contexts.push_back(context);
    }
  }
  /// Numbers whose sum depends on the order of additions; the sums, in the order of the devices.
  template <class T>
  std::vector<std::vector<T>> fill(const Tensor& tensor) {
    std::vector<std::vector<T>> all;
    for (std::size_t k = 0; k < contexts.size(); ++k) {
      std::vector<T> values(static_cast<std::size_t>(tensor.num_elements()));
      for (std::size_t n = 0; n < values.size(); ++n)
        values[n] = static_cast<T>(k % 2 == 0 ? 1000003 * (n % 7 + k) : n % 5) / static_cast<T>(3);
      contexts[k].write(tensor, values);
      all.push_back(std::move(values));
    }
    return all;
  }
  template <class T>
  static std::vector<T> sum(const std::vector<std::vector<T>>& all) {
    std::vector<T> result = all[0];
    for (std::size_t k = 1; k < all.size(); ++k)
      std::transform(result.begin(), result.end(), all[k].begin(), result.begin(), std::plus<T>());
    return result;
  }
  template <class T>
  void expect_all(DType dtype) {
    for (const std::size_t parties : {1u, 2u, 3u, 5u}) {
      for (const std::int64_t count : {0, 1, 13, 9001}) {
        const auto parts = static_cast<std::int64_t>(parties);
        const Tensor t("t", dtype, {count}), whole("whole", dtype, {parts, count});
        open(parties, {t, whole});
        const std::string what = std::to_string(parties) + " of " + std::to_string(count);
        const std::size_t root = parties / 2;
        auto all = fill<T>(t);
        Recording reduce;
        reduce.reduce(t, contexts, root);
        reduce.finish().run();
        for (std::size_t k = 0; k < parties; ++k)
          EXPECT_EQ(contexts[k].read<T>(t), k == root ? sum(all) : all[k]) << what;
        all = fill<T>(t);
        Recording together;
        together.all_gather(t, whole, contexts);
        together.all_reduce(t, contexts);
        together.finish().run();
        std::vector<T> gathered;
        for (const auto& each : all) gathered.insert(gathered.end(), each.begin(), each.end());
        for (const Context& each : contexts) {
          EXPECT_EQ(each.read<T>(t), sum(all)) << what;
          EXPECT_EQ(each.read<T>(whole), gathered) << what;
        }
        const auto wholes = fill<T>(whole);
        Recording scatter;
        scatter.reduce_scatter(whole, t, contexts);
        scatter.broadcast(whole, contexts, root);
        scatter.finish().run();
        const auto total = sum(wholes);
        for (std::size_t k = 0; k < parties; ++k) {
          const auto begin = total.begin() + static_cast<std::ptrdiff_t>(k) * count;
          EXPECT_EQ(contexts[k].read<T>(t), std::vector<T>(begin, begin + count)) << what;
          EXPECT_EQ(contexts[k].read<T>(whole), wholes[root]) << what;
        }
      }
    }
  }

  std::vector<Context> contexts;
};
HEDDLE_CONFORMANCE_SUITE(CollectivesTest);

// D10: the bits of the loop that adds in the order of the list, for any number of devices
TEST_P(CollectivesTest, FloatsAreAddedInOrder) { expect_all<float>(f32); }
TEST_P(CollectivesTest, Integers) { expect_all<std::int32_t>(i32); }

// D9, D10: again and again, while others write: no run mixes with the next
TEST_P(CollectivesTest, RunsFollowEachOther) {
  const Tensor t("t", f32, {20000});
  open(4, {t});
  Index i;
  Program halve("halve");
  halve << (t(i) = t(i) * 0.25);
  const Code code = backend.compile(halve);
  std::vector<Routine> routines;
  for (const Context& each : contexts) routines.push_back(each.link(code));
  Recording recording;
  recording.all_reduce(t, contexts);
  const Replay sum = recording.finish();
  for (std::size_t k = 0; k < 4; ++k)
    contexts[k].write(t, std::vector<float>(20000, static_cast<float>(k + 1)));
  for (int round = 0; round < 20; ++round) {
    for (const Routine& each : routines) each.schedule();
    sum.run();
  }
  for (const Context& each : contexts)
    EXPECT_EQ(each.read<float>(t), std::vector<float>(20000, 2.5));
}

TEST_P(CollectivesTest, MistakesAreNamed) {
  const Tensor t("t", f32, {8}), odd("odd", f32, {9}), whole("whole", f32, {16});
  open(2, {t, odd, whole});
  Recording recording;
  const auto refused = [&](const std::function<void()>& call) {
    const Status why = failure(call);
    EXPECT_EQ(why.code(), ErrorCode::invalid_argument);
    return text(why);
  };
  EXPECT_THAT(refused([&] { recording.reduce(t, {}); }),
              AllOf(HasSubstr("reduce"), HasSubstr("'t'"), HasSubstr("context")));
  EXPECT_THAT(refused([&] { recording.broadcast(t, contexts, 2); }),
              AllOf(HasSubstr("root 2"), HasSubstr("below 2")));
  const std::vector<Context> twice{contexts[0], contexts[1], contexts[0]};
  EXPECT_THAT(refused([&] { recording.all_reduce(t, twice); }),
              AllOf(HasSubstr("0 and 2"), HasSubstr(contexts[0].device().name())));
  EXPECT_THAT(refused([&] { recording.all_gather(odd, whole, contexts); }),
              AllOf(HasSubstr("'odd'"), HasSubstr("'whole'")));
  EXPECT_THAT(refused([&] { recording.reduce_scatter(whole, odd, contexts); }), HasSubstr("'odd'"));
  const Tensor other("other", f32, {8});
  EXPECT_EQ(failure([&] { recording.all_reduce(other, contexts); }).code(), ErrorCode::not_found);
  EXPECT_EQ(recording.finish().num_recorded(), 0u);
}

// S10: a device that fails in the middle ends what comes after it, and nothing hangs
TEST_P(CollectivesTest, FailuresReachAllThatReads) {
  const Tensor t("t", f32, {20000});
  open(3, {t});
  Recording recording;
  recording.all_reduce(t, contexts);
  const Replay sum = recording.finish();
  sched::ExternalTimeline gate("gate");
  contexts[1].device().wait(gate.next());
  contexts[1].device().submit("bad", [] { return Status(ErrorCode::internal, "spoilt"); });
  const std::vector<Event> ends = sum.run();
  EXPECT_TRUE(gate.signal(1).ok());
  for (const Event& each : ends) EXPECT_THAT(text(each.wait()), HasSubstr("spoilt"));
  for (const Context& each : contexts) each.device().recover();
  fill<float>(t);
  for (const Event& each : sum.run()) EXPECT_TRUE(each.wait().ok());
}

}  // namespace
}  // namespace heddle
