// Executors: functions of arrays, called with arrays. The first call with arguments of new types
// traces and compiles the function; later calls only launch the compiled code:
//
//   Executor predict(device, [](Node x, Node w, Node b) { return softmax(matmul(x, w) + b); });
//   Array y = predict(x, w, b);            // returns at once: y is being computed
//   state = step(donate(state), batch);    // in place
//
// The function takes and returns nodes (heddle/graph.hpp) or trees of nodes (heddle/tree.hpp). A
// const Graph& parameter may come first: the graph being traced. Any thread that calls with new
// types calls the function, and several threads may do so concurrently for different types: the
// function must be const. The types of the arguments fix what the function computes; captured
// values are constants of the graph.
#pragma once

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
#include "heddle/compiled.hpp"  // IWYU pragma: export
#include "heddle/duration.hpp"
#include "heddle/executor_arguments.hpp"  // IWYU pragma: export
#include "heddle/executor_function.hpp"   // IWYU pragma: export
#include "heddle/executor_options.hpp"    // IWYU pragma: export
#include "heddle/replay.hpp"
#include "heddle/trace.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// A function that an Executor takes: see above. If its parameter types are not known before a
/// call, as in [](auto x), every call is checked instead.
template <class F>
concept ExecutorFunction = executors::checked_function<F>();

/// The outcome of ExecutorCalls::try_call(), which returns errors instead of throwing them.
template <class Results>
struct Tried {
  Status status;                   ///< ok: the call was accepted
  std::optional<Results> results;  ///< set if the status is ok
  [[nodiscard]] explicit operator bool() const noexcept { return status.ok(); }
};
/// The result of ExecutorCalls::traced().
template <class Results>
struct CallWithGraph {
  Results results;
  ExecutorGraph graph;
};

/// The calls of an executor, on its own device or on the device given to Executor::on().
/// Thread-safe.
template <class Function>
class ExecutorCalls {
 public:
  /// Calls the function. An argument is an Array, a HostArray, a tree of either, donate(...) of a
  /// tree of Arrays, a number, or a row: a std::vector, std::array or std::span of numbers. A
  /// number keeps its C++ type. Only a double, such as 0.5, has no fixed width, as in graphs: a
  /// double takes the type of the floats among the arguments, or f64 if there are none. Returns the
  /// function's results, with an Array in place of every Node, without waiting for the Arrays to be
  /// computed.
  ///
  /// Host values are copied before the call returns. Argument Arrays may be unfinished. An Array
  /// whose producer failed makes the call throw or the results fail, with the producer's error.
  ///
  /// Throws invalid_argument for arguments that do not fit; failed_precondition for Arrays that
  /// were donated or whose computation did not run, and after finalize(); device_failed if the
  /// device has failed; exhausted if the queue, the cache or the memory is full; and any exception
  /// of the function and the compiler. A call that throws leaves every argument unchanged, unless
  /// the exception comes from a logger or from nan_check, which run at the end of the call.
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
  /// A call without trees: takes the leaves of the arguments, in order, and returns the leaves of
  /// the results. The function's parameters must not be generic, and must either have a fixed
  /// number of leaves or be one std::vector<Node>.
  [[nodiscard]] std::vector<Array> call(std::span<const Array> arguments) const {
    static_assert(executors::Parameters<Function>::known,
                  "heddle: call(span) needs a function whose parameters are not generic.");
    return call_flat(arguments, typename executors::Parameters<Function>::Types());
  }
  /// Like operator(); also returns the launched graph.
  template <class... Args>
  auto traced(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>() &&
                  executors::have_values<Args...>()) {
      std::optional<ExecutorGraph> graph;
      auto results = call_with(&graph, args...);
      return CallWithGraph<decltype(results)>{std::move(results), std::move(*graph)};
    }
  }
  /// Records the call instead of launching it. Every run of the recording reads the argument arrays
  /// as they are at the time of the run, and writes the returned arrays, which hold zeros before
  /// the first run. Host values and values of variables are read now. Throws invalid_argument for a
  /// donated argument and for a function that updates a variable: only one run could take the
  /// memory. Throws failed_precondition for an argument that a call outside of the recording is
  /// still filling: wait() for it first. A recorded call neither calls the logger nor checks with
  /// nan_check. Other errors are those of a call.
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
  /// The compiled function for arguments of these types; compiles now if the cache has no entry. An
  /// argument is an ArrayType, a tree of ArrayTypes, donate(...) of either, or any argument of a
  /// call, which stays untouched. The result also serves calls that donate; for donations of 256
  /// KiB or more, passing donate(...) here compiles a graph that runs faster for them. Runs
  /// nothing. Errors are those of a call.
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
  /// compile() in the background. Cancelling also fails calls that wait for the compile.
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
  /// Like operator(), but returns errors instead of throwing them.
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
  /// Null: the executor's own device.
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

/// Calls of an executor on a different device; see Executor::on().
template <class Function>
class ExecutorOn : public ExecutorCalls<Function> {
 private:
  friend class Executor<Function>;
  using ExecutorCalls<Function>::ExecutorCalls;
};

/// A shared handle; a move copies the handle, so no handle is ever empty. Thread-safe. The compiled
/// code is released with the last handle, whose destruction waits for calls and compiles in
/// progress.
template <class Function>
class Executor : public ExecutorCalls<Function> {
 public:
  /// Throws invalid_argument for invalid options.
  Executor(const Device& device, Function function, ExecutorOptions options = {},
           std::source_location where = std::source_location::current())
      : ExecutorCalls<Function>(executors::Core(device, std::move(options), where),
                                std::make_shared<const Function>(std::move(function))) {
    constexpr bool is_function = executors::checked_function<Function>();
    static_assert(is_function);
  }
  /// Takes the name before the function, for readability.
  Executor(const Device& device, std::string name, Function function, ExecutorOptions options = {},
           std::source_location where = std::source_location::current())
      : Executor(device, std::move(function), named(std::move(options), std::move(name)), where) {}
  Executor(const Executor&) = default;
  Executor& operator=(const Executor&) = default;

  /// Calls on another device, of any backend; the results are arrays of that device. The function
  /// is compiled once for each backend.
  [[nodiscard]] ExecutorOn<Function> on(const Device& device) const {
    return {core_, this->function_, device};
  }
  [[nodiscard]] const std::string& name() const noexcept { return core_.name(); }
  [[nodiscard]] const Device& device() const noexcept { return core_.device(); }
  [[nodiscard]] ExecutorStatistics statistics() const { return core_.statistics(); }
  /// The graphs in the cache, oldest first; the name of a graph contains its number.
  [[nodiscard]] std::vector<ExecutorGraph> graphs() const { return core_.graphs(); }
  /// Waits for calls and compiles in progress, and refuses later ones; launched tasks continue.
  /// Idempotent. Must not be called inside a call of the same executor.
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

/// Calls a function once; only the kernel cache keeps the compiled code.
template <class Function, class... Args>
auto call_once(const executors::CalledOn& on, Function function, const Args&... args) {
  return Executor<Function>(on.device, std::move(function), ExecutorOptions(), on.where)(args...);
}

}  // namespace heddle
#pragma GCC visibility pop
