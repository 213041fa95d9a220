// Backends: a compiler and a set of devices, opened by name. Backend is a shared handle; a move
// copies the handle, so no handle is ever empty. Thread-safe.
#pragma once

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
#include "heddle/duration.hpp"
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

/// The number of virtual devices per physical device that suggested_num_virtual_devices() proposes.
enum class DeviceStrategy : std::uint8_t {
  physical_devices_only,  ///< 1
  for_parallel_copying,   ///< 1 + copy engines
  most_parallel_devices,  ///< the device's parallel width
};

/// The largest value of BackendOptions::virtual_devices. Virtual devices may need a thread of their
/// own.
inline constexpr int virtual_devices_max = 4096;

/// Values of BackendOptions::width: as many processors as the process may use; and one processor
/// per device, plus borrowed free processors.
inline constexpr int width_all = -1;
inline constexpr int width_automatic = -2;

/// How a backend is opened. Unset options come from the environment, whose variables settings()
/// lists.
struct BackendOptions {
  std::string name{};  ///< empty: HEDDLE_BACKEND's, else gccjit if available, else cc
  DeviceStrategy strategy = DeviceStrategy::physical_devices_only;
  /// The value of suggested_num_virtual_devices(), whatever the strategy: 1 to virtual_devices_max.
  std::optional<int> virtual_devices{};
  /// The scheduler that runs the backend's devices: the host's own or a Simulation's, next to
  /// devices that the host opens there. The scheduler remains the host's: the backend shuts down
  /// its own devices only. Unset: the backend makes a scheduler as `scheduling` says.
  std::optional<Scheduler> scheduler{};
  /// How the backend makes a scheduler: workers, pinning, watchdog, profile. invalid_argument
  /// together with `scheduler`, which was made with options already. `scheduling.device` applies to
  /// the devices in either case: queue size, full-queue policy (schedules and transfers may
  /// override it), recorded sites, spinning. The backend chooses the names. With `pin_workers`,
  /// devices with a thread of their own are bound to processors too: the devices of physical device
  /// k to the k-th processor that the process may use.
  SchedulerOptions scheduling{};
  /// Where tasks of the devices run (S15). Unset: the mode of the backend's registration
  /// (BackendSpec::mode). With a Simulation's scheduler the mode is `simulated`, and may stay
  /// unset.
  std::optional<sched::Mode> mode{};
  /// The number of processors of a physical device of a CPU backend. Large kernels run in parts on
  /// these processors; results are the same, bit for bit. 1 to the number of processors that the
  /// process may use, at most sched::width_max, or width_all; a width of n gives one physical
  /// device per n processors.
  ///
  /// width_automatic: a device has one processor. Devices with threads of their own also borrow
  /// processors on which no virtual device of the backend is open; idle workers help pooled
  /// devices. Inline, threads help only if a number is given. Manual, a number cuts kernels into
  /// parts, which run in order where the host polls.
  ///
  /// With `scheduler`, the threads that run parts of its tasks also run parts of kernels: automatic
  /// uses as many threads as the scheduler uses for a task, and another number is invalid_argument,
  /// except for manual devices; devices of a Simulation use SimulationOptions::width, or this
  /// number. Manual, and with `scheduler`, HEDDLE_WIDTH has no effect. Unset: HEDDLE_WIDTH, else
  /// automatic.
  std::optional<int> width{};
  /// Allows a `width` above the number of processors, up to 64: for tests.
  bool oversubscribed = false;
  /// The order between uses on the backend's devices and on other devices (D9). Unset: HEDDLE_SYNC,
  /// else automatic.
  std::optional<Sync> sync{};
  /// Called for every order that Sync::check finds missing, once per pair of places and memory: in
  /// the call that submits the later use or, if the race is detected only later, in a call that
  /// submits, waits or polls after that use has ended. Exceptions of the callback go to the log.
  /// Unset: a warning in the log.
  std::function<void(const MissingOrder&)> on_missing_order{};
  /// A bound on the bytes of a virtual device, including memory kept for reuse. In addition,
  /// devices in host memory together never take more than the machine has and its cgroups and
  /// RLIMIT_AS allow.
  std::optional<std::uint64_t> bytes_max{};
  std::optional<std::string> cc{};  ///< command of the C compiler
  /// Flags for the C compiler, appended to heddle's own. Opening throws invalid_argument for flags
  /// that change the instruction set (see `isa`). If a flag may name a file, kernels are not
  /// cached.
  std::optional<std::vector<std::string>> cflags{};
  /// Measured costs of the machine. Constants of schedules follow from the profile, and so do
  /// constants of a scheduler that the backend makes, if `scheduling.profile` has its default
  /// value. Unset: the profile that `heddle tune --machine` stored for this processor model in the
  /// folder of the kernel cache, if it exists and is intact; else usual values. The profile never
  /// changes results (W2).
  std::optional<MachineProfile> machine{};
  /// Constants of schedules; override the constants derived from `machine`.
  std::optional<KernelProfile> kernels{};
  /// The default tuning mode of compiles. Unset: HEDDLE_TUNE, else kept.
  std::optional<Tune> tune{};
  /// "portable", "avx2", "avx512", "avx512_vnni" or "avx512_bf16"; the processor must support it.
  std::optional<std::string> isa{};
  std::optional<std::string> compile_helper{};  ///< path of the program heddle-compile
  /// The CUDA driver and its compiler NVRTC, as names or paths for the dynamic loader. Unset:
  /// HEDDLE_CUDA_DRIVER, else libcuda.so.1; HEDDLE_NVRTC, else the toolkit's NVRTC.
  std::optional<std::string> cuda_driver{}, nvrtc{};
  /// For finding faults: true: a GPU runs one kernel at a time, the device's thread waits for each
  /// kernel, and the error of a kernel that ends the GPU (for example an illegal address) names
  /// that kernel. Else such an error names the oldest kernel that has not ended. Unset:
  /// HEDDLE_CUDA_CHECK, else false.
  std::optional<bool> cuda_check_each{};
  /// A time limit for heddle's stages and the compiler together, per program, or per unit of up to
  /// four programs of a batch. Postponed code has 60 s when it is linked.
  std::optional<std::chrono::milliseconds> compile_timeout{};
  std::optional<std::string> temp_dir{};  ///< where compilers work
  std::optional<std::string> dump_dir{};  ///< stores text and library of every compile; unset: none
  /// true: the names of kernels are written to /tmp/perf-PID.map for perf, and registered with gdb.
  std::optional<bool> perf_map{};
  std::optional<bool> cache{};  ///< whether compiled kernels are stored on disk
  /// the cache's folder: an absolute path, private to this user
  std::optional<std::string> cache_dir{};
  /// the least recently used kernels are removed first
  std::optional<std::uint64_t> cache_bytes_max{};
};

