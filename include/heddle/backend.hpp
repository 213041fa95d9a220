// Backends: a way to compile plus a way to run, opened by name. Backend is a shared handle; moving
// one copies it, so that none is ever empty. Any thread may use it.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/code.hpp"
#include "heddle/device.hpp"
#include "heddle/kernel_cache.hpp"
#include "heddle/missing_order.hpp"
#include "heddle/pending.hpp"
#include "heddle/profile.hpp"
#include "heddle/tune.hpp"

#pragma GCC visibility push(default)
namespace heddle {

namespace dev {
class PhysicalDevice;  // heddle/devices/device.hpp
}

/// How many virtual devices suggested_num_virtual_devices() proposes per physical one.
enum class DeviceStrategy : std::uint8_t {
  physical_devices_only,  ///< 1
  for_parallel_copying,   ///< 1 + copy engines
  most_parallel_devices,  ///< the device's parallel width
};

/// The most virtual devices per physical one that suggested_num_virtual_devices() may be told to
/// propose: each may have a thread of its own.
inline constexpr int virtual_devices_max = 4096;

/// BackendOptions::width: as many processors as the process may use; and one each, with those that
/// are free.
inline constexpr int width_all = -1;
inline constexpr int width_automatic = -2;

/// How a backend is opened. What is not given here comes from the environment, whose variables
/// settings() lists.
struct BackendOptions {
  std::string name{};  ///< empty: HEDDLE_BACKEND's, else gccjit where it is available, else cc
  DeviceStrategy strategy = DeviceStrategy::physical_devices_only;
  /// What suggested_num_virtual_devices() says, whatever the strategy: 1 to virtual_devices_max.
  std::optional<int> virtual_devices{};
  /// The host's own scheduler, or a Simulation's, which then runs the backend's devices beside
  /// those that the host opens there. It stays the host's: the backend ends its own devices, and
  /// nothing else of it. Unset: the backend makes one, as `scheduling` says.
  std::optional<Scheduler> scheduler{};
  /// How the backend makes a scheduler: workers, pinning, watchdog, profile. Beside `scheduler`,
  /// which was made with its own, they are invalid_argument. `scheduling.device` is what the
  /// devices have on either: queue, policy of a full one (schedules and transfers may ask for
  /// another), recorded sites, spinning. Names are the backend's own. With `pin_workers`, devices
  /// that have a thread of their own are bound to processors too, those of physical device k to the
  /// k-th that the process may use.
  SchedulerOptions scheduling{};
  /// Where tasks of the devices run (S15); unset: as the backend's row says (BackendSpec::mode).
  /// With a Simulation's scheduler it is `simulated`, and may stay unset.
  std::optional<sched::Mode> mode{};
  /// How many processors a physical device of a CPU backend has, on which its kernels run in parts
  /// where they are large enough; what they compute is the same, bit for bit. 1 to as many as the
  /// process may use, at most sched::width_max, or width_all; there are as many fewer physical
  /// devices. width_automatic:
  /// each has one, and where devices have threads of their own it borrows those on which no virtual
  /// device of the backend is open; where they are pooled, workers help that have nothing else to
  /// do. Inline, threads help only if a number says so. Manual, a number makes parts, which run in
  /// order where the host polls. With `scheduler`, what helps with its tasks in parts helps with
  /// kernels, too: automatic, on as many threads as it has for a task, and another number is
  /// invalid_argument, but for manual devices; those of a Simulation have SimulationOptions::width,
  /// or this. Manual, and with `scheduler`, HEDDLE_WIDTH has no effect. Unset: HEDDLE_WIDTH, else
  /// automatic.
  std::optional<int> width{};
  /// Lets `width` be more than there are, up to 64: for tests.
  bool oversubscribed = false;
  /// Order between its devices and others (D9); unset: HEDDLE_SYNC, else automatic.
  std::optional<Sync> sync{};
  /// Called for each order that Sync::check finds missing, once for the same two places and memory:
  /// in the call that submits the later use or, where that is known only later, in a call that
  /// submits, waits or polls once it has ended. What it throws goes to the log. Unset: a warning in
  /// the log.
  std::function<void(const MissingOrder&)> on_missing_order{};
  /// Bytes that each virtual device may take, with those that it keeps for reuse. Besides, all
  /// devices whose memory is the host's together take no more than the machine has and its cgroups
  /// and RLIMIT_AS allow.
  std::optional<std::uint64_t> bytes_max{};
  std::optional<std::string> cc{};  ///< command of the C compiler
  /// Flags for the C compiler, after heddle's own. Opening throws invalid_argument for those that
  /// change the instruction set (see `isa`). Where one may name a file, kernels are not cached.
  std::optional<std::vector<std::string>> cflags{};
  /// What the machine takes. Constants of schedules follow from it, and those of the scheduler that
  /// the backend makes, where `scheduling.profile` is what it is by default. Unset: what `heddle
  /// tune --machine` kept for this processor model in the folder of the kernel cache, if there is
  /// one and it is whole; else usual values. Results are the same with any (W2).
  std::optional<MachineProfile> machine{};
  /// Constants of schedules, in place of those that follow from `machine`.
  std::optional<KernelProfile> kernels{};
  /// What compiles do about tuning whose own options do not say; unset: HEDDLE_TUNE, else kept.
  std::optional<Tune> tune{};
  /// "portable", "avx2", "avx512", "avx512_vnni" or "avx512_bf16": at most the processor's.
  std::optional<std::string> isa{};
  std::optional<std::string> compile_helper{};  ///< path of the program heddle-compile
  /// The CUDA driver and NVRTC, its compiler, as the loader takes them: names or paths. Unset:
  /// HEDDLE_CUDA_DRIVER, else libcuda.so.1; HEDDLE_NVRTC, else that of the toolkit.
  std::optional<std::string> cuda_driver{}, nvrtc{};
  /// The time that heddle's stages and the compiler together may take for a program, or for each
  /// unit of up to four programs of a batch. Code that was postponed has 60 s when it is linked.
  std::optional<std::chrono::milliseconds> compile_timeout{};
  std::optional<std::string> temp_dir{};  ///< where compilers work
  std::optional<std::string> dump_dir{};  ///< keeps text and library of every compile; unset: none
  /// Whether the names of kernels go to /tmp/perf-PID.map, for perf, and are there for gdb.
  std::optional<bool> perf_map{};
  std::optional<bool> cache{};                     ///< whether compiled kernels are kept on disk
  std::optional<std::string> cache_dir{};          ///< where: an absolute path, this user's alone
  std::optional<std::uint64_t> cache_bytes_max{};  ///< least recently used kernels go first
};

/// A backend whose compiler answers, or why it cannot be used.
struct BackendInfo {
  std::string name{};
  Status status{};
  std::string compiler{};  ///< command and version as it tells them; empty where it cannot be used
};

class Backend {
 public:
  Backend(const Backend&) = default;
  Backend& operator=(const Backend&) = default;
  /// Throws invalid_argument for an unknown name (listing what exists) and for options that make no
  /// sense, unavailable for a backend that cannot be used here.
  [[nodiscard]] static Backend open();
  template <class Name>
    requires std::convertible_to<Name, std::string>
  [[nodiscard]] static Backend open(Name&& name) {
    return open_named(std::forward<Name>(name));
  }
  [[nodiscard]] static Backend open(BackendOptions options);
  /// Those that exist, and those that heddle knows but lacks here, with the reason. Asks each
  /// compiler what it is: one that is there but does not work is no more use than one that is not.
  [[nodiscard]] static std::vector<BackendInfo> list();

