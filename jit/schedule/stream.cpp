// See schedule/stream.hpp.
#include "jit/schedule/stream.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

struct Use {
  bool read = false;
  std::int64_t stored = 0;  ///< elements stored by vector loops, along their lanes
  bool otherwise = false;   ///< written in other ways too
  bool prefetched = false;  ///< prefetched before it is written
  bool aligned = true;      ///< vectors begin at multiples of their size
};

class StreamUses {
 public:
  StreamUses(const Loop& loop, const Target& target, const LanePlan& plan)
      : loop_(loop), target_(target), plan_(plan), uses_(loop.buffers.size()) {
    walk_values(loop.body, [this](const Value& v) {
      if (v.kind == ValueKind::load) uses_[v.buffer].read = true;
    });
    visit(loop.body, 1, nullptr);
  }
  [[nodiscard]] const Use& operator[](BufferId k) const { return uses_[k]; }

 private:
  void visit(const Block& body, std::int64_t times, const Stmt* lanes) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::at) {
        positions_.insert(stmt->var);
        conditions_ += stmt->nearest ? 0 : 1;
        visit(stmt->body, times, nullptr);
        conditions_ -= stmt->nearest ? 0 : 1;
      } else if (stmt->kind == StmtKind::loop) {
        const bool vectors = stmt->mark == LoopMark::lanes && plan_.vectors.contains(stmt->var);
        visit(stmt->body, times * (stmt->to - stmt->from), vectors ? stmt.get() : nullptr);
      } else if (stmt->kind == StmtKind::zero) {
        uses_[stmt->buffer].otherwise = true;
      } else if (stmt->kind == StmtKind::prefetch) {
        uses_[stmt->buffer].prefetched |= stmt->next == Prefetch::store;
      } else if (stmt->kind == StmtKind::store) {
        Use& use = uses_[stmt->buffer];
        use.stored += times;
        use.otherwise = use.otherwise || lanes == nullptr || is_anywhere(*stmt) ||
                        !is_lane_type(stmt->value->dtype);
        use.aligned = use.aligned && lanes != nullptr && is_aligned(*stmt, *lanes);
      }
    }
  }

  /// True if the store may be skipped, or may write an element twice.
  bool is_anywhere(const Stmt& store) const {
    const auto computed = [this](const AffineTerm& term) {
      return term.kind == AffineTerm::Kind::loop && positions_.contains(term.id);
    };
    return conditions_ > 0 || std::ranges::any_of(store.subscripts, [&](const Affine& index) {
             return std::ranges::any_of(index.terms, computed);
           });
  }

  bool is_aligned(const Stmt& store, const Stmt& lanes) const {
    const ArrayType& type = loop_.buffers[store.buffer].type;
    auto [start, step] = split_lane(flatten(type, store.subscripts), lanes.var);
    start.constant += step * lanes.from;
    const std::int64_t width = target_.lanes(type.dtype);
    return start.constant % width == 0 &&
           std::ranges::all_of(start.terms, [width](const AffineTerm& term) {
             return term.coefficient % width == 0;
           });
  }

  const Loop& loop_;
  const Target& target_;
  const LanePlan& plan_;
  std::vector<Use> uses_;
  std::set<VarId> positions_;
  int conditions_ = 0;  // number of surrounding positions that may be out of range
};

/// The body with the chosen stores streamed, and without prefetches of streamed buffers.
Block streamed(const Block& body, const std::vector<bool>& chosen) {
  Block result;
  for (const StmtPtr& stmt : body) {
    if (binds_variable(*stmt)) {
      Block inner = streamed(stmt->body, chosen);
      if (!inner.empty() || stmt->body.empty())
        result.push_back(with_body(*stmt, std::move(inner)));
    } else if (stmt->kind == StmtKind::store && chosen[stmt->buffer]) {
      result.push_back(make_store(stmt->buffer, stmt->subscripts, stmt->value, true));
    } else if (stmt->kind != StmtKind::prefetch || !chosen[stmt->buffer]) {
      result.push_back(stmt);
    }
  }
  return result;
}

}  // namespace

void stream_outputs(Lowered& lowered, const Target& target, const LanePlan& plan) {
  Loop& loop = lowered.loop;
  std::int64_t touched = 0;
  for (const BufferDecl& decl : loop.buffers) touched += decl.type.num_bytes().value_or(0);
  // A kernel has only part of a large last-level cache: other kernels use it too.
  if (touched <= std::min(target.l3_bytes, target.profile.cached_bytes_max)) return;
  const StreamUses uses(loop, target, plan);
  std::vector<bool> chosen;
  for (BufferId k = 0; k < loop.buffers.size(); ++k) {
    const BufferDecl& decl = loop.buffers[k];
    const Use& use = uses[k];
    // Each element is stored once, so whole lines are overwritten, and no line is fetched again.
    // Lines that are written in pieces, after a prefetch, would be fetched again.
    chosen.push_back(decl.role == Role::output && !use.read && !use.otherwise &&
                     (use.aligned || !use.prefetched) && use.stored == decl.type.num_elements() &&
                     decl.type.num_bytes() > target.l2_bytes);
  }
  if (std::ranges::none_of(chosen, [](bool each) { return each; })) return;
  loop.body = streamed(loop.body, chosen);
}

}  // namespace heddle::jit