/// A backend: its compiler's version, or why the backend is unavailable.
struct BackendInfo {
  std::string name{};
  Status status{};
  /// command and version as reported by the compiler; empty if unavailable
  std::string compiler{};
};

class Backend {
 public:
  Backend(const Backend&) = default;
  Backend& operator=(const Backend&) = default;
  /// Throws invalid_argument for an unknown name (listing the existing ones) and for invalid
  /// options, unavailable for a backend that cannot be used here.
  [[nodiscard]] static Backend open();
  template <class Name>
    requires std::convertible_to<Name, std::string>
  [[nodiscard]] static Backend open(Name&& name) {
    return open_named(std::forward<Name>(name));
  }
  [[nodiscard]] static Backend open(BackendOptions options);
  /// The available backends, and the known ones that are unavailable here, with the reason. Runs
  /// every compiler to ask for its version: a compiler that is installed but does not work is
  /// reported as unavailable.
  [[nodiscard]] static std::vector<BackendInfo> list();

  [[nodiscard]] const std::string& name() const noexcept;
  /// The profile in use: see BackendOptions::machine.
  [[nodiscard]] const MachineProfile& machine() const noexcept;
  /// The number of missing orders reported so far (BackendOptions::on_missing_order); 10,000 at
  /// most.
  [[nodiscard]] std::uint64_t missing_orders() const noexcept;
  [[nodiscard]] int num_physical_devices() const noexcept;
  /// The number of processors of every physical device; width_automatic if devices borrow free
  /// ones.
  [[nodiscard]] int width() const noexcept;
  /// Returns the same device for the same ordinal. Throws invalid_argument naming the range.
  [[nodiscard]] Hardware physical_device(int ordinal) const;
  [[nodiscard]] int suggested_num_virtual_devices() const noexcept;
  /// Opens suggested_num_virtual_devices() on every physical device, in order, up to `max` in
  /// total. `max` must be 1 or more (invalid_argument).
  [[nodiscard]] std::vector<Device> all_devices(int max) const;

