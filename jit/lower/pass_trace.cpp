// Tracing: a symbolic run of the first iterations of each loop, to count reads per element. Pure;
// any thread.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"

namespace heddle::jit {
namespace {

/// The most reads followed per statement; a statement with more is assumed to read its elements
/// often.
constexpr std::int64_t steps_max = 1 << 16;

class Tracer {
 public:
  Tracer(const Loop& loop, int iterations)
      : loop_(loop), iterations_(iterations), facts_(loop.buffers.size()) {}

  std::vector<Traced> run() {
    find_setters();
    cells_.resize(loop_.buffers.size());
    for (const StmtPtr& stmt : loop_.body) {
      const Block alone{stmt};
      steps_ = 0;
      own_ = written_by(alone);
      statement(*stmt);
      if (steps_ <= steps_max) continue;
      walk_values(alone, [this](const Value& v) {
        if (counts(v)) facts_[v.buffer].visits_max = std::numeric_limits<std::int64_t>::max();
      });
    }
    for (std::size_t id = 0; id < facts_.size(); ++id) {
      for (const auto& [cell, visits] : cells_[id])
        facts_[id].visits_max = std::max(facts_[id].visits_max, visits);
    }
    return std::move(facts_);
  }

 private:
  static std::set<BufferId> written_by(const Block& block) {
    std::set<BufferId> written;
    walk(block, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) written.insert(stmt.buffer);
    });
    return written;
  }

  /// Finds the assigned buffers, and the buffers with a constant expression.
  void find_setters() {
    for (const StmtPtr& stmt : loop_.body) {
      const Block alone{stmt};
      const std::set<BufferId> written = written_by(alone);
      bool constant = true;
      walk_values(alone, [&](const Value& v) {
        const bool known = v.kind == ValueKind::load && facts_[v.buffer].constant;
        const bool fixed =
            v.kind != ValueKind::load && v.kind != ValueKind::embed && v.kind != ValueKind::local;
        constant = constant && (known || fixed);
      });
      for (const BufferId id : written)
        facts_[id].constant = written_.insert(id).second && constant;
    }
  }

  /// Reads of inputs are free: inputs are never recomputed. A statement that accumulates reads its
  /// own target, which needs no second evaluation of the target's definition.
  bool counts(const Value& v) const {
    return v.kind == ValueKind::load && written_.contains(v.buffer) && !own_.contains(v.buffer);
  }

  void statement(const Stmt& stmt) {
    if (stmt.value) value(*stmt.value);
    if (!binds_variable(stmt)) return;
    if (stmt.kind == StmtKind::at) {  // assumed at the first place: a single element, read often
      vars_[stmt.var] = stmt.from;
      for (const StmtPtr& inner : stmt.body) statement(*inner);
      return;
    }
    for (std::int64_t k = stmt.from; k < stmt.to && k - stmt.from < iterations_; ++k) {
      if (steps_ > steps_max) return;
      vars_[stmt.var] = k;
      for (const StmtPtr& inner : stmt.body) statement(*inner);
    }
  }

  void value(const Value& v) {
    count_step();
    for (const ValuePtr& arg : v.args) value(*arg);
    ++steps_;
    if (!counts(v)) return;
    std::vector<std::int64_t> cell;
    cell.reserve(v.subscripts.size());
    for (const Affine& a : v.subscripts) cell.push_back(at(a));
    ++cells_[v.buffer][std::move(cell)];
  }

  std::int64_t at(const Affine& a) const {
    auto sum =
        static_cast<std::uint64_t>(a.constant);  // wraps: elements need only be distinguished
    for (const AffineTerm& term : a.terms) {
      if (term.kind == AffineTerm::Kind::loop) {
        sum += static_cast<std::uint64_t>(term.coefficient) *
               static_cast<std::uint64_t>(vars_.at(term.id));
      }
    }
    return static_cast<std::int64_t>(sum);
  }

  const Loop& loop_;
  int iterations_;
  std::int64_t steps_ = 0;
  std::set<BufferId> written_;  // by any statement
  std::set<BufferId> own_;      // by the current statement
  std::map<VarId, std::int64_t> vars_;
  std::vector<std::map<std::vector<std::int64_t>, std::int64_t>> cells_;  // visits, per buffer
  std::vector<Traced> facts_;
};

}  // namespace

std::vector<Traced> trace(const Loop& loop, int iterations) {
  return Tracer(loop, iterations).run();
}

}  // namespace heddle::jit
