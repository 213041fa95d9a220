// Type traits of executor functions: parameters, results, and tracing. For heddle/executor.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/executor_arguments.hpp"
#include "heddle/executor_core.hpp"
#include "heddle/trace.hpp"

#pragma GCC visibility push(default)
namespace heddle {

namespace executors {

/// The parameters of a function, if its type determines them.
template <class F>
struct Parameters {
  static constexpr bool known = false;
};
template <class... P>
struct KnownParameters {
  static constexpr bool known = true;
  using Types = trees::Types<std::remove_cvref_t<P>...>;
  /// No parameter is a non-const lvalue reference.
  static constexpr bool values =
      ((!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>) && ...);
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
struct OfMember {
  static constexpr bool known = false;
};
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

/// A function that returns void (it updates variables) has an empty tree as result.
template <class Results>
using NotVoid = std::conditional_t<std::is_void_v<Results>, std::tuple<>, Results>;

template <class F, class... P>
constexpr bool takes(trees::Types<P...>) {
  return tracing::TakesNodes<const F, P...> || tracing::TakesGraph<const F, P...>;
}

/// True if a function with known parameters can be an executor's; if not, a static_assert says why.
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
      using Results = NotVoid<typename tracing::Returned<const F, P...>::Type>;
      static_assert(trees::Checked<Results, Node>::value);
      return TreeOf<Results, Node>;
    }
  }
  return false;
}
template <class F>
constexpr bool checked_function() {
  if constexpr (Parameters<F>::known) {
    static_assert(Parameters<F>::values,
                  "heddle: a function of an executor takes Nodes by value or const reference, not "
                  "by Node&.");
    if constexpr (Parameters<F>::values)
      return checked_parameters<F>(typename Parameters<F>::Types());
    else
      return false;
  } else {
    static_assert(std::is_class_v<F>, "heddle: an executor is made of a function.");
    return std::is_class_v<F>;  // generic: checked at every call
  }
}

template <class T>
using NodesFor = typename Argument<std::remove_cvref_t<T>>::Nodes;
template <class F, class... Args>
concept Takes = tracing::TakesNodes<const F, NodesFor<Args>...> ||
                tracing::TakesGraph<const F, NodesFor<Args>...>;

/// Traces the function.
template <class F, class... Nodes>
TracedGraph traced(tracing::Tracer& tracer, const F& function, Nodes&... nodes) {
  if constexpr (std::is_void_v<typename tracing::Returned<const F, Nodes...>::Type>) {
    const auto with_results = [&](const Graph& graph, const Nodes&... each) {
      if constexpr (tracing::TakesNodes<const F, Nodes...>) {
        std::invoke(function, each...);
      } else {
        std::invoke(function, graph, each...);
      }
      return std::tuple<>();
    };
    return tracer.trace(with_results, nodes...);
  } else {
    return tracer.trace(function, nodes...);
  }
}

/// Traces the function later, on a different thread.
template <class F, class... Nodes>
class LaterMaker final : public Maker {
 public:
  LaterMaker(std::shared_ptr<const F> function, std::vector<TreeDef> structures)
      : function_(std::move(function)), structures_(std::move(structures)) {}
  [[nodiscard]] TracedGraph trace(tracing::Tracer& tracer,
                                  std::span<const ArrayType> types) const override {
    return traced_with(tracer, types, std::index_sequence_for<Nodes...>());
  }

 private:
  template <std::size_t... k>
  TracedGraph traced_with(tracing::Tracer& tracer, std::span<const ArrayType> types,
                          std::index_sequence<k...>) const {
    std::tuple<Nodes...> nodes{tracer.template argument<Nodes>(structures_[k], types)...};
    return std::apply([&](auto&... node) { return traced(tracer, *function_, node...); }, nodes);
  }

  const std::shared_ptr<const F> function_;
  const std::vector<TreeDef> structures_;
};

template <class F, class... Args>
constexpr bool checked_call() {
  static_assert((Given<Args> && ...),
                "heddle: an executor is called with Arrays, HostArrays, trees of either, "
                "donate(...) of Arrays, numbers such as 1, 0.5F and std::int64_t, and vectors, "
                "arrays or spans of numbers; compile() with ArrayTypes too.");
  if constexpr ((Given<Args> && ...)) {
    static_assert((TreeOf<NodesFor<Args>, Node> && ...),
                  "heddle: a struct has Arrays, and cannot have nodes. Make it a template of its "
                  "leaves: template <class T> struct Dense { T weight; };");
    if constexpr ((TreeOf<NodesFor<Args>, Node> && ...)) {
      static_assert(Takes<F, Args...>,
                    "heddle: the executor's function does not take these arguments, with a Node in "
                    "the place of each Array, HostArray and number.");
      return Takes<F, Args...>;
    }
  }
  return false;
}
template <class F, class... Args>
using ReturnedFor = typename tracing::Returned<const F, NodesFor<Args>...>::Type;
template <class Results>
using ArraysOf = typename trees::MapLeaves<Node, Array>::template Of<Results>::Type;
template <class F, class... Args>
using ArraysFor = ArraysOf<NotVoid<ReturnedFor<F, Args...>>>;

/// Traces the function for the arguments of one call.
template <class F, class... Args>
class MakerOf final : public Maker {
 public:
  explicit MakerOf(const F& function, const Args&... args)
      : function_(function), arguments_(args...) {}
  [[nodiscard]] TracedGraph trace(tracing::Tracer& tracer,
                                  std::span<const ArrayType> types) const override {
    return std::apply(
        [&](const Args&... each) {
          std::tuple<NodesFor<Args>...> nodes{
              tracer.template argument<NodesFor<Args>>(Argument<Args>::def(each), types)...};
          return std::apply([&](auto&... node) { return traced(tracer, function_, node...); },
                            nodes);
        },
        arguments_);
  }

 private:
  const F& function_;
  std::tuple<const Args&...> arguments_;
};

}  // namespace executors

}  // namespace heddle
#pragma GCC visibility pop
