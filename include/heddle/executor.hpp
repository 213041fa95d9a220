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
#include "heddle/executor_options.hpp"    // IWYU pragma: export
#include "heddle/trace.hpp"

#pragma GCC visibility push(default)
namespace heddle {

namespace executors {

/// The parameters of a function, where its type tells them.
template <class F>
struct Parameters {
  static constexpr bool known = false;
};
template <class... P>
struct KnownParameters {
  static constexpr bool known = true;
  using Types = trees::Types<std::remove_cvref_t<P>...>;
};
template <class... P>
struct KnownParameters<const Graph&, P...> : KnownParameters<P...> {};
template <class... P>
struct KnownParameters<Graph, P...> : KnownParameters<P...> {};
template <class R, class... P>
struct Parameters<R (*)(P...)> : KnownParameters<P...> {};
template <class R, class... P>
struct Parameters<R (*)(P...) noexcept> : KnownParameters<P...> {};
template <class M>
struct OfMember;
template <class R, class C, class... P>
struct OfMember<R (C::*)(P...) const> : KnownParameters<P...> {};
template <class R, class C, class... P>
struct OfMember<R (C::*)(P...) const noexcept> : KnownParameters<P...> {};
template <class R, class C, class... P>
struct OfMember<R (C::*)(P...)> : KnownParameters<P...> {};
template <class R, class C, class... P>
struct OfMember<R (C::*)(P...) noexcept> : KnownParameters<P...> {};
template <class F>
  requires requires { &F::operator(); }
struct Parameters<F> : OfMember<decltype(&F::operator())> {};

template <class F, class... P>
constexpr bool takes(trees::Types<P...>) {
  return tracing::TakesNodes<const F, P...> || tracing::TakesGraph<const F, P...>;
}

/// Whether a function whose parameters are known can be an executor's; where it cannot, compilers
/// say why.
template <class F, class... P>
constexpr bool checked_parameters(trees::Types<P...> types) {
  static_assert((TreeOf<P, Node> && ...),
                "heddle: a function of an executor takes Nodes and trees of Nodes, by value or "
                "const reference; a const Graph& may come before them.");
  if constexpr ((TreeOf<P, Node> && ...)) {
    static_assert(takes<F>(types),
                  "heddle: a function of an executor is called by several threads at once: it "
                  "must be const, so a lambda must not be mutable.");
    if constexpr (takes<F>(types)) {
      using Results = typename tracing::Returned<const F, P...>::Type;
      static_assert(!std::is_void_v<Results>,
                    "heddle: a function of an executor returns a Node or a tree of Nodes; this "
                    "returns nothing.");
      if constexpr (!std::is_void_v<Results>) {
        static_assert(trees::Checked<Results, Node>::value);
        return TreeOf<Results, Node>;
      }
    }
  }
  return false;
}
template <class F>
constexpr bool checked_function() {
  if constexpr (Parameters<F>::known) {
    return checked_parameters<F>(typename Parameters<F>::Types());
  } else {
    return true;  // a generic function: its calls tell
  }
}

template <class T>
concept Given = Argument<std::remove_cvref_t<T>>::is;
template <class T>
using NodesOf = typename Argument<std::remove_cvref_t<T>>::Nodes;
template <class F, class... Args>
concept Takes = tracing::TakesNodes<const F, NodesOf<Args>...> ||
                tracing::TakesGraph<const F, NodesOf<Args>...>;

/// How the function is traced for such arguments on another thread, later.
template <class F, class... Nodes>
class LaterMaker final : public Maker {
 public:
  LaterMaker(std::shared_ptr<const F> function, std::vector<TreeDef> structures)
      : function_(std::move(function)), structures_(std::move(structures)) {}
  [[nodiscard]] TracedGraph trace(tracing::Tracer& tracer,
                                  std::span<const ArrayType> types) const override {
    std::size_t at = 0;
    std::tuple<Nodes...> nodes{tracer.template argument<Nodes>(structures_[at++], types)...};
    return std::apply(
        [&](auto&... node) -> TracedGraph { return tracer.trace(*function_, node...); }, nodes);
  }

