// Which stores pass the caches by (non-temporal): fetching lines that are overwritten whole costs a
// third of the memory's bandwidth. Pure; any thread.
#include <algorithm>
#include <vector>

#include "jit/lanes.hpp"
#include "jit/rewrite.hpp"
#include "jit/schedule.hpp"

namespace heddle::jit {
namespace {

/// Of a large last-level cache one kernel has only part: others use it too.
constexpr std::int64_t cached_bytes_max = std::int64_t{32} << 20;

struct Use {
  bool read = false;
  std::int64_t stored = 0;  ///< by vector loops, along their lanes: so many elements
  bool otherwise = false;   ///< written in other ways too
};

class Uses {
 public:
  explicit Uses(const Loop& loop, const LanePlan& plan) : plan_(plan), uses_(loop.buffers.size()) {
    walk_values(loop.body, [this](const Value& v) {
      if (v.kind == ValueKind::load) uses_[v.buffer].read = true;
    });
    visit(loop.body, 1, nullptr);
  }
  [[nodiscard]] const Use& operator[](BufferId k) const { return uses_[k]; }

 private:
  void visit(const Block& body, std::int64_t times, const Stmt* lanes) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop) {
        const bool vectors = stmt->mark == LoopMark::lanes && plan_.vectors.contains(stmt->var);
        visit(stmt->body, times * (stmt->to - stmt->from), vectors ? stmt.get() : nullptr);
      } else if (stmt->kind == StmtKind::zero) {
        uses_[stmt->buffer].otherwise = true;
      } else if (stmt->kind == StmtKind::store) {
        Use& use = uses_[stmt->buffer];
        use.stored += times;
        use.otherwise = use.otherwise || lanes == nullptr;
      }
    }
  }

  const LanePlan& plan_;
  std::vector<Use> uses_;
};

StmtPtr streamed(const StmtPtr& stmt, const std::vector<bool>& chosen) {
  if (stmt->kind == StmtKind::loop) {
    Block body;
    for (const StmtPtr& inner : stmt->body) body.push_back(streamed(inner, chosen));
    return with_body(*stmt, std::move(body));
  }
  if (stmt->kind != StmtKind::store || !chosen[stmt->buffer]) return stmt;
  return make_store(stmt->buffer, stmt->subscripts, stmt->value, true);
}

}  // namespace

void stream_outputs(Lowered& lowered, const Target& target) {
  Loop& loop = lowered.loop;
  std::int64_t touched = 0;
  for (const BufferDecl& decl : loop.buffers) touched += decl.type.num_bytes().value_or(0);
  if (touched <= std::min(target.l3_bytes, cached_bytes_max)) return;
  const LanePlan plan = plan_lanes(loop, target);
  const Uses uses(loop, plan);
  std::vector<bool> chosen;
  for (BufferId k = 0; k < loop.buffers.size(); ++k) {
    const BufferDecl& decl = loop.buffers[k];
    const Use& use = uses[k];
    // Each element once: so whole lines are overwritten, and none is fetched again.
    chosen.push_back(decl.role == Role::output && !use.read && !use.otherwise &&
                     use.stored == decl.type.num_elements() &&
                     decl.type.num_bytes() > target.l2_bytes);
  }
  if (std::ranges::none_of(chosen, [](bool each) { return each; })) return;
  Block body;
  for (const StmtPtr& stmt : loop.body) body.push_back(streamed(stmt, chosen));
  loop.body = std::move(body);
}

}  // namespace heddle::jit
