// See cuda_ends.hpp.
#include "devices/cuda_ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace heddle::dev::cuda {
namespace {

using namespace std::chrono_literals;

// A thread that polls learns of an end within a microsecond; a napping thread leaves its processor
// to other threads, and learns of the end up to a nap later.
constexpr auto spins = 50us;
constexpr auto nap = 50us;
constexpr std::size_t cells_per_block = 256;

}  // namespace

Ends::Ends(std::shared_ptr<Gpu> gpu, bool check_each)
    : gpu_(std::move(gpu)), check_each_(check_each), thread_([this] { run(); }) {}

std::shared_ptr<Ends> Ends::make(std::shared_ptr<Gpu> gpu, bool check_each) {
  return {new Ends(std::move(gpu), check_each), &Ends::destroy};
}

void Ends::destroy(Ends* ends) noexcept {
  const bool by_itself = ends->thread_.get_id() == std::this_thread::get_id();
  {
    const std::lock_guard lock(ends->mutex_);
    ends->closed_ = true;
    ends->detached_ = by_itself;
    ends->changed_.notify_all();
  }
  if (by_itself) return ends->thread_.detach();
  ends->thread_.join();
  delete ends;
}

Ends::~Ends() {
  const Gpu::Current current(*gpu_);
  for (const Event event : events_) static_cast<void>(gpu_->driver().event_destroy(event));
  for (KernelCell* const block : blocks_) static_cast<void>(gpu_->driver().host_release(block));
}

std::shared_ptr<Line> Ends::open(Completions& completions) {
  auto line = std::make_shared<Line>();
  line->told = &completions;
  const std::lock_guard lock(mutex_);
  return lines_.emplace_back(std::move(line));
}

void Ends::close(const std::shared_ptr<Line>& line) noexcept {
  Lock lock(mutex_);
  std::erase(lines_, line);
  if (thread_.get_id() != std::this_thread::get_id())
    changed_.wait(lock, [&] { return told_now_ != line; });
  while (!line->marks.empty()) pop_first(*line);
}

Status Ends::make_cells() noexcept {
  const Gpu::Current current(*gpu_);
  void* data = nullptr;
  Status s = gpu_->status(gpu_->driver().host_allocate(&data, cells_per_block * sizeof(KernelCell),
                                                       host_memory_portable),
                          "cuMemHostAlloc", "making room for what kernels tell");
  if (!s.ok()) return s;
  auto* const block = static_cast<KernelCell*>(data);
  const std::lock_guard lock(mutex_);
  try {
    blocks_.reserve(blocks_.size() + 1);
    cells_.reserve((blocks_.size() + 1) * cells_per_block);
  } catch (const std::bad_alloc&) {
    static_cast<void>(gpu_->driver().host_release(block));
    return Status(ErrorCode::exhausted, "no host memory for what kernels tell");
  }
  blocks_.push_back(block);
  for (std::size_t k = 0; k < cells_per_block; ++k) cells_.push_back(block + k);
  return {};
}

Status Ends::take_cells(std::vector<KernelCell*>& cells) noexcept {
  constexpr std::size_t at_once = 32;
  try {
    cells.reserve(cells.size() + at_once);
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no host memory for what kernels tell");
  }
  Lock lock(mutex_);
  while (cells_.empty()) {
    // The lock is free meanwhile: the driver may wait for running kernels, which learn of stop
    // requests from the thread of Ends.
    lock.unlock();
    if (Status s = make_cells(); !s.ok()) return s;
    lock.lock();
  }
  for (std::size_t k = 0; k < at_once && !cells_.empty(); ++k) {
    cells.push_back(cells_.back());
    cells_.pop_back();
  }
  return {};
}

void Ends::give_back(std::span<KernelCell* const> cells) noexcept {
  const std::lock_guard lock(mutex_);
  cells_.insert(cells_.end(), cells.begin(), cells.end());
}

Status Ends::take_event(Event* event) noexcept {
  if (!events_.empty()) {
    *event = events_.back();
    events_.pop_back();
    return {};
  }
  try {
    events_.reserve(++num_events_);  // room for every event to return
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no host memory for a mark");
  }
  return gpu_->status(gpu_->driver().event_create(event, event_without_time), "cuEventCreate",
                      "marking");
}

