// Tracing: a symbolic run of the first iterations of each loop, to see how often cells are read
// (reference 3F).
#include <algorithm>
#include <map>

#include "jit/passes.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

/// Reads looked at in all; a kernel with more is taken to read its cells often.
constexpr std::int64_t steps_max = 1 << 18;

class Tracer {
 public:
  Tracer(const Loop& loop, int iterations_max)
      : loop_(loop),
        iterations_max_(iterations_max),
        cells_(loop.buffers.size()),
        facts_(loop.buffers.size()) {}

  std::vector<Traced> run() {
    std::vector<bool> written(loop_.buffers.size(), false);
    for (const StmtPtr& stmt : loop_.body) {
      statement(*stmt);
      note_writes(*stmt, written);
    }
    for (std::size_t id = 0; id < facts_.size(); ++id) {
      for (const auto& [cell, visits] : cells_[id])
        facts_[id].visits_max = std::max(facts_[id].visits_max, visits);
      if (steps_ > steps_max && !cells_[id].empty()) facts_[id].visits_max = steps_max;
    }
    return std::move(facts_);
  }

 private:
  void note_writes(const Stmt& top, std::vector<bool>& written) {
    const auto note_reads = [&](const Value& v) {
      if (v.kind == ValueKind::load && written[v.buffer]) facts_[v.buffer].read_after_write = true;
    };
    const Block alone{std::make_shared<const Stmt>(top)};
    walk_values(alone, note_reads);
    std::map<BufferId, bool> setters;  // by constant stores alone?
    walk(alone, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::zero) setters.try_emplace(stmt.buffer, true);
      if (stmt.kind != StmtKind::store) return;
      const bool constant = stmt.value->kind == ValueKind::constant;
      const auto at = setters.try_emplace(stmt.buffer, constant).first;
      at->second = at->second && constant;
    });
    for (const auto& [id, constant] : setters) {
      written[id] = true;
      ++facts_[id].setters;
      facts_[id].constant = constant && facts_[id].setters == 1;
    }
  }

  void statement(const Stmt& stmt) {
    if (stmt.value) value(*stmt.value);
    if (stmt.kind != StmtKind::loop) return;
    const std::int64_t end = std::min(stmt.to, stmt.from + iterations_max_);
    for (std::int64_t k = stmt.from; k < end && steps_ <= steps_max; ++k) {
      vars_[stmt.var] = k;
      for (const StmtPtr& inner : stmt.body) statement(*inner);
    }
  }

  void value(const Value& v) {
    for (const ValuePtr& arg : v.args) value(*arg);
    if (v.kind != ValueKind::load) return;
    ++steps_;
    std::vector<std::int64_t> cell;
    for (const Affine& a : v.subscripts) {
      std::int64_t at = a.constant;
      for (const AffineTerm& term : a.terms) {
        if (term.kind == AffineTerm::Kind::loop) at += term.coefficient * vars_.at(term.id);
      }
      cell.push_back(at);
    }
    ++cells_[v.buffer][std::move(cell)];
  }

  const Loop& loop_;
  int iterations_max_;
  std::int64_t steps_ = 0;
  std::map<VarId, std::int64_t> vars_;
  std::vector<std::map<std::vector<std::int64_t>, std::int64_t>>
      cells_;  // per buffer: visits of each cell
  std::vector<Traced> facts_;
};

}  // namespace

std::vector<Traced> trace(const Loop& loop, int max_tracing_dim) {
  return Tracer(loop, max_tracing_dim).run();
}

}  // namespace heddle::jit
