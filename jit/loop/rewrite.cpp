// Rebuilding loop trees. Pure; any thread.
#include "jit/loop/rewrite.hpp"

#include <algorithm>

namespace heddle::jit {
namespace {

template <class Id>
Id renamed(const std::map<Id, Id>& names, Id id) {
  const auto at = names.find(id);
  return at == names.end() ? id : at->second;
}

std::vector<Affine> substitute_all(const std::vector<Affine>& indices, const Substitution& by) {
  std::vector<Affine> result;
  result.reserve(indices.size());
  for (const Affine& index : indices) result.push_back(substitute(index, by));
  return result;
}

/// The value with `change` of each operand.
template <class Change>
ValuePtr with_args(const ValuePtr& value, const Change& change) {
  count_step();
  std::vector<ValuePtr> args;
  args.reserve(value->args.size());
  for (const ValuePtr& arg : value->args) args.push_back(change(arg));
  if (args == value->args) return value;
  if (value->kind == ValueKind::cast) return make_cast(std::move(args[0]), value->dtype);
  Value copy = *value;
  copy.args = std::move(args);
  return std::make_shared<const Value>(std::move(copy));
}

}  // namespace

ValuePtr rebuild(const ValuePtr& value, const std::function<ValuePtr(ValuePtr)>& change) {
  return change(with_args(value, [&](const ValuePtr& arg) { return rebuild(arg, change); }));
}

ValuePtr replaced_parts(const ValuePtr& value, const std::function<ValuePtr(const ValuePtr&)>& by) {
  if (ValuePtr other = by(value)) return other;
  return with_args(value, [&](const ValuePtr& arg) { return replaced_parts(arg, by); });
}

Affine substitute(const Affine& index, const Substitution& by) {
  Affine result;
  result.constant = index.constant;
  for (const AffineTerm& term : index.terms) {
    Affine part;
    if (term.kind == AffineTerm::Kind::static_index) {
      part = affine_static(renamed(by.statics, term.id), term.coefficient);
    } else if (const auto at = by.vars.find(term.id); at != by.vars.end()) {
      part = affine_scale(at->second, term.coefficient);
    } else {
      part = affine_var(renamed(by.loops, term.id), term.coefficient);
    }
    result = affine_add(result, part);
  }
  return result;
}

ValuePtr substitute(const ValuePtr& value, const Substitution& by) {
  return rebuild(value, [&](const ValuePtr& node) -> ValuePtr {
    switch (node->kind) {
      case ValueKind::load:
        return make_load(renamed(by.buffers, node->buffer), node->dtype,
                         substitute_all(node->subscripts, by));
      case ValueKind::local:
        return make_local(renamed(by.locals, node->local), node->dtype,
                          substitute_all(node->subscripts, by));
      case ValueKind::embed:
        return make_embed(substitute(node->index, by));
      default:
        return node;
    }
  });
}

StmtPtr substitute(const StmtPtr& stmt, const Substitution& by) {
  Stmt copy = *stmt;
  if (copy.value) copy.value = substitute(copy.value, by);
  copy.subscripts = substitute_all(copy.subscripts, by);
  if (copy.kind == StmtKind::zero || copy.kind == StmtKind::store ||
      copy.kind == StmtKind::prefetch)
    copy.buffer = renamed(by.buffers, copy.buffer);
  if (copy.kind == StmtKind::declare || copy.kind == StmtKind::assign)
    copy.local = renamed(by.locals, copy.local);
  if (binds_variable(copy)) copy.var = renamed(by.loops, copy.var);
  for (StmtPtr& inner : copy.body) inner = substitute(inner, by);
  return std::make_shared<const Stmt>(std::move(copy));
}

StmtPtr with_subscripts(
    const StmtPtr& stmt,
    const std::function<std::vector<Affine>(BufferId, std::vector<Affine>)>& change) {
  Stmt copy = *stmt;
  if (copy.kind == StmtKind::store) copy.subscripts = change(copy.buffer, copy.subscripts);
  if (copy.value) {
    copy.value = rebuild(copy.value, [&](ValuePtr v) {
      if (v->kind != ValueKind::load) return v;
      std::vector<Affine> at = change(v->buffer, v->subscripts);
      return at == v->subscripts ? v : make_load(v->buffer, v->dtype, std::move(at));
    });
  }
  for (StmtPtr& inner : copy.body) inner = with_subscripts(inner, change);
  return std::make_shared<const Stmt>(std::move(copy));
}

StmtPtr with_value(const Stmt& stmt, ValuePtr value) {
  Stmt copy = stmt;
  copy.value = std::move(value);
  return std::make_shared<const Stmt>(std::move(copy));
}

StmtPtr with_body(const Stmt& stmt, Block body) {
  Stmt copy = stmt;
  copy.body = std::move(body);
  return std::make_shared<const Stmt>(std::move(copy));
}

std::int64_t block_bytes(const Stmt& stmt) {
  if (stmt.kind != StmtKind::declare || stmt.dims.empty()) return 0;
  return ArrayType{stmt.value->dtype, stmt.dims}.num_bytes().value_or(block_bytes_max);
}

std::int64_t block_bytes(const Block& body) {
  std::int64_t bytes = 0;
  walk(body, [&bytes](const Stmt& stmt) { bytes += block_bytes(stmt); });
  return bytes;
}

int depth(const Value& value) {
  count_step();
  int deepest = 0;
  for (const ValuePtr& arg : value.args) deepest = std::max(deepest, depth(*arg));
  return deepest + 1;
}

}  // namespace heddle::jit
