// Program: appending checked statements, its tensors, substitution.
#include "heddle/program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/expr.hpp"
#include "jit/program_text.hpp"

namespace heddle {
namespace {

using jit::ExprKind;
using jit::ExprNode;
using jit::StatementNode;
using NodePtr = std::shared_ptr<const ExprNode>;
using Replacements = std::vector<std::pair<Tensor, Tensor>>;

/// The tensor read through the merge buffer; a second one is refused.
std::optional<Tensor> join_merge(std::optional<Tensor> known, const StatementNode& statement) {
  if (!statement.value) return known;
  jit::walk(*statement.value, [&](const ExprNode& node) {
    if (node.kind != ExprKind::merge) return;
    if (known && !(*known == *node.tensor)) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("a program reads one merge buffer, but this one reads both merge('{}') and "
                      "merge('{}'); split it into two programs",
                      known->label(), node.tensor->label()));
    }
    known = node.tensor;
  });
  return known;
}

/// Calls visit(tensor, is_write) in execution order: reads of the value, then the target.
template <class Visit>
void each_access(const std::vector<Statement>& statements, const Visit& visit) {
  for (const Statement& statement : statements) {
    const StatementNode& node = statement.node();
    if (!node.target) continue;
    jit::walk(*node.value, [&](const ExprNode& e) {
      if (e.kind == ExprKind::read) visit(*e.tensor, false);
    });
    if (node.accumulate && !node.initialize_neutral) visit(*node.target, false);
    visit(*node.target, true);
  }
}

void add_once(std::vector<Tensor>& tensors, const Tensor& tensor) {
  if (std::ranges::find(tensors, tensor) == tensors.end()) tensors.push_back(tensor);
}

Tensor replaced(const Tensor& tensor, const Replacements& replacements) {
  const auto at = std::ranges::find(replacements, tensor, &std::pair<Tensor, Tensor>::first);
  return at == replacements.end() ? tensor : at->second;
}

NodePtr replace_in(const NodePtr& node, const Replacements& replacements) {
  ExprNode copy = *node;
  if (copy.tensor) copy.tensor = replaced(*copy.tensor, replacements);
  for (NodePtr& arg : copy.args) arg = replace_in(arg, replacements);
  return std::make_shared<const ExprNode>(std::move(copy));
}

}  // namespace

Program::Program(std::string name) : name_(std::move(name)) {}

Program& Program::operator<<(const Statement& statement) {
  static_cast<void>(
      jit::iteration_space(statement.node()));  // throws on subscripts and extents that do not fit
  static_cast<void>(join_merge(merge_tensor(), statement.node()));
  statements_.push_back(statement);
  return *this;
}

Program& Program::operator<<(const Program& other) {
  std::optional<Tensor> merged = merge_tensor();
  for (const Statement& statement : other.statements_)
    merged = join_merge(merged, statement.node());
  const std::vector<Statement> added = other.statements_;  // `other` may be this program
  statements_.insert(statements_.end(), added.begin(), added.end());
  return *this;
}

Program& Program::comment(std::string text) {
  StatementNode node;
  std::ranges::replace(text, '\n', ' ');
  node.comment = std::move(text);
  statements_.emplace_back(std::make_shared<const StatementNode>(std::move(node)));
  return *this;
}

std::optional<Tensor> Program::merge_tensor() const {
  std::optional<Tensor> merged;
  for (const Statement& statement : statements_) merged = join_merge(merged, statement.node());
  return merged;
}

std::vector<Tensor> Program::tensors() const {
  std::vector<Tensor> found;
  each_access(statements_, [&](const Tensor& tensor, bool) { add_once(found, tensor); });
  return found;
}

std::vector<Tensor> Program::reads_before_writing() const {
  std::vector<Tensor> written;
  std::vector<Tensor> found;
  each_access(statements_, [&](const Tensor& tensor, bool is_write) {
    if (is_write) {
      add_once(written, tensor);
    } else if (std::ranges::find(written, tensor) == written.end()) {
      add_once(found, tensor);
    }
  });
  return found;
}

Program Program::substitute(const Replacements& replacements) const {
  for (const auto& [from, to] : replacements) {
    if (from.type() != to.type()) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("cannot put '{}' {} in the place of '{}' {}; the types must be equal",
                      to.label(), to.type().to_string(), from.label(), from.type().to_string()));
    }
  }
  Program result(name_);
  for (const Statement& statement : statements_) {
    StatementNode node = statement.node();
    if (node.target) {
      node.target = replaced(*node.target, replacements);
      node.value = replace_in(node.value, replacements);
    }
    Statement changed(std::make_shared<const StatementNode>(std::move(node)));
    if (changed.node().target) {
      result << changed;
    } else {
      result.statements_.push_back(std::move(changed));
    }
  }
  return result;
}

std::string Program::to_string() const { return jit::print_program(*this); }

}  // namespace heddle