 private:
  const std::shared_ptr<const F> function_;
  const std::vector<TreeDef> structures_;
};

template <class F, class... Args>
constexpr bool checked_call() {
  static_assert((Given<Args> && ...),
                "heddle: an executor is called with Arrays, HostArrays, trees of either, "
                "donate(...) of Arrays, numbers, and vectors or spans of numbers.");
  if constexpr ((Given<Args> && ...)) {
    static_assert((TreeOf<NodesOf<Args>, Node> && ...),
                  "heddle: a struct has Arrays, and cannot have nodes. Make it a template of its "
                  "leaves: template <class T> struct Dense { T weight; };");
    if constexpr ((TreeOf<NodesOf<Args>, Node> && ...)) {
      static_assert(Takes<F, Args...>,
                    "heddle: the executor's function does not take these arguments, with a Node in "
                    "the place of each Array, HostArray and number.");
      return Takes<F, Args...>;
    }
  }
  return false;
}
template <class F, class... Args>
using NodeResults = typename tracing::Returned<const F, NodesOf<Args>...>::Type;
template <class Results>
using ArraysOf = typename trees::MapLeaves<Node, Array>::template Of<Results>::Type;
template <class F, class... Args>
using ResultsOf = ArraysOf<NodeResults<F, Args...>>;

/// How the function is traced for the arguments of one call.
template <class F, class... Args>
class MakerOf final : public Maker {
 public:
  explicit MakerOf(const F& function, const Args&... args)
      : function_(function), arguments_(args...) {}
  [[nodiscard]] TracedGraph trace(tracing::Tracer& tracer,
                                  std::span<const ArrayType> types) const override {
    return std::apply(
        [&](const Args&... each) {
          std::tuple<NodesOf<Args>...> nodes{
              tracer.template argument<NodesOf<Args>>(Argument<Args>::def(each), types)...};
          return std::apply(
              [&](auto&... node) -> TracedGraph { return tracer.trace(function_, node...); },
              nodes);
        },
        arguments_);
  }

 private:
  const F& function_;
  std::tuple<const Args&...> arguments_;
};

}  // namespace executors

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

template <class Function>
class Executor;

/// An executor's calls on a device other than its own; see Executor::on().
template <class Function>
class ExecutorOn {
 public:
  /// As Executor's.
  template <class... Args>
  auto operator()(const Args&... args) const {
    return executor_.call_on(&device_, args...);
  }

 private:
  friend class Executor<Function>;
  ExecutorOn(const Executor<Function>& executor, Device device)
      : executor_(executor), device_(std::move(device)) {}
  Executor<Function> executor_;
  Device device_;
};

/// A shared handle; moving one copies it, so that none is ever empty. Any thread may use it. What
/// it compiled goes with the last handle, which waits for calls and compiles that are under way.
template <class Function>
class Executor {
 public:
  /// Throws invalid_argument for options that cannot be.
  Executor(const Device& device, Function function, ExecutorOptions options = {},
           std::source_location where = std::source_location::current())
      : core_(device, std::move(options), where),
        function_(std::make_shared<const Function>(std::move(function))) {
    static_assert(ExecutorFunction<Function>);
  }
  Executor(const Executor&) = default;
  Executor& operator=(const Executor&) = default;

