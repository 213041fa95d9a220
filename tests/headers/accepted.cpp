// A program without a mistake: whatever warnings are on, there are none. Designated initialisers
// name what the user wants and leave the rest.
#include <heddle/heddle.hpp>
#include <heddle/simulation.hpp>

#include <cstddef>
#include <cstdint>

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
  static_cast<void>(sched::DeviceOptions{.name = "io"});
  static_cast<void>(sched::SubmitOptions{.contain = true});
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

}  // namespace
