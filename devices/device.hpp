// The device seam: heddle's interface to a kind of hardware. Has no notion of loop IR. A backend
// (heddle/backend.hpp), inside the library or outside, implements PhysicalDevice, Queue and, unless
// the host calls its kernels, Module. heddle implements Completions, for queues that run ahead.
//
// Any thread may use a PhysicalDevice. A Queue belongs to one virtual device: one thread at a time,
// in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "heddle/image.hpp"
#include "heddle/kernel.h"
#include "heddle/status.hpp"

#pragma GCC visibility push(default)
namespace heddle::dev {

/// Memory space of the host: buffers there may be read in place.
inline constexpr std::uint64_t host_memory_space = 0;

struct Properties {
  std::string name{};  ///< for people: "cpu"
  /// Devices of the same space can access each other's buffers. Copies between spaces other than
  /// the host's are staged through the host, except between peers.
  std::uint64_t memory_space = host_memory_space;
  std::uint64_t bytes_total = 0;  ///< bound for its virtual devices together; 0: unknown
  unsigned copy_engines = 0;      ///< extra virtual devices that are worthwhile to overlap copies
  unsigned parallel_width = 1;    ///< virtual devices that are worthwhile to fill the device
  /// True if several threads may call the host functions of its modules at once, for parts of a
  /// kernel.
  bool parts_at_once = false;
  /// Devices with the same code space share loaded modules; null: modules are private to this
  /// device.
  const void* code_space = nullptr;
  /// Not 0: the device's queues run ahead, and one thread reports the ends for all devices with the
  /// same domain. 0: operations are done when they return.
  std::uint64_t completion_domain = 0;
};

/// An image as loaded by a device, with the kernels that a queue launches. The image is unloaded
/// with the last handle; heddle holds a handle until launched kernels have ended. Any thread.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;
  /// The function of the image's kernel, if the host calls kernels; else null.
  [[nodiscard]] virtual heddle_kernel_function host_function(
      std::size_t /*kernel*/) const noexcept {
    return nullptr;
  }
};

struct LoadOptions {
  std::string name{};                 ///< name in messages and debuggers
  std::vector<std::string> labels{};  ///< names of the image's kernels for people; empty: none
  /// True to publish the names of kernels, LABEL#HASH, to profilers and debuggers: on a host
  /// through /tmp/perf-PID.map, and through the JIT interface of gdb.
  bool perf_map = false;
  /// Set: the image is written into this directory and loaded from there, where perf, gdb and
  /// objdump find the names of its functions. For debugging: a file can change after its check.
  std::filesystem::path library_dir{};
  std::filesystem::path temp_dir{};  ///< used where memory files cannot be loaded; empty: /tmp
};

/// Receives the ends of a queue that runs ahead. heddle makes a Completions for each queue and
/// keeps it until the queue is destroyed: the queue's destructor, perhaps on another thread, waits
/// for a running call, and reports no ends afterwards.
class Completions {
 public:
  /// The work up to record(number) has ended, and the work not yet reported has ended with
  /// `status`. A lost device reports the loss for all recorded work. Called in ascending order, by
  /// one thread of the domain, which holds no lock: the call runs the consequences of the ends,
  /// including user callbacks and destructors, and the queue, its module, memory and device may be
  /// destroyed before it returns.
  virtual void ended(std::uint64_t number, Status status) noexcept = 0;

 protected:
  ~Completions() = default;
};

class Queue;

/// The work issued to a queue before record(number).
struct Mark {
  Queue* queue;
  std::uint64_t number;
};

