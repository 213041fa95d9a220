// Called: the operation of the user that is being built from nodes. One operation often calls
// further operations; errors then name the operation that the user called.
#pragma once

#include <memory>
#include <ranges>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/graph.hpp"
#include "jit/graph/state.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle::jit {

/// Lives as long as the operation, on the thread that builds the graph. That thread computes in the
/// kernels' floating-point mode meanwhile.
class Called {
 public:
  /// `operands`: Node, Operand (numbers are skipped), ranges of them, or the graph. Throws
  /// invalid_argument for a node without a graph, and for nodes of two graphs.
  template <typename... Operands>
  Called(std::string_view what, std::source_location where, const Operands&... operands)
      : what_(what), where_(where) {
    (take(operands), ...);
    if (graph_ == nullptr) return;
    // Any thread may use a finished graph; each thread keeps its own outermost call.
    const Called*& outermost = graph_->finished ? on_finished_ : graph_->called;
    if (outermost == nullptr) outermost = this;
  }
  Called(const Called&) = delete;
  Called& operator=(const Called&) = delete;
  ~Called() {
    if (on_finished_ == this)
      on_finished_ = nullptr;
    else if (graph_ != nullptr && !graph_->finished && graph_->called == this)
      graph_->called = nullptr;
  }

  /// This thread's outermost operation on a finished graph; null without one.
  [[nodiscard]] static const Called* on_finished() noexcept { return on_finished_; }

  /// Throws invalid_argument where `dtype` is not a known type.
  void require_dtype(DType dtype) const;
  /// Throws invalid_argument: "'sum' of %3 x f32[2,3] (a.cpp:5): `problem`, at a.cpp:9".
  [[noreturn]] void refuse(std::string_view problem) const;

  [[nodiscard]] std::string_view what() const noexcept { return what_; }
  [[nodiscard]] std::source_location where() const noexcept { return where_; }
  [[nodiscard]] const std::vector<NodeId>& operands() const noexcept { return operands_; }
  /// The graph of the operands; null without one.
  [[nodiscard]] const std::shared_ptr<GraphState>& graph() const noexcept { return graph_; }

 private:
  void take(const Node& node);
  void take(const std::shared_ptr<GraphState>& graph) { graph_ = graph; }
  void take(const Operand& operand) {
    if (!operand.number()) take(operand.node());
  }
  void take(const Operand* operand) { take(*operand); }
  template <std::ranges::range Several>
  void take(const Several& several) {
    for (const auto& one : several) take(one);
  }

  static constinit thread_local const Called* on_finished_;

  const sched::DefaultFloating floating_;  // for numbers that the operation computes
  std::string what_;
  std::source_location where_;
  std::vector<NodeId> operands_;
  std::shared_ptr<GraphState> graph_;
};

}  // namespace heddle::jit
