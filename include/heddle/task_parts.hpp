// Tasks in parts: the queue's representation of a callable that receives index ranges, and the
// function that runs its parts.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "heddle/status.hpp"

#pragma GCC visibility push(default)
namespace heddle::sched {

/// The function that runs a part of a task, and the indices: [0, count).
struct Parts {
  std::size_t count;
  std::size_t grain;  ///< indices of every part but the last; 0: by the scheduler's width
  void* callable;
  /// Runs the part [from, to); called from several threads at once. May throw.
  Status (*run)(void* callable, std::size_t from, std::size_t to);
};

/// Runs the parts of the calling thread's current task, which must have no other parts. Returns the
/// task's end.
[[nodiscard]] Status run_parts(const Parts& parts);

/// A task that runs `callable` in parts.
template <class F>
struct PartsTask {
  F callable;
  std::size_t count;
  std::size_t grain;

  Status operator()() { return run_parts({count, grain, &callable, &run_part}); }

 private:
  static Status run_part(void* callable, std::size_t from, std::size_t to) {
    const F& f = *static_cast<const F*>(callable);
    if constexpr (std::is_void_v<std::invoke_result_t<const F&, std::size_t, std::size_t>>) {
      f(from, to);
      return {};
    } else {
      return f(from, to);
    }
  }
};

/// True for a null pointer or an empty std::function.
template <class F>
[[nodiscard]] bool is_empty(const F& f) {
  if constexpr (std::is_pointer_v<F>) {
    return f == nullptr;
  } else if constexpr (requires {
                         { f.operator bool() } -> std::same_as<bool>;
                       }) {
    return !static_cast<bool>(f);
  } else {
    return false;
  }
}

}  // namespace heddle::sched
#pragma GCC visibility pop
