// Executors: functions of arrays, called with arrays. A function is traced and compiled at its
// first call with arguments of new types, then only launched:
//
//   Executor predict(device, [](Node x, Node w, Node b) { return softmax(matmul(x, w) + b); });
//   Array y = predict(x, w, b);            // returns at once: y is being computed
//   state = step(donate(state), batch);    // in place
//
// A function takes and gives nodes (heddle/graph.hpp), or trees of them (heddle/tree.hpp), and may
// take its graph before them, as a const Graph&. It is called by each thread that needs it for new
// types, by several at once for different ones: it must be const. What it computes is fixed by the
// types of its arguments; values that it captured are constants of the graph.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/array.hpp"
#include "heddle/code.hpp"
#include "heddle/compiled.hpp"            // IWYU pragma: export
#include "heddle/executor_arguments.hpp"  // IWYU pragma: export
#include "heddle/executor_function.hpp"   // IWYU pragma: export
#include "heddle/executor_options.hpp"    // IWYU pragma: export
#include "heddle/replay.hpp"
#include "heddle/trace.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// A function that an Executor takes: see above. Where its parameters are not known before it is
/// called, as those of [](auto x), each call tells.
template <class F>
concept ExecutorFunction = executors::checked_function<F>();

/// How a call ended that does not throw.
template <class Results>
struct Tried {
  Status status;                   ///< ok: it was accepted
  std::optional<Results> results;  ///< then
  [[nodiscard]] explicit operator bool() const noexcept { return status.ok(); }
};
/// What Executor::traced() gives.
template <class Results>
struct CallWithGraph {
  Results results;
  ExecutorGraph graph;
};

/// The calls of an executor, on its own device or on the one of Executor::on(). Any thread may use
/// it.
template <class Function>
class ExecutorCalls {
 public:
  /// Calls the function with these: each an Array, a HostArray, a tree of either, donate(...) of a
  /// tree of Arrays, a number, or a std::vector, std::array or std::span of numbers (a row). A
  /// number has the type that it has in C++, but for a double, such as 0.5, which has no width of
  /// its own, as in graphs: it has the type of the floats that it is given with, and is f64 where
  /// there are none. Gives what the function gives, with an Array in the place of each Node;
  /// returns at once, and the Arrays come.
  ///
  /// Values of the host are copied before the call returns. Arrays may be unfinished; those of
  /// which the producer failed are refused, or fail these too, with its error.
  ///
  /// Throws, and then every argument is as before, but for what a logger and nan_check throw, which
  /// are asked at the end of the call: invalid_argument for arguments that do not fit;
  /// failed_precondition for arrays that were donated or did not come, and once it was finalised;
  /// device_failed for a device that failed; exhausted where the queue, the cache or the memory is
  /// full; and what the function and the compiler throw.
  template <class... Args>
  auto operator()(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>()) {
      if constexpr (!executors::have_values<Args...>()) {
        return;
      } else if constexpr (std::is_void_v<executors::ReturnedFor<Function, Args...>>) {
        static_cast<void>(call_with(nullptr, args...));
      } else {
        return call_with(nullptr, args...);
      }
    }
  }
  /// The same without trees: the leaves of all arguments, in order, and those of the results. For
  /// functions whose parameters are not generic, and either have a fixed number of leaves, or are
  /// one std::vector<Node>.
  [[nodiscard]] std::vector<Array> call(std::span<const Array> arguments) const {
    static_assert(executors::Parameters<Function>::known,
                  "heddle: call(span) needs a function whose parameters are not generic.");
    return call_flat(arguments, typename executors::Parameters<Function>::Types());
  }
  /// The same, with the graph that was launched.
  template <class... Args>
  auto traced(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>() &&
                  executors::have_values<Args...>()) {
      std::optional<ExecutorGraph> graph;
      auto results = call_with(&graph, args...);
      return CallWithGraph<decltype(results)>{std::move(results), std::move(*graph)};
    }
  }
  /// Records the call instead: each run of the recording computes it from what is in the arrays
  /// then, and leaves it in the memory of the results that this gives, which have no values before
  /// the first run (zeros). Values of the host, and of variables, are those of now. What would be
  /// donated, also to a variable that it updates, is refused as invalid_argument, as a run would
  /// take it once; nothing is told to loggers, nor looked at by nan_check. Throws as a call.
  template <class... Args>
  auto record(const Recording& recording, const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>() &&
                  executors::have_values<Args...>()) {
      executors::Kept<executors::ArraysFor<Function, Args...>> kept;
      executors::Arguments arguments;
      arguments.take(args...);
      core_.record(recording, arguments, executors::MakerOf<Function, Args...>(*function_, args...),
                   kept, on());
      return kept.give();
    }
  }
  /// What is compiled for arguments of these types, each an ArrayType, a tree of them, donate(...)
  /// of either, or what it is called with, which is left alone: now, if it was not yet. Calls that
  /// donate are served too; where 256 KiB or more are donated, donate(...) compiles what such calls
  /// run faster. Runs nothing. Throws as a call.
  template <class... Args>
  [[nodiscard]] auto compile(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>()) {
      executors::Arguments arguments;
      arguments.take(args...);
      using Results = executors::ArraysFor<Function, Args...>;
      return Compiled<Results>(
          core_, device_,
          core_.compile(arguments, executors::MakerOf<Function, Args...>(*function_, args...),
                        on()));
    }
  }
  /// The same, meanwhile. Cancelling it fails the calls that wait for it, too.
  template <class... Args>
  [[nodiscard]] auto compile_async(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>()) {
      executors::Arguments arguments;
      arguments.take(args...);
      using Maker = executors::LaterMaker<Function, executors::NodesFor<Args>...>;
      std::vector<TreeDef> structures{executors::Argument<Args>::def(args)...};
      return PendingCompiled<executors::ArraysFor<Function, Args...>>(
          core_, device_,
          core_.compile_async(
              arguments, std::make_shared<const Maker>(function_, std::move(structures)), on()));
    }
  }
  /// The same call, which gives what went wrong instead of throwing it.
  template <class... Args>
  auto try_call(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>() &&
                  executors::have_values<Args...>()) {
      using Results = executors::ArraysFor<Function, Args...>;
      try {
        return Tried<Results>{Status(), call_with(nullptr, args...)};
      } catch (...) {
        return Tried<Results>{executors::caught(), std::nullopt};
      }
    }
  }

 protected:
  ExecutorCalls(executors::Core core, std::shared_ptr<const Function> function,
                std::optional<Device> device = std::nullopt)
      : core_(std::move(core)), function_(std::move(function)), device_(std::move(device)) {}
  executors::Core core_;
  std::shared_ptr<const Function> function_;

 private:
  /// Null: the executor's own.
  [[nodiscard]] const Device* on() const noexcept { return device_ ? &*device_ : nullptr; }
  template <class... Args>
  auto call_with(std::optional<ExecutorGraph>* graph, const Args&... args) const {
    executors::Kept<executors::ArraysFor<Function, Args...>> kept;
    call_into(kept, graph, args...);
    return kept.give();
  }
  template <class... Args>
  void call_into(executors::Sink& sink, std::optional<ExecutorGraph>* graph,
                 const Args&... args) const {
    executors::Arguments arguments;
    arguments.take(args...);
    core_.call(arguments, executors::MakerOf<Function, Args...>(*function_, args...), sink, on(),
               graph);
  }
  template <class... P>
  std::vector<Array> call_flat(std::span<const Array> leaves, trees::Types<P...>) const {
    executors::Flat flat;
    if constexpr ((std::same_as<trees::Types<P...>, trees::Types<std::vector<Node>>>)) {
      call_into(flat, nullptr, std::vector<Array>(leaves.begin(), leaves.end()));
    } else {
      static_assert((executors::FixedTree<P>::is && ...),
                    "heddle: call(span) needs a function whose parameters have a fixed number of "
                    "nodes, or are one std::vector<Node>.");
      constexpr std::size_t count = (std::size_t{0} + ... + executors::FixedTree<P>::num_leaves);
      if (leaves.size() != count) core_.refuse_count(count, leaves.size());
      executors::FixedLeaves rest{leaves};
      std::tuple<executors::ArraysOf<P>...> trees{
          rest.template next<executors::ArraysOf<P>>()...};  // in this order
      std::apply([&](const auto&... each) { call_into(flat, nullptr, each...); }, trees);
    }
    return std::move(flat.results);
  }

  std::optional<Device> device_;
};

