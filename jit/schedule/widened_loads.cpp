// See widened_loads.hpp.
#include "jit/schedule/widened_loads.hpp"

#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

bool loads_bool(const Value& v) { return v.kind == ValueKind::load && v.dtype == DType::bool_; }

ValuePtr is_set(const ValuePtr& load) {
  return make_op(Op::ne,
                 {make_cast(load, DType::f32), make_constant(Scalar::of_float(DType::f32, 0))});
}

ValuePtr with_loads_widened(const ValuePtr& value) {
  return rebuild(value, [](ValuePtr v) {
    if (v->kind == ValueKind::cast && v->dtype == DType::f32 && loads_bool(*v->args[0])) {
      return make_op(Op::where, {is_set(v->args[0]), make_constant(Scalar::of_float(DType::f32, 1)),
                                 make_constant(Scalar::of_float(DType::f32, 0))});
    }
    if (v->kind != ValueKind::op) return v;
    std::vector<ValuePtr> args = v->args;
    bool changed = false;
    for (ValuePtr& arg : args) {
      if (!loads_bool(*arg)) continue;
      arg = is_set(arg);
      changed = true;
    }
    return changed ? make_op(v->op, std::move(args)) : v;
  });
}

}  // namespace

Block with_widened_loads(const Block& body) {
  Block result;
  for (const StmtPtr& stmt : body) {
    StmtPtr made = stmt;
    if (stmt->value && stmt->value->dtype != DType::bool_) {  // bools are stored one by one
      ValuePtr value = with_loads_widened(stmt->value);
      if (value != stmt->value) made = with_value(*made, std::move(value));
    }
    if (!stmt->body.empty()) made = with_body(*made, with_widened_loads(stmt->body));
    result.push_back(std::move(made));
  }
  return result;
}

Block with_plain_loads(const Block& body, const std::set<VarId>& vectors) {
  Block result;
  for (const StmtPtr& stmt : body) {
    const bool is_vector = stmt->kind == StmtKind::loop && vectors.contains(stmt->var);
    StmtPtr made = stmt;
    if (stmt->value) {
      ValuePtr value = rebuild(stmt->value, [](ValuePtr v) {
        return is_bool_load(*v) ? ValuePtr(v->args[0]->args[0]) : v;
      });
      if (value != stmt->value) made = with_value(*made, std::move(value));
    }
    if (!stmt->body.empty() && !is_vector)
      made = with_body(*made, with_plain_loads(stmt->body, vectors));
    result.push_back(std::move(made));
  }
  return result;
}

}  // namespace heddle::jit