Status Ends::record(const std::shared_ptr<Line>& line, Stream stream, std::uint64_t number,
                    std::vector<Launched>& launched) noexcept {
  Lock lock(mutex_);
  Event event = nullptr;
  Status s = lost_;
  if (s.ok()) s = take_event(&event);
  if (s.ok()) {
    s = gpu_->status(gpu_->driver().event_record(event, stream), "cuEventRecord", "marking");
    if (!s.ok()) events_.push_back(event);
  }
  if (s.ok()) {
    Line::Mark mark{number, event, std::exchange(launched, {})};
    try {
      line->marks.push_back(std::move(mark));
      changed_.notify_all();
      return {};
    } catch (const std::bad_alloc&) {
      launched = std::move(mark.launched);
      events_.push_back(event);
      s = Status(ErrorCode::exhausted, "no host memory for a mark");
    }
  }
  // All issued work must end before the return, because the caller keeps the memory of the work
  // only during the call. The lock is free meanwhile: running kernels learn of stop requests from
  // the thread of Ends.
  lock.unlock();
  static_cast<void>(gpu_->driver().stream_synchronize(stream));
  lock.lock();
  if (thread_.get_id() != std::this_thread::get_id())
    changed_.wait(lock, [&] { return told_now_ != line; });
  while (!line->marks.empty()) pop_first(*line);
  for (const Launched& each : launched) cells_.push_back(each.cell);
  launched.clear();
  return s;
}

Status Ends::wait(Stream stream, const Line& line, std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::lower_bound(line.marks, number, {}, &Line::Mark::number);
  if (at == line.marks.end()) return {};  // the mark was already reported
  return gpu_->status(gpu_->driver().stream_wait(stream, at->event, 0), "cuStreamWaitEvent",
                      "waiting for another queue");
}

/// Removes the first mark: copies the status words of its kernels to their launchers, and frees
/// cells and event.
void Ends::pop_first(Line& line) noexcept {
  Line::Mark& mark = line.marks.front();
  for (const Launched& each : mark.launched) {
    if (each.told != nullptr) *each.told = each.cell->status;
    cells_.push_back(each.cell);
  }
  events_.push_back(mark.event);
  line.marks.pop_front();
}

void Ends::tell(const std::shared_ptr<Line>& line, std::uint64_t number, Status status,
                Lock& lock) noexcept {
  told_now_ = line;
  lock.unlock();
  line->told->ended(number, std::move(status));
  lock.lock();
  told_now_ = nullptr;
  changed_.notify_all();
}

Status Ends::queried(Result result) const noexcept {
  return gpu_->status(result, "cuEventQuery", "looking for what ended");
}

/// Makes the error of a lost GPU, on which every later driver call returns the same result. Names
/// the kernel that is checked, else the oldest kernel that has not ended.
Status Ends::lost_by(Status cause) noexcept {
  if (checked_ != nullptr) return lost_in(*checked_, "the kernel that failed is", std::move(cause));
  const Launched* oldest = nullptr;
  for (const auto& line : lines_) {
    for (const Line::Mark& mark : line->marks) {
      for (const Launched& each : mark.launched)
        if (oldest == nullptr || each.number < oldest->number) oldest = &each;
    }
  }
  if (oldest == nullptr) return cause;
  return lost_in(*oldest, "the oldest kernel there that has not ended is", std::move(cause));
}

Status Ends::lost_in(const Launched& kernel, const char* which, Status cause) noexcept {
  return Status(
      ErrorCode::device_failed,
      [&] {
        return fmt::format("{} failed; {} '{}', launch {}", gpu_->name(), which, *kernel.name,
                           kernel.number);
      },
      std::move(cause));
}

void Ends::look_at_gpu() noexcept {
  if (!lost_.ok()) return;
  Event event = nullptr;
  if (Status s = take_event(&event); !s.ok()) {
    if (s.code() != ErrorCode::exhausted) lost_ = lost_by(std::move(s));
    return;
  }
  // No work is behind an unused event: its query succeeds, or returns the error of the GPU.
  const Result result = gpu_->driver().event_query(event);
  if (result != success && result != not_ready) lost_ = lost_by(queried(result));
  events_.push_back(event);
}

