// See accumulation.hpp.
#include "jit/loop/accumulation.hpp"

#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

bool may_be_atomic(Op op, DType type) {
  const bool word = type == DType::i32 || type == DType::u32;
  if (op == Op::min || op == Op::max) return word;
  return op == Op::add && (word || type == DType::i64 || type == DType::u64 || type == DType::f32 ||
                           type == DType::f64);
}

bool reads(const Value& value, BufferId buffer) {
  bool found = false;
  walk(value,
       [&](const Value& v) { found = found || (v.kind == ValueKind::load && v.buffer == buffer); });
  return found;
}

}  // namespace

std::optional<Accumulation> accumulation_of(const Stmt& stmt) {
  if (stmt.kind != StmtKind::store || stmt.value->kind != ValueKind::op ||
      !may_be_atomic(stmt.value->op, stmt.value->dtype))
    return std::nullopt;
  const std::vector<ValuePtr>& args = stmt.value->args;
  for (std::size_t k = 0; k < args.size(); ++k) {
    const ValuePtr& term = args[1 - k];
    if (args[k]->kind == ValueKind::load && args[k]->buffer == stmt.buffer &&
        args[k]->subscripts == stmt.subscripts && !reads(*term, stmt.buffer))
      return Accumulation{stmt.value->op, term};
  }
  return std::nullopt;
}

}  // namespace heddle::jit