/// One in-order stream of operations on a device. If the device has a completion domain, operations
/// may return once issued: memory behind pointers, including pointers in `args`, then stays valid
/// until the first record() after the operation was reported. Pointers are addresses in the
/// device's memory space.
class Queue {
 public:
  virtual ~Queue() = default;
  [[nodiscard]] virtual Status zero(void* data, std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual Status from_host(void* data, const void* host,
                                         std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual Status to_host(void* host, const void* data,
                                       std::size_t bytes) noexcept = 0;
  /// Both addresses are in the same memory space, or one is in a peer's; they do not overlap.
  [[nodiscard]] virtual Status copy(void* to, const void* from, std::size_t bytes) noexcept = 0;
  /// The caller checks the kernel's result in args.status. `kernel` is the index of a kernel in the
  /// module's image. The module outlives launched kernels.
  [[nodiscard]] virtual Status launch(const Module& module, std::size_t kernel,
                                      const heddle_kernel_args& args) noexcept = 0;
  /// Completions receives `number` once all work issued before has ended, with the first failure
  /// since the previous number. Numbers ascend. A failed status: all unreported work up to `number`
  /// has ended with this status, and no longer accesses memory. Called only on queues that run
  /// ahead.
  [[nodiscard]] virtual Status record(std::uint64_t /*number*/) noexcept { return {}; }
  /// Later work begins after `mark`, recorded and perhaps already reported by a queue of the same
  /// completion domain, however the marked work ended; no host thread waits. The other queue exists
  /// until this call returns, and may be destroyed once `mark` was reported. A failed status:
  /// heddle waits itself, and then issues the work.
  [[nodiscard]] virtual Status wait(const Mark& /*mark*/) noexcept {
    return Status(ErrorCode::unavailable, "this queue waits for no other");
  }
};

/// Loads an image of kind host_image_kind() into this process, or of null_image_kind, checked
/// (Image::check()) and sealed: the checked bytes are the loaded ones. compile_failed: the image is
/// at fault; unavailable or exhausted: the system is, and another compile would not help.
[[nodiscard]] Status load_on_host(const Image& image, const LoadOptions& options,
                                  std::shared_ptr<const Module>* module) noexcept;

class PhysicalDevice {
 public:
  virtual ~PhysicalDevice() = default;
  [[nodiscard]] virtual const Properties& properties() const noexcept = 0;
  /// `bytes` (never 0) aligned to 64, contents undefined. `exhausted` if there is no memory.
  [[nodiscard]] virtual Status allocate(std::size_t bytes, void** data) noexcept = 0;
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
  /// Makes a queue for the tasks of one virtual device; each virtual device has a separate queue.
  /// `completions`: for queues that run ahead.
  [[nodiscard]] virtual Status new_queue(Completions& completions,
                                         std::unique_ptr<Queue>* queue) noexcept = 0;
  /// The failure after which the device runs nothing any more, and which only a new
  /// PhysicalDevice can be without; else ok. A virtual device of failed hardware does not recover.
  [[nodiscard]] virtual Status usable() noexcept { return {}; }
  /// True if the device's queues copy between its memory and the memory of `other`, a device of
  /// another memory space.
  [[nodiscard]] virtual bool is_peer_of(const PhysicalDevice& /*other*/) const noexcept {
    return false;
  }
  /// Loads the image in the form launched by the device. Called by any thread; while a module is
  /// held its image is not loaded again. Default: for devices whose kernels the host calls.
  [[nodiscard]] virtual Status load(const Image& image, const LoadOptions& options,
                                    std::shared_ptr<const Module>* module) noexcept {
    return load_on_host(image, options, module);
  }
};

/// PhysicalDevice::new_queue() for a queue whose construction only allocates memory.
template <class Q, class... Args>
[[nodiscard]] Status make_queue(std::unique_ptr<Queue>* queue, Args&&... args) noexcept {
  queue->reset(new (std::nothrow) Q(std::forward<Args>(args)...));
  return *queue ? Status() : Status(ErrorCode::exhausted, "no host memory for a queue");
}

/// A processor core: its memory is the host's, kernels run on the calling thread.
[[nodiscard]] std::shared_ptr<PhysicalDevice> make_cpu_device();
/// A device without kernels or copies: measures heddle's own cost, and serves as a double in tests.
[[nodiscard]] std::shared_ptr<PhysicalDevice> make_null_device();

}  // namespace heddle::dev
#pragma GCC visibility pop
