// See parts.hpp.
#include "jit/code/parts.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "heddle/status.hpp"

namespace heddle::jit {

void Parts::work() noexcept {
  // relaxed: made before it is known whether there is anything to do; see over().
  working_.fetch_add(1, std::memory_order_relaxed);
  take_parts();
  // release: pairs with the load in over(): what this thread wrote is seen.
  working_.fetch_sub(1, std::memory_order_release);
}

bool Parts::over() const noexcept {
  // acquire: pairs with the end of work(); others' ends between lie in its release sequence.
  return working_.load(std::memory_order_acquire) == 0;
}

void Parts::rethrow_first() const {
  for (const std::exception_ptr& failure : failures_) {
    if (failure) std::rethrow_exception(failure);
  }
}

void Parts::take_parts() noexcept {
  // relaxed: numbers and a hint; what parts write is published by the end of this call.
  while (!failed_.load(std::memory_order_relaxed)) {
    // relaxed: each thread gets another number, no more (pairs with itself).
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
