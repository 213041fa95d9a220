// Ends: reports completed work of one GPU: a thread queries the marks (CUDA events) of all streams,
// and calls Completions. The thread spins for a while, and then naps, since no driver call waits
// for whichever of several streams ends first. Queries also detect errors, after which the driver
// runs no callbacks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "devices/cuda_gpu.hpp"
#include "devices/device.hpp"

namespace heddle::dev::cuda {

/// In host memory that the GPU can access: the words that a running kernel and the host exchange.
struct KernelCell {
  heddle_kernel_status status;
  std::uint32_t stop;
  std::uint32_t untold;  ///< not 0: the host takes no traced values any more
  std::uint64_t traced;  ///< address of a TraceRing's memory, or 0
};
static_assert(offsetof(KernelCell, traced) == 16);

/// A launched kernel, and the destination of its status.
struct Launched {
  KernelCell* cell;
  heddle_kernel_status* told;
  const std::uint32_t* stop;  ///< null, or the host's stop word
  const std::string* name;    ///< owned by its module
  std::uint64_t number;       ///< counts launches on the GPU
};

/// The marks of one queue that are not reported yet: CUDA events, recorded in the queue's stream.
/// Guarded by the lock of its Ends.
struct Line {
  struct Mark {
    std::uint64_t number;
    Event event;
    std::vector<Launched> launched;
  };
  Completions* told;
  std::deque<Mark> marks;
};

class Ends {
 public:
  /// The last handle may be released on the thread of Ends itself. `check_each`: one kernel runs at
  /// a time, and an error names the kernel that caused it.
  [[nodiscard]] static std::shared_ptr<Ends> make(std::shared_ptr<Gpu> gpu, bool check_each);
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  [[nodiscard]] Gpu& gpu() const noexcept { return *gpu_; }
  [[nodiscard]] std::shared_ptr<Line> open(Completions& completions);
  /// Waits for a running call of the line's Completions on another thread.
  void close(const std::shared_ptr<Line>& line) noexcept;

  /// Takes unused cells, at least one.
  [[nodiscard]] Status take_cells(std::vector<KernelCell*>& cells) noexcept;
  void give_back(std::span<KernelCell* const> cells) noexcept;
  /// Reports `number` when all work issued into `stream` before this call has ended. If the call
  /// fails, this work has ended, and the pending marks of the line are dropped without a report.
  /// `launched` is taken in either case.
  [[nodiscard]] Status record(const std::shared_ptr<Line>& line, Stream stream,
                              std::uint64_t number, std::vector<Launched>& launched) noexcept;
  /// `stream` continues after mark `number` of `line`.
  [[nodiscard]] Status wait(Stream stream, const Line& line, std::uint64_t number) noexcept;
  [[nodiscard]] std::uint64_t next_launch() noexcept {
    // relaxed: pairs with itself; a count that orders no memory.
    return launches_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  /// The error of a lost GPU, with what helps against it; ok for any other GPU.
  [[nodiscard]] Status usable() noexcept;
  /// Where each kernel is checked: a lock around its launch and finish(). Else no lock.
  [[nodiscard]] std::unique_lock<std::mutex> alone() noexcept {
    return check_each_ ? std::unique_lock(alone_) : std::unique_lock<std::mutex>();
  }
  [[nodiscard]] bool checks_each() const noexcept { return check_each_; }
  /// Waits for the end of the kernel just launched, and returns the error of the GPU, if it is
  /// lost. Calls `meanwhile` again and again, and once after the end, without the lock of Ends. An
  /// error of the mark that tells the end is returned while the kernel may run: its values are then
  /// lost.
  [[nodiscard]] Status finish(Stream stream, const Launched& launched,
                              const std::function<void()>& meanwhile) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  Ends(std::shared_ptr<Gpu> gpu, bool check_each);
  ~Ends();
  static void destroy(Ends* ends) noexcept;
  void run() noexcept;
  /// Queries the marks of every line, and reports the ended marks. Returns true if any mark was
  /// reported.
  bool look(Lock& lock) noexcept;
  bool look_at(const std::shared_ptr<Line>& line, Lock& lock) noexcept;
  void tell(const std::shared_ptr<Line>& line, std::uint64_t number, Status status,
            Lock& lock) noexcept;
  void pop_first(Line& line) noexcept;
  static void pass_stop_on(const Launched& launched) noexcept;
  /// Notes that the GPU is lost, if it is: a driver call returns the error, whatever it is about.
  void look_at_gpu() noexcept;
  [[nodiscard]] Status queried(Result result) const noexcept;
  [[nodiscard]] Status lost_by(Status cause) noexcept;
  [[nodiscard]] Status lost_in(const Launched& kernel, const char* which, Status cause) noexcept;
  [[nodiscard]] Status make_cells() noexcept;
  /// Called with the lock held: an unused event.
  [[nodiscard]] Status take_event(Event* event) noexcept;

  const std::shared_ptr<Gpu> gpu_;
  const bool check_each_;
  std::mutex alone_;  // held while a kernel is launched and checked
  std::atomic<std::uint64_t> launches_{0};
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Line>> lines_;
  std::shared_ptr<Line> told_now_;
  const Launched* checked_ = nullptr;  // the kernel that runs alone
  std::vector<Event> events_;          // unused
  std::size_t num_events_ = 0;
  std::vector<KernelCell*> blocks_;  // blocks of cells, as allocated
  std::vector<KernelCell*> cells_;   // unused by any queue; has room for every cell
  Status lost_;                      // the first unrecoverable error of the GPU
  bool closed_ = false;
  bool detached_ = false;  // destroyed on its own thread
  std::thread thread_;
};

}  // namespace heddle::dev::cuda
