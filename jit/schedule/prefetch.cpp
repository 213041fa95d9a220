// See schedule/prefetch.hpp.
#include "jit/schedule/prefetch.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// A row may occupy at most this share (one part in l2_share) of the second-level cache, as it has
/// to stay there.
constexpr std::int64_t l2_share = 4;

using Path = std::vector<const Stmt*>;

std::int64_t extent(const Stmt& loop) { return loop.to - loop.from; }

/// A row, read from end to end.
struct Pass {
  ValuePtr load;
  /// The innermost loop that is no vector: it reads a part at a time. Null: no loop can prefetch.
  const Stmt* parts = nullptr;
  VarId lane = 0;
  std::int64_t part = 0;  ///< elements
  int cost = 0;           ///< of all values in the lanes
};

class RowsAhead {
 public:
  RowsAhead(const Loop& loop, const Target& target, Fresh& fresh)
      : loop_(loop), target_(target), fresh_(fresh) {
    walk(loop.body, [this](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) written_.insert(stmt.buffer);
    });
  }

  Block run() {
    choose(loop_.body);
    return with_fetches(loop_.body);
  }

 private:
  void choose(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (!binds_variable(*stmt) || stmt->mark == LoopMark::lanes) continue;
      if (stmt->kind == StmtKind::loop) choose_in(*stmt);
      choose(stmt->body);
    }
  }

  void choose_in(const Stmt& rows) {
    for (const auto& [buffer, passes] : passes_of(rows)) {
      const Pass* busiest = nullptr;
      for (const Pass& each : std::span(passes).subspan(1)) {
        if (each.parts != nullptr && (busiest == nullptr || busiest->cost < each.cost))
          busiest = &each;
      }
      if (busiest != nullptr) fetches_[busiest->parts].push_back(fetch(rows, *busiest));
    }
  }

  Block with_fetches(const Block& body) const {
    Block result;
    for (const StmtPtr& stmt : body) {
      if (!binds_variable(*stmt)) {
        result.push_back(stmt);
        continue;
      }
      Block inner = with_fetches(stmt->body);
      if (const auto at = fetches_.find(stmt.get()); at != fetches_.end())
        inner.insert(inner.begin(), at->second.begin(), at->second.end());
      result.push_back(with_body(*stmt, std::move(inner)));
    }
    return result;
  }

  /// The passes over rows by buffer, in order.
  std::map<BufferId, std::vector<Pass>> passes_of(const Stmt& rows) const {
    std::map<BufferId, std::vector<Pass>> found;
    const bool in_turn = rows.mark == LoopMark::serial || rows.mark == LoopMark::parallel;
    if (!in_turn || extent(rows) < 2) return found;
    for (const StmtPtr& stmt : rows.body) {
      if (stmt->kind != StmtKind::loop) continue;
      std::map<BufferId, Pass> here;
      int cost = 0;
      Path inside{stmt.get()};
      add_passes(rows, stmt->body, inside, here, cost);
      for (auto& [buffer, pass] : here) {
        pass.cost = cost;
        found[buffer].push_back(pass);
      }
    }
    return found;
  }

  void add_passes(const Stmt& rows, const Block& body, Path& inside,
                  std::map<BufferId, Pass>& found, int& cost) const {
    for (const StmtPtr& stmt : body) {
      if (stmt->value) {
        cost += cost_of(*stmt->value);
        walk(*stmt->value, [&](const Value& v) {
          if (const auto pass = pass_of(v, rows, inside)) found.try_emplace(v.buffer, *pass);
        });
      }
      if (stmt->kind != StmtKind::loop) continue;
      inside.push_back(stmt.get());
      add_passes(rows, stmt->body, inside, found, cost);
      inside.pop_back();
    }
  }

  /// The pass of a load in the loops `inside` the loop over rows, if the load reads a row of a
  /// large input in vectors, each element once.
  std::optional<Pass> pass_of(const Value& v, const Stmt& rows, const Path& inside) const {
    if (v.kind != ValueKind::load || written_.contains(v.buffer)) return std::nullopt;
    const ArrayType& type = loop_.buffers[v.buffer].type;
    if (loop_.buffers[v.buffer].role == Role::scratch ||
        type.num_bytes().value_or(0) <= target_.l2_bytes || inside.back()->mark != LoopMark::lanes)
      return std::nullopt;
    const auto step = [&](const Stmt& each) {
      return stride(loop_, v.buffer, v.subscripts, each.var);
    };
    if (step(*inside.back()) != 1) return std::nullopt;
    Pass pass{make_load(v.buffer, v.dtype, v.subscripts), nullptr, inside.back()->var, 1};
    std::int64_t read = 1;
    for (auto at = inside.rbegin(); at != inside.rend(); ++at) {
      const Stmt& each = **at;
      const bool vectors = each.mark == LoopMark::lanes || each.mark == LoopMark::unroll;
      if (!vectors && pass.parts == nullptr && extent(each) > 1) {
        if (step(each) < pass.part) return std::nullopt;
        pass.parts = &each;
      }
      if (extent(each) == 1) continue;
      if (step(each) == 0) return std::nullopt;
      read *= extent(each);
      if (pass.parts != nullptr) continue;
      if (step(each) != pass.part || each.from != 0) return std::nullopt;
      pass.part *= extent(each);
    }
    const auto axis = static_cast<std::size_t>(moving_axis(pass) - pass.load->subscripts.begin());
    const auto bytes = static_cast<std::int64_t>(size_of(v.dtype));
    const std::int64_t row = step(rows);
    if (read > row || row > 2 * read || row > target_.l2_bytes / l2_share / bytes)
      return std::nullopt;
    const bool flat = is_flat(type.dims, v.subscripts);
    if (pass.part > (flat ? *type.num_elements() : type.dims[axis]) ||
        pass.part * bytes > target_.profile.lines_ahead * cache_line_bytes)
      pass.parts = nullptr;
    return pass;
  }

  static std::vector<Affine>::const_iterator moving_axis(const Pass& pass) {
    return std::ranges::find_if(pass.load->subscripts, [&](const Affine& a) {
      return split_lane(a, pass.lane).second != 0;
    });
  }

  /// Prefetches the same part of the next row.
  StmtPtr fetch(const Stmt& rows, const Pass& pass) {
    const std::int64_t line =
        cache_line_bytes / static_cast<std::int64_t>(size_of(pass.load->dtype));
    const VarId at = fresh_.var();
    Substitution next;
    next.vars[rows.var] = affine_add(affine_var(rows.var), Affine{1, {}});
    walk(pass.parts->body, [&next](const Stmt& stmt) {
      if (stmt.kind == StmtKind::loop) next.vars[stmt.var] = Affine{stmt.from, {}};
    });
    std::vector<Affine> subscripts = substitute(pass.load, next)->subscripts;
    Affine& moving =
        subscripts[static_cast<std::size_t>(moving_axis(pass) - pass.load->subscripts.begin())];
    moving = affine_add(moving, affine_var(at, line));
    return make_loop(at, 0, (pass.part + line - 1) / line,
                     {make_prefetch(pass.load->buffer, std::move(subscripts), Prefetch::load)},
                     LoopMark::unroll);
  }

  const Loop& loop_;
  const Target& target_;
  Fresh& fresh_;
  std::set<BufferId> written_;
  std::map<const Stmt*, Block> fetches_;  ///< by the loop that they are inserted into
};

}  // namespace

Block fetch_rows_ahead(Scheduling& in, const Block& body) {
  const bool is_small = std::ranges::none_of(in.lowered.loop.buffers, [&](const BufferDecl& each) {
    return each.type.num_bytes().value_or(0) > in.target.l2_bytes;
  });
  if (is_small) return body;
  const Loop now{in.lowered.loop.buffers, in.lowered.loop.statics, body};
  return RowsAhead(now, in.target, in.fresh).run();
}

}  // namespace heddle::jit
