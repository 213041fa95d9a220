// See called.hpp.
#include "jit/graph/called.hpp"

#include <fmt/format.h>

#include "heddle/status.hpp"
#include "jit/value/element.hpp"

namespace heddle::jit {

constinit thread_local const Called* Called::on_finished_ = nullptr;

void Called::take(const Node& node) {
  const auto& graph = graph_of(node, what_, where_);
  if (graph_ == nullptr) graph_ = graph;
  if (graph != graph_)
    refuse_two_graphs({graph_.get(), operands_[0]}, {graph.get(), id_of(node)}, what_, where_);
  operands_.push_back(id_of(node));
}

void Called::require_dtype(DType dtype) const {
  const std::string problem = dtype_problem(dtype);
  if (!problem.empty()) refuse(problem);
}

void Called::refuse(std::string_view problem) const {
  if (graph_ != nullptr) graph_->refuse(what_, operands_, problem, where_);
  throw Error(ErrorCode::invalid_argument, fmt::format("'{}': {}{}", what_, problem, at(where_)));
}

}  // namespace heddle::jit