  /// Calls the function with these: each an Array, a HostArray, a tree of either, donate(...) of a
  /// tree of Arrays, a number, or a std::vector or std::span of numbers (a row). Gives what the
  /// function gives, with an Array in the place of each Node; returns at once, and the Arrays come.
  ///
  /// Values of the host are copied before the call returns. Arrays may be unfinished; those of
  /// which the producer failed are refused, or fail these too, with its error.
  ///
  /// Throws, and then every argument is as before: invalid_argument for arguments that do not fit;
  /// failed_precondition for arrays that were donated or did not come, and once it was finalised;
  /// device_failed for a device that failed; exhausted where the queue, the cache or the memory is
  /// full; and what the function and the compiler throw.
  template <class... Args>
  auto operator()(const Args&... args) const {
    return call_on(nullptr, args...);
  }
  /// The same on another device, of any backend: results are its. Compiled for each backend once.
  [[nodiscard]] ExecutorOn<Function> on(const Device& device) const { return {*this, device}; }
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
    if constexpr (executors::checked_call<Function, Args...>()) {
      std::optional<ExecutorGraph> graph;
      auto results = call_with(nullptr, &graph, args...);
      return CallWithGraph<decltype(results)>{std::move(results), std::move(*graph)};
    }
  }
  /// What is compiled for arguments of these types, each an ArrayType or a tree of them, or what it
  /// is called with, which is left alone: now, if it was not yet. Runs nothing. Throws as a call.
  template <class... Args>
  [[nodiscard]] auto compile(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>()) {
      executors::Arguments arguments;
      (arguments.add(args), ...);
      using Results = executors::ResultsOf<Function, Args...>;
      return Compiled<Results>(
          core_,
          core_.compile(arguments, executors::MakerOf<Function, Args...>(*function_, args...)));
    }
  }
  /// The same, meanwhile. Cancelling it fails the calls that wait for it, too.
  template <class... Args>
  [[nodiscard]] auto compile_async(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>()) {
      executors::Arguments arguments;
      (arguments.add(args), ...);
      using Maker = executors::LaterMaker<Function, executors::NodesOf<Args>...>;
      std::vector<TreeDef> structures{executors::Argument<Args>::def(args)...};
      return PendingCompiled<executors::ResultsOf<Function, Args...>>(
          core_, core_.compile_async(
                     arguments, std::make_shared<const Maker>(function_, std::move(structures))));
    }
  }
  /// The same call, which gives what went wrong instead of throwing it.
  template <class... Args>
  auto try_call(const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>()) {
      using Results = executors::ResultsOf<Function, Args...>;
      try {
        return Tried<Results>{Status(), call_with(nullptr, nullptr, args...)};
      } catch (...) {
        return Tried<Results>{executors::caught(), std::nullopt};
      }
    }
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
  friend class ExecutorOn<Function>;

  template <class... Args>
  auto call_on(const Device* device, const Args&... args) const {
    if constexpr (executors::checked_call<Function, Args...>()) {
      static_assert((executors::Argument<Args>::has_values && ...),
                    "heddle: types have no values: compile() takes them, a call does not.");
      if constexpr ((executors::Argument<Args>::has_values && ...))
        return call_with(device, nullptr, args...);
    }
  }
  template <class... Args>
  auto call_with(const Device* device, std::optional<ExecutorGraph>* graph,
                 const Args&... args) const {
    executors::Kept<executors::ResultsOf<Function, Args...>> kept;
    call_into(kept, device, graph, args...);
    return kept.give();
  }
  template <class... Args>
  void call_into(executors::Sink& sink, const Device* device, std::optional<ExecutorGraph>* graph,
                 const Args&... args) const {
    executors::Arguments arguments;
    (arguments.add(args), ...);
    core_.call(arguments, executors::MakerOf<Function, Args...>(*function_, args...), sink, device,
               graph);
  }
  template <class... P>
  std::vector<Array> call_flat(std::span<const Array> leaves, trees::Types<P...>) const {
    executors::Flat flat;
    if constexpr ((std::same_as<trees::Types<P...>, trees::Types<std::vector<Node>>>)) {
      call_into(flat, nullptr, nullptr, std::vector<Array>(leaves.begin(), leaves.end()));
    } else {
      static_assert((executors::FixedTree<P>::is && ...),
                    "heddle: call(span) needs a function whose parameters have a fixed number of "
                    "nodes, or are one std::vector<Node>.");
      constexpr std::size_t count = (std::size_t{0} + ... + executors::FixedTree<P>::num_leaves);
      if (leaves.size() != count) core_.refuse_count(count, leaves.size());
      executors::FixedLeaves rest{leaves};
      std::tuple<executors::ArraysOf<P>...> trees{
          rest.template next<executors::ArraysOf<P>>()...};  // in this order
      std::apply([&](const auto&... each) { call_into(flat, nullptr, nullptr, each...); }, trees);
    }
    return std::move(flat.results);
  }

  executors::Core core_;
  std::shared_ptr<const Function> function_;
};

template <class Function>
Executor(const Device&, Function, ExecutorOptions = {}, std::source_location = {})
    -> Executor<Function>;

/// Calls a function once: what it compiles is kept by the kernel cache alone.
template <class Function, class... Args>
auto call_once(const Device& device, Function function, const Args&... args) {
  return Executor<Function>(device, std::move(function))(args...);
}

}  // namespace heddle
#pragma GCC visibility pop