template <class Function>
class Executor;

/// An executor's calls on a device other than its own; see Executor::on().
template <class Function>
class ExecutorOn : public ExecutorCalls<Function> {
 private:
  friend class Executor<Function>;
  using ExecutorCalls<Function>::ExecutorCalls;
};

/// A shared handle; moving one copies it, so that none is ever empty. Any thread may use it. What
/// it compiled goes with the last handle, which waits for calls and compiles that are under way.
template <class Function>
class Executor : public ExecutorCalls<Function> {
 public:
  /// Throws invalid_argument for options that cannot be.
  Executor(const Device& device, Function function, ExecutorOptions options = {},
           std::source_location where = std::source_location::current())
      : ExecutorCalls<Function>(executors::Core(device, std::move(options), where),
                                std::make_shared<const Function>(std::move(function))) {
    constexpr bool is_function = executors::checked_function<Function>();
    static_assert(is_function);
  }
  /// The same, with a name that reads better before the function.
  Executor(const Device& device, std::string name, Function function, ExecutorOptions options = {},
           std::source_location where = std::source_location::current())
      : Executor(device, std::move(function), named(std::move(options), std::move(name)), where) {}
  Executor(const Executor&) = default;
  Executor& operator=(const Executor&) = default;

  /// All calls on another device, of any backend: results are its. Compiled for each backend once.
  [[nodiscard]] ExecutorOn<Function> on(const Device& device) const {
    return {core_, this->function_, device};
  }
  [[nodiscard]] const std::string& name() const noexcept { return core_.name(); }
  [[nodiscard]] const Device& device() const noexcept { return core_.device(); }
  [[nodiscard]] ExecutorStatistics statistics() const { return core_.statistics(); }
  /// Those of the cache, in the order in which they were made; the name of each has its number.
  [[nodiscard]] std::vector<ExecutorGraph> graphs() const { return core_.graphs(); }
  /// Waits for calls and compiles that are under way, and refuses later ones; tasks that were
  /// launched go on. Idempotent. Not inside of one of its own calls.
  void finalize() const { core_.finalize(); }

 private:
  static ExecutorOptions named(ExecutorOptions options, std::string name) {
    options.name = std::move(name);
    return options;
  }
  using ExecutorCalls<Function>::core_;
};

template <class Function>
Executor(const Device&, Function, ExecutorOptions = {}, std::source_location = {})
    -> Executor<Function>;
template <class Function>
Executor(const Device&, std::string, Function, ExecutorOptions = {}, std::source_location = {})
    -> Executor<Function>;

/// Calls a function once: what it compiles is kept by the kernel cache alone.
template <class Function, class... Args>
auto call_once(const executors::CalledOn& on, Function function, const Args&... args) {
  return Executor<Function>(on.device, std::move(function), ExecutorOptions(), on.where)(args...);
}

}  // namespace heddle
#pragma GCC visibility pop
