// A program without a mistake: whatever warnings are on, there are none. Designated initialisers
// name what the user wants and leave the rest.
#include <heddle/heddle.hpp>
#include <heddle/simulation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace heddle;

namespace {

[[maybe_unused]] void options() {
  static_cast<void>(ArrayType{.dtype = f64});
  static_cast<void>(BackendOptions{.strategy = DeviceStrategy::physical_devices_only});
  static_cast<void>(BackendOptions{.name = "cc"});
  static_cast<void>(BackendSpec{.mode = sched::Mode::inline_});
  static_cast<void>(CompileOptions{.fast_math = true});
  static_cast<void>(BatchOptions{.each = {.shared = false}});
  static_cast<void>(ContractionTile{.rows = 2});
  static_cast<void>(ScheduleOptions{.contain = true});
  static_cast<void>(TransferOptions{.after = {}});
  static_cast<void>(LinkOptions{.from_prior_context = {}});
  static_cast<void>(TraceOptions{.submits = true});
  static_cast<void>(SchedulerOptions{.pin_workers = true});
  static_cast<void>(SimulationOptions{.seed = 3});
  static_cast<void>(DataParallelRun{.report_every = 10});
  static_cast<void>(sched::DeviceOptions{.name = "io"});
  static_cast<void>(sched::SubmitOptions{.contain = true});
}

[[maybe_unused]] void parts(Scheduler& scheduler, const sched::TaskDevice& device) {
  const auto part = [](std::size_t /*from*/, std::size_t /*to*/) {};
  device.submit_parallel("rows", 10, part);
  device.submit_parallel("rows", 10, part, {.grain = 4});
  const Event rows = device.submit_parallel(
      "rows", 10, [](std::size_t from, std::size_t to) { return from < to ? Status() : Status(); });
  device.submit_parallel("rows", 10, part, {.grain = 2, .submit = {.after = {rows}}});
  scheduler.submit_any("any", [] {}, {.after = {rows}});
}

enum Row { first, second };

[[maybe_unused]] Program numbers(std::size_t n, unsigned m, std::uint8_t k, std::int64_t s) {
  const Tensor a("a", f32, {n, m}), b("b", f32, {m, 4}), c("c", u64, {n, k, s, 2u});
  Index i, j, l(n), q{m};
  const StaticIndex step("step", n);
  Program p("p");
  p << (a(l, q) = b(q, 2) * n + m - k / 2.0f + s) << (a(n - 1, q) += b(m - 1, k) * true);
  p << (a(k * i + n, j) = sum(b(j, l * m + 2u * step - n))) << (c(0, 0u, n, s) = n);
  p << (a(first, j) = b(second * i + 1, j) * second);
  return p;
}

[[maybe_unused]] void share(const Code& code, const StaticIndex& batch, const Tensor& t,
                            const std::vector<Context>& contexts) {
  const DataParallel run(contexts, {.gradient = code, .batch = batch, .sums = {t}, .update = code});
  run.run(0, 10);
  run.run(std::vector<std::int64_t>{3, 1}, {.loss = t});
}

[[maybe_unused]] void values(const Routine& routine, const StaticIndex& row, std::size_t n) {
  const std::int64_t cell = 2, both[] = {1, 2};
  routine.schedule();
  routine.schedule({}, {.contain = true});
  routine.schedule({{row, 3}});
  routine.schedule({{row, n}, {row, &cell}});
  routine.schedule({3});
  routine.schedule({3, n, &cell});
  routine.schedule(both);
  routine.prepare({{row, &cell}}).schedule();
  routine.prepare().schedule({.contain = true});
}

[[maybe_unused]] void host_work(const Device& device, const BufferView& view, const Event& event) {
  device.submit("read", {.reads = {view}}, [] {});
  device.submit("write", {.writes = {view}, .sync = Sync::check}, [] { return Status(); },
                {.after = {event}});
  device.submit("neither", [] {}, {.after = {event}});
}

struct Layer {
  std::vector<float> weight;
  std::vector<float> bias;
};
HEDDLE_TREE(Layer, weight, bias)
struct Nothing {};
HEDDLE_TREE(Nothing);
template <class T>
struct Stack {
  std::vector<T> layers;
  std::map<std::string, std::optional<T>> named;
};
template <class T>
HEDDLE_TREE(Stack<T>, layers, named)
struct Typed {
  ArrayType weight, bias;
};
HEDDLE_TREE(Typed, weight, bias)

[[maybe_unused]] Stack<std::string> trees_of(const Stack<ArrayType>& types) {
  static_cast<void>(flatten<std::vector<float>>(std::pair{Layer(), Nothing()}));
  const auto [def, leaves] = flatten<ArrayType>(types);
  static_cast<void>(unflatten<std::array<Typed, 2>>(def, leaves));
  visit_leaves<ArrayType>(types, [](const std::string&, const ArrayType&) {});
  return tree_map<ArrayType>(types, [](const ArrayType& type) { return type.to_string(); });
}

[[maybe_unused]] auto traced(const Stack<ArrayType>& types) {
  const auto sum = [](const Stack<Node>& stack, Node x) {
    for (const Node& layer : stack.layers) x = x + layer;
    return std::pair{x, stack};
  };
  const auto made = trace("sum", sum, types, ArrayType{f32, {2}});
  static_cast<void>(trace(sum, types, ArrayType{f32, {2}}));
  static_cast<void>(trace(std::string("ones"), [](const Graph& g) { return g.constant(1); }));
  static_assert(Traceable<decltype(sum), Stack<ArrayType>, ArrayType>);
  const auto leaves = made.flatten_arguments<int>(Stack<int>(), 3);
  return made.unflatten_results(leaves).second.layers;
}

}  // namespace
