// See parts.hpp.
#include "jit/code/parts.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "heddle/status.hpp"

namespace heddle::jit {

void Parts::work() noexcept {
  // relaxed: counted before the thread looks for work; see over().
  working_.fetch_add(1, std::memory_order_relaxed);
  take_parts();
  // release: pairs with the load in over(): makes this thread's writes visible.
  working_.fetch_sub(1, std::memory_order_release);
}

bool Parts::over() const noexcept {
  // acquire: pairs with the end of work(); the ends of other threads in between belong to the same
  // release sequence.
  return working_.load(std::memory_order_acquire) == 0;
}

void Parts::rethrow_first() const {
  for (const std::exception_ptr& failure : failures_) {
    if (failure) std::rethrow_exception(failure);
  }
}

void Parts::take_parts() noexcept {
  // relaxed: numbers and a hint; the end of work() publishes the parts' writes.
  while (!failed_.load(std::memory_order_relaxed)) {
    // relaxed: pairs with itself; only gives each thread a different number.
    const std::size_t part = next_.fetch_add(1, std::memory_order_relaxed);
    if (part >= failures_.size()) return;
    try {
      each_(part);
    } catch (...) {
      failures_[part] = std::current_exception();
      // relaxed: see above.
      failed_.store(true, std::memory_order_relaxed);
    }
  }
}

void run_parts(std::size_t count, std::function<void(std::size_t)> each, const Spread& spread,
               std::string_view what) {
  if (count == 1) return each(0);
  const auto parts = std::make_shared<Parts>(count, std::move(each));
  spread(count, [parts] { parts->work(); });
  if (!parts->over()) {
    throw Error(ErrorCode::cancelled,
                fmt::format("the task that compiles {} was asked to stop before all parts were "
                            "compiled",
                            what));
  }
  parts->rethrow_first();
}

}  // namespace heddle::jit
