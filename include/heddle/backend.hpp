// Backends: a way to compile plus a way to run, opened by name. Shared handles, which moving
// copies, so that none is ever empty; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/code.hpp"
#include "heddle/device.hpp"
#include "heddle/kernel_cache.hpp"
#include "heddle/pending.hpp"
#include "heddle/profile.hpp"

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

/// What the environment sets unless given here; settings() lists its variables.
struct BackendOptions {
  std::string name{};  ///< empty: HEDDLE_BACKEND, else gccjit if it is available, else cc
  DeviceStrategy strategy = DeviceStrategy::physical_devices_only;
  std::optional<int> virtual_devices{};  ///< overrides the suggestion
  /// The host's own scheduler, or a Simulation's: runs the devices beside those that the host opens
  /// there. It stays the host's: the backend ends its own devices, and nothing else of it. Unset:
  /// the backend makes one, as `scheduling` says.
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
  /// Bytes that each virtual device may take, those kept for reuse included. All devices whose
  /// memory is the host's together stay within that of the machine, of its cgroups and RLIMIT_AS.
  std::optional<std::uint64_t> bytes_max{};
  std::optional<std::string> cc{};
  /// Added to those of the C compiler. Throws invalid_argument at opening for flags that change the
  /// instruction set (see `isa`); kernels are not cached with flags that may name files.
  std::optional<std::vector<std::string>> cflags{};
  std::optional<KernelProfile> kernels{};  ///< what schedules of kernels know of the machine
  std::optional<std::string> isa{};  ///< "portable", "avx2" or "avx512": at most the processor's
  std::optional<std::string> compile_helper{};
  /// What heddle's stages and the compiler may take for a program, together; of a batch, for each
  /// unit of up to four. What postponed code takes at link is a compile of its own: 60 s.
  std::optional<std::chrono::milliseconds> compile_timeout{};
  std::optional<std::string> temp_dir{};
  std::optional<std::string> dump_dir{};
  /// Whether the names of kernels go to /tmp/perf-PID.map, for perf, and are there for gdb.
  std::optional<bool> perf_map{};
  std::optional<bool> cache{};                     ///< whether compiled kernels are kept on disk
  std::optional<std::string> cache_dir{};          ///< where; must be this user's alone
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
  [[nodiscard]] static Backend open(std::string name);
  [[nodiscard]] static Backend open(BackendOptions options);
  /// Those that exist, and those that heddle knows but lacks here, with the reason. Asks each
  /// compiler what it is: one that is there but does not work is no more use than one that is not.
  [[nodiscard]] static std::vector<BackendInfo> list();

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] int num_physical_devices() const noexcept;
  /// The same device for the same ordinal. Throws invalid_argument naming the range.
  [[nodiscard]] Hardware physical_device(int ordinal) const;
  [[nodiscard]] int suggested_num_virtual_devices() const noexcept;
  /// Opens suggested virtual devices on each physical one, in order, never more than `max`.
  [[nodiscard]] std::vector<Device> all_devices(int max) const;

  [[nodiscard]] Code compile(const Program& program, const CompileOptions& options = {}) const;
  /// Compiles on all processors at once. When some fail, the error is that of the first in order.
  [[nodiscard]] CodeBatch compile_batch(std::span<const Program> programs,
                                        const BatchOptions& options = {}) const;
  /// The same, going on meanwhile, on as many threads as processors; the first call starts them.
  /// The programs are taken as they are now: errors in them are thrown here.
  [[nodiscard]] PendingCode compile_async(const Program& program,
                                          const CompileOptions& options = {}) const;
  [[nodiscard]] PendingBatch compile_batch_async(std::span<const Program> programs,
                                                 const BatchOptions& options = {}) const;
  // Devices of a backend whose mode is manual run in these, and in waits of threads that run no
  // task: see Scheduler, whose functions these are: other manual devices of a host's own scheduler
  // run here too. In other modes there is nothing for them to do.

  /// Runs tasks until none is ready, or `budget` is over. Whether there was one.
  bool poll(std::chrono::nanoseconds budget = std::chrono::nanoseconds::max()) const;
  /// Runs one task; waits up to `budget` for one to be ready. Whether there was one.
  bool run_one(std::chrono::nanoseconds budget = std::chrono::nanoseconds(0)) const;
  /// Readable while a device is ready, for the host's event loop; poll() makes it unreadable. Not
  /// to be closed. Throws Error(exhausted) without descriptors.
  [[nodiscard]] int descriptor() const;
  /// What its devices are at; of a host's own scheduler no others.
  [[nodiscard]] std::vector<sched::Snapshot> snapshot() const;
  /// What this open instance compiled, and what it found compiled.
  [[nodiscard]] KernelCacheCounters compile_counters() const noexcept;

  /// Finalises its devices and takes no more work (D13). A host's own scheduler goes on.
  /// Idempotent. Throws Error(deadline) as Device::finalize() does.
  void finalize(std::chrono::nanoseconds timeout = std::chrono::seconds(60)) const;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  explicit Backend(std::shared_ptr<rt::BackendState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<rt::BackendState> state_;
};

/// A row of the backend table (B5).
struct BackendSpec {
  std::string name{};
  std::string compiler{};  ///< "cc", "gccjit" or "null"
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