  [[nodiscard]] Code compile(const Program& program, const CompileOptions& options = {}) const;
  /// Compiles on every processor at once. If several programs fail, throws the error of the first
  /// in order.
  [[nodiscard]] CodeBatch compile_batch(std::span<const Program> programs,
                                        const BatchOptions& options = {}) const;
  /// compile() and compile_batch() that return at once. The first call starts as many threads as
  /// there are processors, which do the work. The programs are copied in the call, which also
  /// throws their errors.
  [[nodiscard]] PendingCode compile_async(const Program& program,
                                          const CompileOptions& options = {}) const;
  [[nodiscard]] PendingBatch compile_batch_async(std::span<const Program> programs,
                                                 const BatchOptions& options = {}) const;

  /// Measures the schedule choices that the cost model rates about as good as its own, on a virtual
  /// device opened for that time on physical device 0, and stores the best one for this program (as
  /// `options` compile it) and machine in the folder of the kernel cache. Later compiles use the
  /// choice, in other processes too, as TuneOptions::mode says; this backend uses the choice even
  /// if storing fails. Static indices are 0; contents are random, except for tensors with host
  /// storage. Measures again even if a choice is stored; ignores `options.tune.mode`. Throws the
  /// errors of compiling and running the model's choice, invalid_argument for a budget that is not
  /// above 0, and failed_precondition if there is nothing to choose (Schedule::off, trace_values,
  /// CompileOptions::choices) and in simulations.
  [[nodiscard]] TunedSchedule tune(const Program& program,
                                   const CompileOptions& options = {}) const;
  /// The stored schedule for compile() with these options; nullopt if none is stored, if the
  /// options say Tune::off, or if they leave nothing to choose. Throws the errors of describing a
  /// program. A file that cannot be used is a warning in the log.
  [[nodiscard]] std::optional<TunedSchedule> tuned(const Program& program,
                                                   const CompileOptions& options = {}) const;

  // A backend in manual mode runs its devices inside the next three functions, and inside waits for
  // events of its Scheduler by threads that run no task; waits elsewhere run nothing. The functions
  // are those of the backend's Scheduler: a host's own Scheduler also runs the host's other manual
  // devices here. In other modes the functions do nothing.

  /// Runs tasks until none is ready or `budget` has passed; returns whether a task ran.
  bool poll(std::chrono::nanoseconds budget = std::chrono::nanoseconds::max()) const;
  /// Waits up to `budget` for a ready task and runs it; returns whether a task ran.
  bool run_one(std::chrono::nanoseconds budget = std::chrono::nanoseconds(0)) const;
  /// A file descriptor that is readable while a device is ready, for the host's event loop; poll()
  /// makes it unreadable. Owned by the backend: do not close it. Throws Error(exhausted) if no
  /// descriptor is available.
  [[nodiscard]] int descriptor() const;
  /// The state of the backend's devices; other devices of the host's scheduler are left out.
  [[nodiscard]] std::vector<sched::Snapshot> snapshot() const;
  /// Counts of units that this open instance compiled, and found compiled.
  [[nodiscard]] KernelCacheCounters compile_counters() const noexcept;

  /// Calls Device::finalize() for every device of the backend, within one timeout; afterwards the
  /// devices and the backend refuse new work (D13). The host's own scheduler continues. Idempotent.
  /// Throws Error(deadline) as Device::finalize() does.
  void finalize(std::chrono::nanoseconds timeout = std::chrono::seconds(60)) const;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  [[nodiscard]] static Backend open_named(std::string name);
  explicit Backend(std::shared_ptr<rt::BackendState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<rt::BackendState> state_;
};

/// The parts of a backend (B5).
struct BackendSpec {
  std::string name{};
  std::string compiler{};  ///< "cc", "gccjit", "nvrtc" or "null"
  /// The default mode, overridden by BackendOptions::mode. manual: the host calls Backend::poll().
  sched::Mode mode = sched::Mode::threaded;
  std::function<std::vector<std::shared_ptr<dev::PhysicalDevice>>()> devices{};
};
/// Registers a backend for this process. Throws invalid_argument for an existing name, and for a
/// spec that lacks a part.
void register_backend(BackendSpec spec);

/// The cache selected by the environment, with the counters of the processes that have closed the
/// cache. Throws invalid_argument for malformed settings.
[[nodiscard]] KernelCacheInfo kernel_cache_info();

/// A setting from the environment, as text for people.
struct Setting {
  std::string name;
  std::string value;
  std::string source;  ///< "environment" or "default"
  std::string meaning;
};
/// The current values of all HEDDLE_ variables. Throws invalid_argument naming the variable, its
/// value and the expected values.
[[nodiscard]] std::vector<Setting> settings();

}  // namespace heddle
#pragma GCC visibility pop
