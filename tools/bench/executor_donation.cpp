// Executor calls that donate the state and receive the next state in the same memory: host time for
// a small state, and time for a large state against a loop that overwrites the state.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/executor.hpp"
#include "heddle/graph.hpp"
#include "heddle/routine.hpp"
#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/executor_rows.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/rival_python.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t few = 4;
constexpr std::int64_t large_elements = std::int64_t{64} << 20 >> 2;  // 64 MiB
constexpr std::size_t updates_together = 4;  // large updates between two waits

constexpr float kept = 0.999F, added = 0.001F;

struct Step {
  Node operator()(const Node& x) const { return x * kept + added; }
};

/// An executor's updates of an array with the given number of elements.
template <std::int64_t count>
class Updates {
 public:
  Updates() { update(); }

  [[nodiscard]] const Device& device() const { return device_; }
  void update() { state_ = step_(donate(state_)); }
  /// The result of an update of these values.
  [[nodiscard]] std::vector<float> updated(const HostArray& values) const {
    const Array state(device_, values);
    return step_(donate(state)).template values<float>();
  }

  [[nodiscard]] double time_calls(nanoseconds length, Samples& samples) {
    return time_host_side(length, samples, device_, [this] { update(); });
  }
  [[nodiscard]] double time_to_end(nanoseconds length, Samples& samples) {
    return timed_batches(length, updates_together, samples, [this](std::size_t calls) {
      for (std::size_t k = 0; k < calls; ++k) update();
      device_.await();
    });
  }
  /// The greatest additional memory in use during the updates, beyond the state.
  [[nodiscard]] double new_bytes() {
    device_.await();
    const std::uint64_t before = device_.statistics().bytes_in_use;
    for (std::size_t k = 0; k < 4 * updates_together; ++k) update();
    device_.await();
    return static_cast<double>(device_.statistics().bytes_peak - before);
  }

 private:
  Device device_ = new_device_on_worker();
  Executor<Step> step_{device_, "step", Step()};
  Array state_ = Array::zeros(device_, {f32, {count}});
};

/// The same by a routine that overwrites its tensor.
template <std::int64_t count>
class RoutineUpdates {
 public:
  RoutineUpdates() {
    routine_.context().write(x_, std::vector<float>(static_cast<std::size_t>(count), 0));
  }
  [[nodiscard]] double time_schedules(nanoseconds length, Samples& samples) const {
    return time_host_side(length, samples, device_, [this] { routine_.schedule(); });
  }
  [[nodiscard]] double time_to_end(nanoseconds length, Samples& samples) const {
    return timed_batches(length, updates_together, samples, [this](std::size_t calls) {
      for (std::size_t k = 0; k < calls; ++k) routine_.schedule();
      device_.await();
    });
  }

 private:
  [[nodiscard]] Routine link() const {
    Program program("step");
    const Index i;
    program << (x_(i) = x_(i) * kept + added);
    const BufferView memory(Buffer::allocate(device_, x_.type()), x_.type());
    return Context(device_).with(x_, memory).link(device_.backend().compile(program));
  }

  Device device_ = new_device_on_worker();
  Tensor x_{"x", f32, {count}};
  Routine routine_ = link();
};

/// The same number of elements updated by one thread, on the processor of the device's worker.
Contender plain_loop() {
  const auto values = std::make_shared<std::optional<HostArray>>();
  return {hand_written, Kind::limit, [values](nanoseconds length, Samples& samples) {
            if (!*values) values->emplace(HostArray::uniform(ArrayType{f32, {large_elements}}, 1));
            float* const x = (*values)->values<float>().data();
            return timed_on(worker_processor, [&] {
              return timed_batches(length, updates_together, samples, [&](std::size_t calls) {
                for (std::size_t k = 0; k < calls; ++k)
                  limit_update(static_cast<std::size_t>(large_elements), kept, added, x);
              });
            });
          }};
}

template <std::int64_t count>
void add_donating_frameworks(Against& against, const MadeOnce<Updates<count>>& updates,
                             const char* program) {
  for (const Alternative& each : framework_alternatives()) {
    against(framework_contender(
        each, [program] { return call_setup(program, 1, {count}); },
        [updates](const KernelSetup& setup) { return updates->updated(setup.arrays[0]); }));
  }
}

}  // namespace

void add_donation_rows(std::vector<Row>& rows) {
  if (compiling_backends().empty()) return;
  const MadeOnce<Updates<few>> small;
  const MadeOnce<RoutineUpdates<few>> small_routine;
  Against of_few(rows, {"donation",
                        "donated update, 16 B, host",
                        "call",
                        {"heddle", Kind::heddle,
                         [small](nanoseconds length, Samples& samples) {
                           return small->time_calls(length, samples);
                         }},
                        {}});
  of_few({"heddle, schedule", Kind::heddle, [small_routine](nanoseconds length, Samples& samples) {
            return small_routine->time_schedules(length, samples);
          }});
  add_donating_frameworks(of_few, small, "donated_call");
  rows.push_back(
      Gauge{"donation", "donated update, 16 B, allocations", "call", "heddle", Unit::count,
            [small] { return allocations_per_call(small->device(), [&] { small->update(); }); }});

  const MadeOnce<Updates<large_elements>> large;
  // Time alone would not reveal a doubled use of memory. Runs before the other rows, which make
  // more states on this device.
  rows.push_back(Gauge{"donation", "donated update, 64 MiB, new memory", "update", "heddle",
                       Unit::bytes, [large] { return large->new_bytes(); }});
  Against of_many(rows, {"donation",
                         "donated update, 64 MiB",
                         "update",
                         {"heddle", Kind::heddle,
                          [large](nanoseconds length, Samples& samples) {
                            return large->time_to_end(length, samples);
                          }},
                         {},
                         std::chrono::milliseconds(100)});
  of_many(plain_loop());
  const MadeOnce<RoutineUpdates<large_elements>> routine;
  of_many({"heddle, routine", Kind::heddle, [routine](nanoseconds length, Samples& samples) {
             return routine->time_to_end(length, samples);
           }});
  add_donating_frameworks(of_many, large, "donated_update");
}

}  // namespace heddle::bench