  [[nodiscard]] const std::string& name() const noexcept;
  /// The profile in use: see BackendOptions::machine.
  [[nodiscard]] const MachineProfile& machine() const noexcept;
  /// Missing orders that were told so far (BackendOptions::on_missing_order); 10,000 at most.
  [[nodiscard]] std::uint64_t missing_orders() const noexcept;
  [[nodiscard]] int num_physical_devices() const noexcept;
  /// How many processors each physical device has; width_automatic where each borrows those that
  /// are free.
  [[nodiscard]] int width() const noexcept;
  /// The same device for the same ordinal. Throws invalid_argument naming the range.
  [[nodiscard]] Hardware physical_device(int ordinal) const;
  [[nodiscard]] int suggested_num_virtual_devices() const noexcept;
  /// Opens suggested_num_virtual_devices() on each physical device, in order, but no more than
  /// `max` in all, which is 1 or more (invalid_argument).
  [[nodiscard]] std::vector<Device> all_devices(int max) const;

  [[nodiscard]] Code compile(const Program& program, const CompileOptions& options = {}) const;
  /// Compiles on all processors at once. When some fail, the error is that of the first in order.
  [[nodiscard]] CodeBatch compile_batch(std::span<const Program> programs,
                                        const BatchOptions& options = {}) const;
  /// compile() and compile_batch() that return at once; as many threads as processors, which the
  /// first call starts, do the work. The programs are taken as they are now: errors in them are
  /// thrown here.
  [[nodiscard]] PendingCode compile_async(const Program& program,
                                          const CompileOptions& options = {}) const;
  [[nodiscard]] PendingBatch compile_batch_async(std::span<const Program> programs,
                                                 const BatchOptions& options = {}) const;

