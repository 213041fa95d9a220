// See rows_in_blocks.hpp.
#include "jit/schedule/rows_in_blocks.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/footprint.hpp"
#include "jit/schedule/shrunk_scratch.hpp"

namespace heddle::jit {
namespace {

constexpr std::int64_t block_min = 128, block_wanted = 256, block_max = 512;
/// Fewer blocks than this would leave processors idle.
constexpr std::int64_t blocks_of_rows_min = 16;
/// Rows beyond this are long enough for loops of their own.
constexpr std::int64_t row_bytes_max = 64;

/// True if the loop's iterations share nothing, so that its blocks may run in parts.
bool may_be_cut(const StmtPtr& stmt, const LoopQuestion& fixed) {
  if (stmt->kind != StmtKind::loop || stmt->mark != LoopMark::serial || stmt->from != 0 ||
      stmt->to < blocks_of_rows_min * block_wanted || fixed(stmt) ||
      carries(footprint(*stmt), stmt->to))
    return false;
  std::set<LocalId> own;
  bool apart = true;
  walk(stmt->body, [&](const Stmt& inner) {
    if (inner.kind == StmtKind::declare) own.insert(inner.local);
    if (inner.kind == StmtKind::assign) apart = apart && own.contains(inner.local);
    if (!inner.value) return;
    walk(*inner.value, [&](const Value& v) {
      if (v.kind == ValueKind::local) apart = apart && own.contains(v.local);
    });
  });
  return apart;
}

/// Neighbouring loops, of which each uses rows of those before.
class LoopsOverRows {
 public:
  LoopsOverRows(Scheduling& in, const StmtPtr& first)
      : in_(in), loops_{first}, touched_(footprint(*first)) {}

  /// Takes the loop, if it needs nothing but its own rows from those before, and some of these.
  [[nodiscard]] bool add(const StmtPtr& loop) {
    if (loop->to != loops_[0]->to) return false;
    bool takes = false;
    const Footprint theirs = footprint(*loop);
    for (const auto& [buffer, their] : theirs) {
      const auto own = touched_.find(buffer);
      if (own == touched_.end() || (!own->second.written && !their.written)) continue;
      FootprintPart both = own->second;
      both.add(their);
      if (!own_axis(both)) return false;
      takes = takes || own->second.written;
    }
    if (!takes) return false;
    for (const auto& [buffer, their] : theirs) {
      const auto [at, is_new] = touched_.try_emplace(buffer, their);
      if (!is_new) at->second.add(their);
    }
    loops_.push_back(loop);
    return true;
  }

  [[nodiscard]] Block made() {
    if (loops_.size() == 1) return loops_;
    const ShrunkAxes shrunk = find_scratch();
    if (shrunk.empty()) return loops_;
    const std::int64_t count = loops_[0]->to, size = rows_of_block(count);
    for (const auto& [buffer, axis] : shrunk) set_extent(in_.lowered, buffer, axis, size);
    const std::int64_t blocks = count / size;
    Block all{of_blocks(0, blocks, size, size, shrunk)};
    // The rest is a block, too: each part has scratch of its own. So has the rest, lest later steps
    // take it for a reader of what the other blocks have stored.
    if (blocks * size < count) {
      const StmtPtr rest = of_blocks(blocks, blocks + 1, size, count - blocks * size, shrunk);
      Substitution own;
      for (const auto& [buffer, axis] : shrunk) {
        const std::string label(in_.lowered.tensors[buffer].label());
        const ArrayType type = in_.lowered.loop.buffers[buffer].type;
        own.buffers[buffer] = in_.add_scratch(label.c_str(), type.dtype, type.dims);
      }
      all.push_back(substitute(rest, own));
    }
    return all;
  }

 private:
  /// The axis that all accesses subscript by the loop's variable.
  [[nodiscard]] static std::optional<std::size_t> own_axis(const FootprintPart& part) {
    if (part.whole || !part.own_axes) return std::nullopt;
    for (const auto& [axis, use] : *part.own_axes) {
      const Distances all = use.all();
      if (all.lowest == 0 && all.highest == 0) return axis;
    }
    return std::nullopt;
  }

  /// The scratch of short rows that no other statement uses; none where it fits the first-level
  /// cache as it is.
  [[nodiscard]] ShrunkAxes find_scratch() const {
    const std::vector<BufferDecl>& buffers = in_.lowered.loop.buffers;
    const std::vector<std::int64_t> all =
        accesses_of_buffers(in_.lowered.loop.body, buffers.size());
    const std::vector<std::int64_t> own = accesses_of_buffers(loops_, buffers.size());
    ShrunkAxes found;
    std::int64_t bytes = 0;
    for (const auto& [buffer, part] : touched_) {
      const BufferDecl& decl = buffers[buffer];
      const std::optional<std::size_t> axis = own_axis(part);
      if (decl.role != Role::scratch || all[buffer] != own[buffer] || !part.written || !axis ||
          decl.type.dims[*axis] != loops_[0]->to)
        continue;
      const std::int64_t each = decl.type.num_bytes().value_or(0);
      if (each / loops_[0]->to > row_bytes_max) continue;
      bytes += each;
      found[buffer] = *axis;
    }
    return bytes > in_.target.l1_bytes ? found : ShrunkAxes();
  }

  /// Rows of a block: whole vectors, without a rest if that is possible.
  [[nodiscard]] static std::int64_t rows_of_block(std::int64_t count) {
    for (const std::int64_t lanes : {64, 16}) {  // of four vectors, of one
      const std::int64_t most = std::min(block_max, count / blocks_of_rows_min);
      for (std::int64_t rows = most / lanes * lanes; rows >= block_min; rows -= lanes)
        if (count % rows == 0) return rows;
    }
    return block_wanted;
  }

  /// for block in from..to { the loops, over `rows` rows }
  [[nodiscard]] StmtPtr of_blocks(std::int64_t from, std::int64_t to, std::int64_t size,
                                  std::int64_t rows, const ShrunkAxes& shrunk) {
    const VarId block = in_.fresh.var();
    Block each;
    for (const StmtPtr& loop : loops_) {
      const VarId row = in_.fresh.var();
      Substitution by;
      by.vars[loop->var] = affine_add(affine_var(block, size), affine_var(row));
      Block body;
      for (const StmtPtr& stmt : loop->body)
        body.push_back(substitute(with_axes_at(stmt, shrunk, affine_var(row)), by));
      append(each, with_own_names(in_.fresh, {make_loop(row, 0, rows, std::move(body))}, {}));
    }
    return make_loop(block, from, to, std::move(each));
  }

  Scheduling& in_;
  Block loops_;
  Footprint touched_;
};

}  // namespace

Block with_rows_in_blocks(Scheduling& in, const Block& body, const LoopQuestion& fixed) {
  Block made;
  for (std::size_t k = 0; k < body.size();) {
    if (!may_be_cut(body[k], fixed)) {
      made.push_back(body[k++]);
      continue;
    }
    LoopsOverRows rows(in, body[k]);
    std::size_t end = k + 1, next = past_comments(body, end);
    Block comments;
    while (next < body.size() && may_be_cut(body[next], fixed) && rows.add(body[next])) {
      append_comments(comments, body, end, next);
      end = next + 1;
      next = past_comments(body, end);
    }
    append(made, comments);
    append(made, rows.made());
    k = end;
  }
  return made;
}

}  // namespace heddle::jit
