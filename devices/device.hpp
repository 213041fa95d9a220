// The device seam: all that heddle asks of a kind of hardware. Knows no loop IR. A backend
// (heddle/backend.hpp), inside the library or outside, implements PhysicalDevice, Queue and, unless
// the host calls its kernels, Module. heddle implements Completions, for queues that run ahead.
//
// A PhysicalDevice may be used by any thread. A Queue belongs to one virtual device: one thread at
// a time, in order.
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
  /// Devices of one space can address each other's buffers. Between spaces other than the host's,
  /// copies are staged through the host, but for those of peers.
  std::uint64_t memory_space = host_memory_space;
  std::uint64_t bytes_total = 0;  ///< its virtual devices together take no more; 0: unknown
  unsigned copy_engines = 0;      ///< extra virtual devices worth having to overlap copies
  unsigned parallel_width = 1;    ///< virtual devices worth having to fill it
  /// Several threads may call the host functions of its modules at once, for parts of one kernel.
  bool parts_at_once = false;
  /// Devices that name the same one share the modules that one of them loaded; null: this one alone
  /// has them.
  const void* code_space = nullptr;
  /// Not 0: its queues run ahead, and devices that name the same one tell by one thread what ended.
  /// 0: operations are done when they return.
  std::uint64_t completion_domain = 0;
};

/// An image as a device has loaded it: what a queue launches. It unloads when the last handle goes;
/// heddle holds one until the kernels that it launched have ended. Any thread.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;
  /// The function of the image's kernel, where kernels are called by the host; else null.
  [[nodiscard]] virtual heddle_kernel_function host_function(
      std::size_t /*kernel*/) const noexcept {
    return nullptr;
  }
};

struct LoadOptions {
  std::string name{};                 ///< what messages and debuggers call it
  std::vector<std::string> labels{};  ///< names of the image's kernels for people; empty: none
  /// Whether names of kernels, LABEL#HASH, are told to profilers and debuggers: on a host by
  /// /tmp/perf-PID.map, and by the JIT interface of gdb.
  bool perf_map = false;
  /// Set: the image is written into this directory and loaded from there, where perf, gdb and
  /// objdump find the names of its functions. For debugging: a file can change after its check.
  std::filesystem::path library_dir{};
  std::filesystem::path temp_dir{};  ///< where memory cannot be loaded from; empty: /tmp
};

/// Told by a queue that runs ahead what has ended. heddle makes one for each queue, which it
/// outlives: a queue that is destroyed, perhaps by another thread, waits for a call that is under
/// way there, and tells nothing any more.
class Completions {
 public:
  /// All up to record(number) has ended, and what was not told of before has ended like this. A
  /// device that was lost tells that of all that was recorded. In ascending order, by one thread of
  /// the domain, which holds no lock: what follows from the ends happens here, users' callbacks and
  /// destructors among it, and the queue, its module, memory and device may go before it returns.
  virtual void ended(std::uint64_t number, Status status) noexcept = 0;

 protected:
  ~Completions() = default;
};

class Queue;

/// All that was asked of a queue before its record(number).
struct Mark {
  Queue* queue;
  std::uint64_t number;
};

/// One in-order stream of operations on a device. Where its device has a completion domain they may
/// return once issued: what pointers point to, those in `args` too, then stays until the next
/// record() after them was told of. Pointers are addresses in the device's memory space.
class Queue {
 public:
  virtual ~Queue() = default;
  [[nodiscard]] virtual Status zero(void* data, std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual Status from_host(void* data, const void* host,
                                         std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual Status to_host(void* host, const void* data,
                                       std::size_t bytes) noexcept = 0;
  /// Both in the same memory space, or one in that of a peer; they do not overlap.
  [[nodiscard]] virtual Status copy(void* to, const void* from, std::size_t bytes) noexcept = 0;
  /// What the kernel says in args.status is the caller's to look at.
  /// `kernel` numbers those of the module's image. The module outlives what is launched.
  [[nodiscard]] virtual Status launch(const Module& module, std::size_t kernel,
                                      const heddle_kernel_args& args) noexcept = 0;
  /// Completions is told `number` once all that was asked for before has ended: with the first
  /// failure since the number before. Numbers ascend. Not ok: all up to it that was not told of has
  /// ended like this, and touches no memory any more. Only queues that run ahead are asked.
  [[nodiscard]] virtual Status record(std::uint64_t /*number*/) noexcept { return {}; }
  /// What is asked for from here on begins after `mark`, which was recorded, perhaps told of, by a
  /// queue of the same completion domain, however that ended; nobody on the host waits. The other
  /// queue is there until this returns, and may go once `mark` was told of. Not ok: heddle waits
  /// itself, and then asks.
  [[nodiscard]] virtual Status wait(const Mark& /*mark*/) noexcept {
    return Status(ErrorCode::unavailable, "this queue waits for no other");
  }
};

/// Loads an image of kind host_image_kind() into this process, or one of null_image_kind, checked
/// (Image::check()) and sealed: what was checked is what is loaded. compile_failed: the image is at
/// fault; unavailable or exhausted: the system is, and compiling anew would not help.
[[nodiscard]] Status load_on_host(const Image& image, const LoadOptions& options,
                                  std::shared_ptr<const Module>* module) noexcept;

class PhysicalDevice {
 public:
  virtual ~PhysicalDevice() = default;
  [[nodiscard]] virtual const Properties& properties() const noexcept = 0;
  /// `bytes` (never 0) aligned to 64, contents undefined. `exhausted` when there are none.
  [[nodiscard]] virtual Status allocate(std::size_t bytes, void** data) noexcept = 0;
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
  /// Tasks of one virtual device use it; several such devices have one each. `completions`: for
  /// queues that run ahead.
  [[nodiscard]] virtual Status new_queue(Completions& completions,
                                         std::unique_ptr<Queue>* queue) noexcept = 0;
  /// Whether its queues copy between its memory and that of `other`, which is in another space.
  [[nodiscard]] virtual bool is_peer_of(const PhysicalDevice& /*other*/) const noexcept {
    return false;
  }
  /// The image as this device launches it. Called by any thread; while a module is held its image
  /// is not loaded again. Default: for devices whose kernels the host calls.
  [[nodiscard]] virtual Status load(const Image& image, const LoadOptions& options,
                                    std::shared_ptr<const Module>* module) noexcept {
    return load_on_host(image, options, module);
  }
};

/// PhysicalDevice::new_queue() for a queue that is made of memory alone.
template <class Q, class... Args>
[[nodiscard]] Status make_queue(std::unique_ptr<Queue>* queue, Args&&... args) noexcept {
  queue->reset(new (std::nothrow) Q(std::forward<Args>(args)...));
  return *queue ? Status() : Status(ErrorCode::exhausted, "no host memory for a queue");
}

/// A processor core: its memory is the host's, kernels run on the calling thread.
[[nodiscard]] std::shared_ptr<PhysicalDevice> make_cpu_device();
/// Runs nothing and copies nothing: for measuring what heddle itself costs, and as a double in
/// tests.
[[nodiscard]] std::shared_ptr<PhysicalDevice> make_null_device();

}  // namespace heddle::dev
#pragma GCC visibility pop
