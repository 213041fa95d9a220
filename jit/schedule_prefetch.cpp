// Rows ahead: where several loops go over the rows of a large input, one row after another, the
// first of them waits for memory, and the others find the row in the cache. The busiest of those
// fetches the next row meanwhile. Pure; any thread.
#include <algorithm>
#include <map>
#include <set>

#include "jit/emit.hpp"
#include "jit/lanes.hpp"
#include "jit/rewrite.hpp"
#include "jit/schedule.hpp"
#include "jit/value_cost.hpp"

namespace heddle::jit {
namespace {

constexpr std::int64_t line_bytes = 64;
/// Of this share of the second-level cache a row may be, as it has to stay there.
constexpr std::int64_t l2_share = 4;

/// A loop over parts of a row, which it reads from end to end.
struct Pass {
  std::size_t at = 0;  ///< in the body of the loop over rows
  ValuePtr load;
  VarId lane = 0;
  std::int64_t part = 0;  ///< elements of an iteration
  int cost = 0;           ///< of all that an iteration of the lanes computes
};

class RowsAhead {
 public:
  RowsAhead(const Loop& loop, const Target& target, Fresh& fresh)
      : loop_(loop), target_(target), fresh_(fresh) {
    walk(loop.body, [this](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) written_.insert(stmt.buffer);
    });
  }

  Block block(const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) {
      const bool plain = stmt->kind == StmtKind::loop && stmt->mark != LoopMark::lanes;
      result.push_back(plain ? with_body(*stmt, block(with_next_rows(*stmt))) : stmt);
    }
    return result;
  }

 private:
  Block with_next_rows(const Stmt& rows) {
    Block body = rows.body;
    for (const auto& [buffer, passes] : passes_of(rows)) {
      if (passes.size() < 2) continue;
      const auto busiest =
          std::max_element(passes.begin() + 1, passes.end(),
                           [](const Pass& a, const Pass& b) { return a.cost < b.cost; });
      const Stmt& parts = *body[busiest->at];
      Block with = fetched(rows, parts, *busiest);
      with.insert(with.end(), parts.body.begin(), parts.body.end());
      body[busiest->at] = with_body(parts, std::move(with));
    }
    return body;
  }

  /// By buffer, in their order.
  std::map<BufferId, std::vector<Pass>> passes_of(const Stmt& rows) const {
    std::map<BufferId, std::vector<Pass>> found;
    const bool in_turn = rows.mark == LoopMark::serial || rows.mark == LoopMark::parallel;
    if (!in_turn || rows.to - rows.from < 2) return found;
    for (std::size_t at = 0; at < rows.body.size(); ++at) {
      const Stmt& parts = *rows.body[at];
      if (parts.kind != StmtKind::loop || parts.mark != LoopMark::serial) continue;
      std::map<BufferId, Pass> here;
      int cost = 0;
      std::vector<const Stmt*> inside;
      add_loads(rows, parts, parts.body, inside, here, cost);
      for (auto& [buffer, pass] : here) {
        pass.at = at;
        pass.cost = cost;
        found[buffer].push_back(pass);
      }
    }
    return found;
  }

  void add_loads(const Stmt& rows, const Stmt& parts, const Block& body,
                 std::vector<const Stmt*>& inside, std::map<BufferId, Pass>& found,
                 int& cost) const {
    for (const StmtPtr& stmt : body) {
      if (stmt->value) {
        cost += cost_of(*stmt->value);
        walk(*stmt->value, [&](const Value& v) {
          const std::int64_t part = part_of_row(v, rows, parts, inside);
          if (part > 0)
            found.try_emplace(v.buffer, Pass{0, make_load(v.buffer, v.dtype, v.subscripts),
                                             inside.back()->var, part});
        });
      }
      if (stmt->kind != StmtKind::loop) continue;
      inside.push_back(stmt.get());
      add_loads(rows, parts, stmt->body, inside, found, cost);
      inside.pop_back();
    }
  }

  /// How many elements an iteration of `parts` reads by this load in the loops `inside` it; 0 where
  /// the iterations do not read a row of a large input, one part after another, by vectors.
  std::int64_t part_of_row(const Value& v, const Stmt& rows, const Stmt& parts,
                           const std::vector<const Stmt*>& inside) const {
    if (v.kind != ValueKind::load || written_.contains(v.buffer)) return 0;
    const BufferDecl& decl = loop_.buffers[v.buffer];
    if (decl.role == Role::scratch || decl.type.num_bytes().value_or(0) <= target_.l2_bytes)
      return 0;
    const auto step = [&](const Stmt& each) {
      return stride(loop_, v.buffer, v.subscripts, each.var);
    };
    if (inside.empty() || inside.back()->mark != LoopMark::lanes || step(*inside.back()) != 1)
      return 0;
    std::int64_t part = 1;  // the loops inside it read that many, without gaps
    for (auto each = inside.rbegin(); each != inside.rend(); ++each) {
      if (step(**each) == 0) continue;
      if (step(**each) != part || (*each)->from != 0) return 0;
      part *= (*each)->to;
    }
    const std::int64_t row = step(rows);
    const std::int64_t read = part * (parts.to - parts.from);
    const bool whole = step(parts) == part && parts.from == 0 && read <= row && row <= 2 * read;
    const auto bytes = static_cast<std::int64_t>(size_of(v.dtype));
    return whole && row <= target_.l2_bytes / l2_share / bytes ? part : 0;
  }

  /// The same part of the next row.
  Block fetched(const Stmt& rows, const Stmt& parts, const Pass& pass) {
    const std::int64_t line = line_bytes / static_cast<std::int64_t>(size_of(pass.load->dtype));
    const VarId at = fresh_.var();
    Substitution next;
    next.vars[rows.var] = affine_add(affine_var(rows.var), Affine{1, {}});
    walk(parts.body, [&next](const Stmt& stmt) {
      if (stmt.kind == StmtKind::loop) next.vars[stmt.var] = Affine{};
    });
    std::vector<Affine> subscripts = substitute(pass.load, next)->subscripts;
    const auto along = std::ranges::find_if(pass.load->subscripts, [&](const Affine& a) {
      return split_lane(a, pass.lane).second != 0;
    });
    Affine& moving = subscripts[static_cast<std::size_t>(along - pass.load->subscripts.begin())];
    moving = affine_add(moving, affine_var(at, line));
    return {make_loop(at, 0, (pass.part + line - 1) / line,
                      {make_prefetch(pass.load->buffer, std::move(subscripts), false)},
                      LoopMark::unroll)};
  }

  const Loop& loop_;
  const Target& target_;
  Fresh& fresh_;
  std::set<BufferId> written_;
};

}  // namespace

Block fetch_rows_ahead(Scheduling& in, const Block& body) {
  const Loop now{in.lowered.loop.buffers, in.lowered.loop.statics, body};
  return RowsAhead(now, in.target, in.fresh).block(body);
}

}  // namespace heddle::jit