  /// Measures choices of the schedule that the cost model finds about as good as its own, on a
  /// virtual device that it opens on physical device 0 for that time, and keeps the best for this
  /// program (as `options` compile it) and machine in the folder of the kernel cache: compiles
  /// take it from then on, in other processes too, as TuneOptions::mode says. Beside it this
  /// backend, too, takes it where it cannot be kept. Static indices are 0, and contents random,
  /// but for tensors with host storage. Measures anew whatever was kept; `options.tune.mode` does
  /// not matter. Throws what compiling and running the model's choice throw, invalid_argument for
  /// a budget that is not above 0, and failed_precondition for what has no choices
  /// (Schedule::off, trace_values, CompileOptions::choices) and in simulations.
  [[nodiscard]] TunedSchedule tune(const Program& program,
                                   const CompileOptions& options = {}) const;
  /// What compile() with these options takes without measuring: what was kept for the program;
  /// nullopt: nothing, or they say Tune::off, or leave nothing to choose. Throws what describing
  /// throws. A file that is not used is a warning in the log.
  [[nodiscard]] std::optional<TunedSchedule> tuned(const Program& program,
                                                   const CompileOptions& options = {}) const;

  // A backend whose mode is manual runs its devices in the next three functions, and in waits of
  // threads that run no task for events of its Scheduler: what these wait for elsewhere is not run
  // meanwhile. The functions are those of its Scheduler: where that is the host's own, its other
  // manual devices run here too. In other modes they find nothing to do.

  /// Runs tasks until none is ready, or `budget` is over; whether there was one.
  bool poll(std::chrono::nanoseconds budget = std::chrono::nanoseconds::max()) const;
  /// Runs one task, and waits up to `budget` for one to be ready; whether there was one.
  bool run_one(std::chrono::nanoseconds budget = std::chrono::nanoseconds(0)) const;
  /// A descriptor that is readable while a device is ready, for the host's event loop; poll() makes
  /// it unreadable. The backend's own: not to be closed. Throws Error(exhausted) where there is
  /// none.
  [[nodiscard]] int descriptor() const;
  /// What its devices are at; other devices of a host's own scheduler are left out.
  [[nodiscard]] std::vector<sched::Snapshot> snapshot() const;
  /// What this open instance compiled, and what it found compiled.
  [[nodiscard]] KernelCacheCounters compile_counters() const noexcept;

  /// Device::finalize() for all its devices, within one timeout; afterwards neither they nor the
  /// backend take anything new (D13). A host's own scheduler goes on. Idempotent. Throws
  /// Error(deadline) as Device::finalize() does.
  void finalize(std::chrono::nanoseconds timeout = std::chrono::seconds(60)) const;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  [[nodiscard]] static Backend open_named(std::string name);
  explicit Backend(std::shared_ptr<rt::BackendState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<rt::BackendState> state_;
};

/// What a backend is made of (B5).
struct BackendSpec {
  std::string name{};
  std::string compiler{};  ///< "cc", "gccjit", "nvrtc" or "null"
  /// Unless BackendOptions::mode says otherwise. manual: the host calls Backend::poll().
  sched::Mode mode = sched::Mode::threaded;
  std::function<std::vector<std::shared_ptr<dev::PhysicalDevice>>()> devices{};
};
/// Adds a backend for this process. Throws invalid_argument for a name that exists or a spec that
/// lacks a part.
void register_backend(BackendSpec spec);

/// The cache that the environment asks for, with the counters of all processes that have closed it.
/// Throws invalid_argument for malformed settings.
[[nodiscard]] KernelCacheInfo kernel_cache_info();

/// A setting from the environment, for people.
struct Setting {
  std::string name;
  std::string value;
  std::string source;  ///< "environment" or "default"
  std::string meaning;
};
/// All HEDDLE_ variables as they stand. Throws invalid_argument naming variable, value and what was
/// expected.
[[nodiscard]] std::vector<Setting> settings();

}  // namespace heddle
#pragma GCC visibility pop
