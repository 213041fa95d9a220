// Program: appends checked statements, lists tensors, substitutes tensors.
#include "heddle/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "heddle/status.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/system/inside.hpp"

namespace heddle {
namespace {

using jit::ExprKind;
using jit::ExprNode;
using jit::StatementNode;
using NodePtr = std::shared_ptr<const ExprNode>;
using Replacements = std::vector<std::pair<Tensor, Tensor>>;

void require_one(const Tensor& a, const Tensor& b) {
  if (a == b) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("a program reads one merge buffer, but this one reads both merge('{}') and "
                  "merge('{}'); split it into two programs",
                  a.label(), b.label()));
}

/// The tensor read through the merge buffer; refuses a second tensor.
std::optional<Tensor> join_merge(std::optional<Tensor> known, const StatementNode& statement) {
  jit::walk(statement, [&](const ExprNode& node) {
    if (node.kind != ExprKind::merge) return;
    if (known) require_one(*known, *node.tensor);
    known = node.tensor;
  });
  return known;
}

/// Calls visit(tensor, is_write) in execution order: the reads of positions on the left side and of
/// the value, then the write of the target.
template <class Visit>
void each_access(const std::vector<Statement>& statements, const Visit& visit) {
  for (const Statement& statement : statements) {
    const StatementNode& node = *Inside::of(statement);
    if (!node.target) continue;
    jit::walk(node, [&](const ExprNode& e) {
      if (e.kind == ExprKind::read) visit(*e.tensor, false);
    });
    if (node.accumulate && !node.initialize_neutral) visit(*node.target, false);
    visit(*node.target, true);
  }
}

/// Replaces tensors in whole programs; nodes shared between expressions stay shared.
class Replacer {
 public:
  explicit Replacer(const Replacements& replacements) {
    for (const auto& [from, to] : replacements) tensors_.try_emplace(from, to);
  }

  [[nodiscard]] Tensor tensor(const Tensor& tensor) const {
    const auto at = tensors_.find(tensor);
    return at == tensors_.end() ? tensor : at->second;
  }

  NodePtr expr(const NodePtr& node) {
    if (const auto known = made_.find(node.get()); known != made_.end()) return known->second;
    ExprNode copy = *node;
    if (copy.tensor) copy.tensor = tensor(*copy.tensor);
    for (NodePtr& arg : copy.args) arg = expr(arg);
    const bool moves = positions(copy.subscripts);
    const bool is_same = copy.tensor == node->tensor && copy.args == node->args && !moves;
    NodePtr made = is_same ? node : std::make_shared<const ExprNode>(std::move(copy));
    return made_.emplace(node.get(), std::move(made)).first->second;
  }

  /// True if a computed position of the subscripts changed.
  bool positions(std::vector<Subscript>& subscripts) {
    bool changed = false;
    for (Subscript& subscript : subscripts) {
      const NodePtr& before = Inside::position_of(subscript);
      if (!before) continue;
      NodePtr after = expr(before);
      changed = changed || after != before;
      subscript = Inside::with_position(subscript, std::move(after));
    }
    return changed;
  }

 private:
  std::unordered_map<Tensor, Tensor> tensors_;
  std::unordered_map<const ExprNode*, NodePtr> made_;
};

}  // namespace

Program::Program(std::string name) : name_(std::move(name)) {}

Program& Program::operator<<(const Statement& statement) {
  StatementNode node = *Inside::of(statement);
  std::optional<Tensor> merged;
  if (node.target) {
    node.space = jit::iteration_space(node);  // throws on subscripts and extents that do not fit
    merged = join_merge(merge_tensor(), node);
  }
  node.form = jit::form_of(node);
  statements_.push_back(
      Inside::make<Statement>(std::make_shared<const StatementNode>(std::move(node))));
  if (merged) merge_.assign(1, *merged);
  return *this;
}

Program& Program::operator<<(const Program& other) {
  if (!merge_.empty() && !other.merge_.empty()) require_one(merge_[0], other.merge_[0]);
  const std::vector<Statement> added = other.statements_;  // `other` may be this program
  statements_.insert(statements_.end(), added.begin(), added.end());
  if (merge_.empty()) merge_ = other.merge_;
  return *this;
}

Program& Program::comment(std::string text) {
  StatementNode node;
  std::ranges::replace(text, '\n', ' ');
  node.comment = std::move(text);
  return *this << Inside::make<Statement>(std::make_shared<const StatementNode>(std::move(node)));
}

std::optional<Tensor> Program::merge_tensor() const {
  return merge_.empty() ? std::nullopt : std::optional(merge_[0]);
}

std::vector<Tensor> Program::tensors() const {
  std::unordered_set<Tensor> known;
  std::vector<Tensor> found;
  for (const Statement& statement : statements_) {
    for (const Tensor& tensor : Inside::of(statement)->form.tensors) {
      if (known.insert(tensor).second) found.push_back(tensor);
    }
  }
  return found;
}

std::vector<Tensor> Program::reads_before_writing() const {
  std::unordered_set<Tensor> known;  // read or written; the first access counts
  std::vector<Tensor> found;
  each_access(statements_, [&](const Tensor& tensor, bool is_write) {
    if (known.insert(tensor).second && !is_write) found.push_back(tensor);
  });
  return found;
}

Program Program::substitute(const Replacements& replacements) const {
  std::unordered_map<Tensor, Tensor> known;
  for (const auto& [from, to] : replacements) {
    if (const auto [first, added] = known.emplace(from, to); !added) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("cannot put '{}' in the place of '{}', which '{}' is to take already; "
                      "name each tensor to replace once",
                      to.label(), from.label(), first->second.label()));
    }
    if (from.type() != to.type()) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("cannot put '{}' {} in the place of '{}' {}; the types must be equal",
                      to.label(), to.type().to_string(), from.label(), from.type().to_string()));
    }
  }
  Replacer replace(replacements);
  Program result(name_);
  for (const Statement& statement : statements_) {
    StatementNode node = *Inside::of(statement);
    if (node.target) {
      node.target = replace.tensor(*node.target);
      replace.positions(node.subscripts);
      node.value = replace.expr(node.value);
    }
    result << Inside::make<Statement>(std::make_shared<const StatementNode>(std::move(node)));
  }
  return result;
}

std::string Program::to_string() const { return jit::print_program(*this); }

}  // namespace heddle
