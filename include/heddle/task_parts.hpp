// Tasks in parts: what a queue keeps of a callable that is given index ranges, and what runs it.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "heddle/status.hpp"

#pragma GCC visibility push(default)
namespace heddle::sched {

/// What runs a part of a task, and over which indices: [0, count).
struct Parts {
  std::size_t count;
  std::size_t grain;  ///< indices of each part but the last; 0: by the scheduler's width
  void* callable;
  /// Of the part [from, to); from several threads at once. May throw.
  Status (*run)(void* callable, std::size_t from, std::size_t to);
};

/// Runs all parts of the task that runs on the calling thread, which has no others; how the task
/// ends.
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

/// Whether there is nothing to call: a null pointer, an empty std::function.
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
