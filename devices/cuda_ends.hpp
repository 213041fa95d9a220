// What ended on one GPU: a thread asks for the marks of all its streams, and tells heddle. It
// spins for a while, and naps then, since no call of the driver waits for the first of several
// streams. It asks for errors too, after which the driver calls nobody.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "devices/cuda_gpu.hpp"
#include "devices/device.hpp"

namespace heddle::dev::cuda {

/// In memory of the host that the GPU reaches: what a kernel and the host tell each other while it
/// runs.
struct KernelCell {
  heddle_kernel_status status;
  std::uint32_t stop;
  std::uint32_t unused;
};

/// A kernel that was launched, and where it tells how it went.
struct Launched {
  KernelCell* cell;
  heddle_kernel_status* told;
  const std::uint32_t* stop;  ///< null, or what the host sets
  const std::string* name;    ///< its module has it
  std::uint64_t number;       ///< of all launches on this GPU
};

/// One queue's marks. Guarded by the lock of its Ends.
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
  /// Its own thread may let the last handle go.
  [[nodiscard]] static std::shared_ptr<Ends> make(std::shared_ptr<Gpu> gpu);
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  [[nodiscard]] Gpu& gpu() const noexcept { return *gpu_; }
  [[nodiscard]] std::shared_ptr<Line> open(Completions& completions);
  /// Waits for a call of its Completions that is under way in another thread.
  void close(const std::shared_ptr<Line>& line) noexcept;

  /// Some that no kernel has, at least one.
  [[nodiscard]] Status take_cells(std::vector<KernelCell*>& cells) noexcept;
  void give_back(std::span<KernelCell* const> cells) noexcept;
  /// Tells `number` when all that was issued into `stream` before has ended. Not ok: all of it has,
  /// and no mark of the line is told of any more. `launched` is taken in either case.
  [[nodiscard]] Status record(const std::shared_ptr<Line>& line, Stream stream,
                              std::uint64_t number, std::vector<Launched>& launched) noexcept;
  /// `stream` goes on after mark `number` of `line`.
  [[nodiscard]] Status wait(Stream stream, const Line& line, std::uint64_t number) noexcept;
  [[nodiscard]] std::uint64_t next_launch() noexcept {
    // relaxed: a count, which orders nothing.
    return launches_.fetch_add(1, std::memory_order_relaxed) + 1;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;
  explicit Ends(std::shared_ptr<Gpu> gpu);
  ~Ends();
  static void destroy(Ends* ends) noexcept;
  void run() noexcept;
  /// Asks for the marks of all lines, and tells those that ended; whether any has.
  bool look(Lock& lock) noexcept;
  bool look_at(const std::shared_ptr<Line>& line, Lock& lock) noexcept;
  void tell(const std::shared_ptr<Line>& line, std::uint64_t number, Status status,
            Lock& lock) noexcept;
  void pop_first(Line& line) noexcept;
  static void pass_stops_on(const Line::Mark& mark) noexcept;
  [[nodiscard]] Status lost_by(Result result) noexcept;
  /// Under the lock: an event that no mark has.
  [[nodiscard]] Status take_event(Event* event) noexcept;

  const std::shared_ptr<Gpu> gpu_;
  std::atomic<std::uint64_t> launches_{0};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Line>> lines_;
  std::shared_ptr<Line> told_now_;
  std::vector<Event> events_;  // that no mark has
  std::size_t num_events_ = 0;
  std::vector<KernelCell*> blocks_;  // of cells, as they were allocated
  std::vector<KernelCell*> cells_;   // that no queue has; room for all
  Status lost_;                      // the first error that the GPU does not recover from
  bool closed_ = false;
  bool detached_ = false;  // its own thread destroys it
  std::thread thread_;
};

}  // namespace heddle::dev::cuda