Status Ends::usable() noexcept {
  const Gpu::Current current(*gpu_);
  const Lock lock(mutex_);
  look_at_gpu();
  if (lost_.ok()) return {};
  return Status(
      ErrorCode::unavailable,
      [&] {
        return fmt::format(
            "{} runs nothing any more; close all backends that have the GPU, and open one again. "
            "Where the GPU is still refused, something else in this process uses it: start the "
            "process again",
            gpu_->name());
      },
      lost_);
}

Status Ends::finish(Stream stream, const Launched& launched,
                    const std::function<void()>& meanwhile) noexcept {
  const auto leave = [&] {
    // relaxed: pairs with the kernel's load of the word, which carries no other data.
    std::atomic_ref(launched.cell->untold).store(1, std::memory_order_relaxed);
  };
  Lock lock(mutex_);
  Event event = nullptr;
  if (Status s = lost_.ok() ? take_event(&event) : lost_; !s.ok()) {
    leave();
    return s;
  }
  if (check_each_) checked_ = &launched;
  Status marked = gpu_->status(gpu_->driver().event_record(event, stream), "cuEventRecord",
                               "waiting for a kernel");
  // Of an event that is not recorded, a query tells only whether the GPU is lost.
  Result result = marked.ok() ? not_ready : gpu_->driver().event_query(event);
  while (result == not_ready && lost_.ok()) {
    pass_stop_on(launched);
    lock.unlock();
    meanwhile();
    std::this_thread::yield();
    lock.lock();
    result = gpu_->driver().event_query(event);
  }
  if (result != success && lost_.ok()) lost_ = lost_by(queried(result));
  if (check_each_) checked_ = nullptr;
  events_.push_back(event);
  Status ended = lost_.ok() ? marked : lost_;
  lock.unlock();
  if (!ended.ok()) leave();
  meanwhile();
  return ended;
}

void Ends::pass_stop_on(const Launched& launched) noexcept {
  if (launched.stop == nullptr) return;
  const std::atomic_ref asked(const_cast<std::uint32_t&>(*launched.stop));
  const std::atomic_ref told(launched.cell->stop);
  // relaxed, both: pairs with the host's store and the kernel's load of the stop words, which carry
  // no other data; output of a stopped kernel is incomplete.
  told.store(asked.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

bool Ends::look_at(const std::shared_ptr<Line>& line, Lock& lock) noexcept {
  std::uint64_t number = 0;
  while (!line->marks.empty()) {
    const Line::Mark& first = line->marks.front();
    if (lost_.ok()) {
      const Result result = gpu_->driver().event_query(first.event);
      // The marks that ended well are reported before the failure.
      if (result == not_ready || (result != success && number != 0)) break;
      if (result != success) lost_ = lost_by(queried(result));
    }
    number = first.number;
    pop_first(*line);
  }
  if (!line->marks.empty()) std::ranges::for_each(line->marks.front().launched, pass_stop_on);
  if (number == 0) return false;
  tell(line, number, lost_, lock);
  return true;
}

bool Ends::look(Lock& lock) noexcept {
  const Gpu::Current current(*gpu_);
  // Lines come and go during a report; the next look covers new lines.
  bool any = false;
  for (std::size_t k = 0; k < lines_.size(); ++k) {
    const std::shared_ptr<Line> line = lines_[k];
    any = look_at(line, lock) || any;
  }
  return any;
}

void Ends::run() noexcept {
  Lock lock(mutex_);
  auto since = std::chrono::steady_clock::now();
  const auto none = [&] {
    return std::ranges::all_of(lines_, [](const auto& line) { return line->marks.empty(); });
  };
  while (!closed_) {
    if (none()) {
      changed_.wait(lock, [&] { return closed_ || !none(); });
      since = std::chrono::steady_clock::now();
    } else if (look(lock)) {
      since = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - since < spins) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      changed_.wait_for(lock, nap);
    }
  }
  const bool detached = detached_;
  lock.unlock();
  if (detached) delete this;
}

}  // namespace heddle::dev::cuda
