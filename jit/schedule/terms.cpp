// See schedule/terms.hpp.
#include "jit/schedule/terms.hpp"

#include <algorithm>
#include <map>

#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

/// The most nodes of a term after substitution of locals: a larger term stays as it is.
constexpr std::int64_t nodes_max = 200;

struct Written {
  ValuePtr value;
  std::int64_t nodes = 0;
};
using Locals = std::map<LocalId, Written>;

/// The value with these locals replaced by their values; null where the result is too large.
Written written_out(const ValuePtr& value, const Locals& locals) {
  Written result{nullptr, 0};
  walk(*value, [&](const Value& v) {
    const auto local = v.kind == ValueKind::local ? locals.find(v.local) : locals.end();
    result.nodes += local == locals.end() ? 1 : local->second.nodes;
  });
  if (result.nodes > nodes_max) return result;
  result.value = rebuild(value, [&](ValuePtr v) {
    const auto local = v->kind == ValueKind::local ? locals.find(v->local) : locals.end();
    return local == locals.end() ? v : local->second.value;
  });
  return result;
}

/// The single statement equivalent to a body that declares locals and then adds to an outer sum;
/// null for other bodies.
StmtPtr as_one_statement(const Block& body) {
  if (body.size() < 2 || body.back()->kind != StmtKind::assign || !body.back()->subscripts.empty())
    return nullptr;
  Locals locals;
  for (std::size_t k = 0; k + 1 < body.size(); ++k) {
    if (body[k]->kind != StmtKind::declare || !body[k]->dims.empty()) return nullptr;
    Written value = written_out(body[k]->value, locals);
    if (!value.value) return nullptr;
    locals[body[k]->local] = std::move(value);
  }
  if (locals.contains(body.back()->local)) return nullptr;
  const Written term = written_out(body.back()->value, locals);
  return term.value ? with_value(*body.back(), term.value) : nullptr;
}

}  // namespace

Block with_whole_terms(const Block& body) {
  Block result;
  for (const StmtPtr& stmt : body) {
    if (!binds_variable(*stmt)) {
      result.push_back(stmt);
      continue;
    }
    const StmtPtr one = stmt->kind == StmtKind::loop ? as_one_statement(stmt->body) : nullptr;
    result.push_back(with_body(*stmt, one ? Block{one} : with_whole_terms(stmt->body)));
  }
  return result;
}

}  // namespace heddle::jit
