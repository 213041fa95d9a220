// See cut.hpp.
#include "jit/schedule/cut.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "jit/loop/group_body.hpp"
#include "jit/loop/own_scratch.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/schedule/parallel.hpp"
#include "jit/system/limits.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// The fewest nodes of a repeated range of statements that becomes a separate kernel: the kernel
/// saves a compile, but costs a call and passes values through memory.
constexpr std::size_t alike_nodes_min = 60;

/// The longest period, in groups of statements, that is examined for consecutive repetitions.
constexpr std::size_t alike_period_max = 32;

/// Compilers see all steps of an operation (see own_cost()): so many steps count as a further
/// node.
constexpr std::size_t steps_per_node = 4;

class Nodes {
 public:
  std::size_t of(const Block& block) {
    std::size_t sum = 0;
    for (const StmtPtr& stmt : block) sum += of(*stmt);
    return sum;
  }
  std::size_t of(const Stmt& stmt) {
    count_step();
    if (stmt.kind == StmtKind::comment) return 0;  // comments do not count
    std::size_t sum = 1;
    if (stmt.value) {
      met_.clear();
      sum += of(*stmt.value);
    }
    const std::size_t inner = of(stmt.body);
    const bool unrolled = stmt.kind == StmtKind::loop && stmt.mark == LoopMark::unroll;
    const auto times = unrolled && stmt.to > stmt.from
                           ? static_cast<std::size_t>(stmt.to - stmt.from)
                           : std::size_t{1};
    return sum + times * inner;
  }

 private:
  /// A value with two uses is computed once, and counted once.
  std::size_t of(const Value& value) {
    if (!met_.insert(&value).second) return 0;
    std::size_t sum = 1 + static_cast<std::size_t>(own_cost(value)) / steps_per_node;
    for (const ValuePtr& arg : value.args) sum += of(*arg);
    return sum;
  }

  std::unordered_set<const Value*> met_;
};

template <class Id>
void meet_part(std::map<Id, Id>& names, Id id) {
  names.try_emplace(id, static_cast<Id>(names.size()));
}

/// The buffers and statics that some statements use, numbered by first appearance; statics in the
/// program's order.
class CutUses {
 public:
  explicit CutUses(std::span<const StmtPtr> stmts) {
    for (const StmtPtr& stmt : stmts) statement(*stmt);
    for (const StaticId id : statics_) meet_part(by.statics, id);
  }

  Substitution by;
  std::set<BufferId> written;

 private:
  void affines(const std::vector<Affine>& indices) {
    for (const Affine& index : indices) affine(index);
  }
  void affine(const Affine& index) {
    for (const AffineTerm& term : index.terms) {
      if (term.kind == AffineTerm::Kind::static_index) statics_.insert(term.id);
    }
  }

  void statement(const Stmt& stmt) {
    count_step();
    if (binds_variable(stmt)) meet_part(by.loops, stmt.var);
    if (stmt.kind == StmtKind::declare) meet_part(by.locals, stmt.local);
    const bool writes = stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero;
    if (writes || stmt.kind == StmtKind::prefetch) meet_part(by.buffers, stmt.buffer);
    if (writes) written.insert(stmt.buffer);
    affines(stmt.subscripts);
    if (stmt.value) value(stmt.value);
    for (const StmtPtr& inner : stmt.body) statement(*inner);
  }

  void value(const ValuePtr& v) {
    if (!met_.insert(v.get()).second) return;
    if (v->kind == ValueKind::load) meet_part(by.buffers, v->buffer);
    affines(v->subscripts);
    affine(v->index);
    for (const ValuePtr& arg : v->args) value(arg);
  }

  std::set<StaticId> statics_;
  std::unordered_set<const Value*> met_;
};

/// `own`: scratch whose role stays, as no other kernel reads the content.
KernelPart part_of(const Loop& loop, std::span<const StmtPtr> stmts,
                   const std::set<BufferId>& own) {
  const CutUses uses(stmts);
  KernelPart part;
  part.entries.resize(uses.by.buffers.size());
  part.loop.buffers.resize(uses.by.buffers.size());
  for (const auto& [from, to] : uses.by.buffers) {
    part.entries[to] = from;
    part.loop.buffers[to] = loop.buffers[from];
    // Scratch of the program may hold a result of an earlier kernel.
    Role& role = part.loop.buffers[to].role;
    const bool is_own = own.contains(from);
    if (role != Role::merge && !is_own)
      role = uses.written.contains(from) ? Role::inout : Role::input;
  }
  for (const auto& [from, to] : uses.by.statics) {
    part.statics.push_back(from);
    part.loop.statics.push_back(loop.statics[from]);
  }
  for (const StmtPtr& stmt : stmts) part.loop.body.push_back(substitute(stmt, uses.by));
  return part;
}

/// The locals that a statement uses or declares.
std::set<LocalId> locals_of(const Stmt& stmt) {
  std::set<LocalId> locals;
  std::unordered_set<const Value*> met;
  const auto value = [&](const auto& self, const Value& v) -> void {
    if (!met.insert(&v).second) return;
    if (v.kind == ValueKind::local) locals.insert(v.local);
    for (const ValuePtr& arg : v.args) self(self, *arg);
  };
  const auto statement = [&](const auto& self, const Stmt& s) -> void {
    count_step();
    if (s.kind == StmtKind::declare || s.kind == StmtKind::assign) locals.insert(s.local);
    if (s.value) value(value, *s.value);
    for (const StmtPtr& inner : s.body) self(self, *inner);
  };
  statement(statement, stmt);
  return locals;
}

/// True if the statement consists only of prefetches and comments for the next statement.
bool only_announces(const Stmt& stmt) {
  count_step();
  if (stmt.kind == StmtKind::prefetch || stmt.kind == StmtKind::comment) return true;
  return !stmt.body.empty() && std::ranges::all_of(stmt.body, [](const StmtPtr& inner) {
    return only_announces(*inner);
  });
}

/// For each statement of the top level, the last statement that must stay in the same kernel: a
/// user of a local declared there, or the statement that a prefetch or comment precedes. A
/// statement without such a partner has its own index.
std::vector<std::size_t> last_needed(const Block& body) {
  std::map<LocalId, std::size_t> declared, used;
  for (std::size_t k = 0; k < body.size(); ++k) {
    if (body[k]->kind == StmtKind::declare) declared.emplace(body[k]->local, k);
    if (declared.empty()) continue;
    for (const LocalId local : locals_of(*body[k])) used[local] = k;
  }
  std::vector<std::size_t> last(body.size());
  std::iota(last.begin(), last.end(), 0);
  for (const auto& [local, at] : declared) last[at] = std::max(last[at], used[local]);
  for (std::size_t k = 0; k + 1 < body.size(); ++k) {
    if (only_announces(*body[k])) last[k] = std::max(last[k], k + 1);
  }
  return last;
}

/// Statements of the top level that stay together.
struct Joined {
  std::size_t begin, end;
  std::size_t nodes;
  std::int64_t block_bytes;
  std::int64_t shared_bytes = 0;  ///< shared by the threads of a group
  bool meets = false;             ///< the threads of a group wait for each other
};

std::vector<Joined> groups_of(const Loop& loop) {
  const std::vector<std::size_t> last = last_needed(loop.body);
  std::vector<Joined> groups;
  for (std::size_t k = 0; k < loop.body.size();) {
    Joined group{k, last[k] + 1, 0, 0, 0, false};
    for (std::size_t j = k; j < group.end; ++j) {
      group.end = std::max(group.end, last[j] + 1);
      group.nodes += Nodes().of(*loop.body[j]);
      group.block_bytes += block_bytes(Block{loop.body[j]});
      const GroupNeeds needs = group_needs(loop.body[j]);
      group.shared_bytes += needs.shared_bytes;
      group.meets = group.meets || needs.meets;
    }
    k = group.end;
    groups.push_back(group);
  }
  return groups;
}

/// Hashes of the text of groups of statements.
struct Texts {
  std::vector<std::string> one, two;         ///< of a group; of two consecutive repeated groups
  std::map<std::string, std::size_t> count;  ///< number of occurrences of each hash

  Texts(const Loop& loop, const std::vector<Joined>& groups)
      : one(groups.size()), two(groups.size()) {
    const std::span<const StmtPtr> body(loop.body);
    const auto text_of = [&](std::size_t first, std::size_t last) {
      const std::size_t begin = groups[first].begin;
      return hash(part_of(loop, body.subspan(begin, groups[last].end - begin), {}).loop);
    };
    for (std::size_t k = 0; k < groups.size(); ++k) ++count[one[k] = text_of(k, k)];
    for (std::size_t k = 0; k + 1 < groups.size(); ++k) {
      if (is_repeated(k) && is_repeated(k + 1)) ++count[two[k] = text_of(k, k + 1)];
    }
  }

  [[nodiscard]] bool is_repeated(std::size_t k) const { return count.at(one[k]) > 1; }
  /// True if the group and the next one occur only together.
  [[nodiscard]] bool stays_with_next(std::size_t k) const {
    if (two[k].empty()) return false;
    const std::size_t together = count.at(two[k]);
    return together == count.at(one[k]) && together == count.at(one[k + 1]);
  }
  /// The number of groups from `first` on that equal the group `period` places before them.
  [[nodiscard]] std::size_t run_of(std::size_t first, std::size_t period) const {
    std::size_t at = first;
    while (at + period < one.size() && one[at] == one[at + period] &&
           (at == first || two[at - 1] == two[at - 1 + period]))
      ++at;
    return at - first;
  }
};

/// The groups that begin a kernel, chosen so that equal kernels, such as the layers of a network,
/// have the same text. Large repeated ranges become separate kernels. A repeated range is either a
/// longest row of groups that always occur together, with the same buffers in common, or many
/// repetitions of a few small groups, such as moves of small arrays, in a single kernel.
std::vector<bool> cuts_around_alike(const Loop& loop, const std::vector<Joined>& groups) {
  std::vector<bool> cuts(groups.size());
  std::size_t all = 0;
  for (const Joined& each : groups) all += each.nodes;
  if (all < 2 * alike_nodes_min) return cuts;

  const Texts texts(loop, groups);
  const auto nodes_between = [&groups](std::size_t first, std::size_t end) {
    std::size_t nodes = 0;
    while (first < end) nodes += groups[first++].nodes;
    return nodes;
  };
  const auto cut_at = [&cuts](std::size_t group) {
    if (group < cuts.size()) cuts[group] = true;
  };
  for (std::size_t first = 0, next = 0; first < groups.size(); first = next) {
    while (texts.stays_with_next(next++)) {
    }
    if (!texts.is_repeated(first) || nodes_between(first, next) < alike_nodes_min) continue;
    cut_at(first);
    cut_at(next);
  }
  // By the text of a turn (one repetition): begin and end of each range with enough turns for a
  // kernel.
  std::map<std::string, std::vector<std::pair<std::size_t, std::size_t>>> turns;
  for (std::size_t first = 0; first < groups.size(); ++first) {
    std::string turn;
    std::size_t nodes = 0;  // of the turn
    for (std::size_t period = 1; period <= std::min(alike_period_max, groups.size() - first);
         ++period) {
      turn += texts.one[first + period - 1];
      nodes += groups[first + period - 1].nodes;
      if (nodes == 0) continue;
      if (nodes >= alike_nodes_min) break;
      const std::size_t end = first + (alike_nodes_min + nodes - 1) / nodes * period;
      if (first + period + texts.run_of(first, period) < end) continue;
      turns[turn].emplace_back(first, end);
      first = end - 1;
      break;
    }
  }
  for (const auto& [turn, places] : turns) {
    if (places.size() < 2) continue;
    for (const auto& [first, end] : places) {
      cut_at(first);
      cut_at(end);
    }
  }
  return cuts;
}

/// The statements of a kernel besides its parallel loops. All parts compute the scalars among them,
/// the first part runs the others: beside a parallel loop, neither may write what the other
/// touches.
class FirstPart {
 public:
  explicit FirstPart(const Loop& loop) : loop_(&loop), scalars_(loop), others_(loop) {}

  void add(const StmtPtr& stmt, const std::set<BufferId>& apart) {
    Touched next(*loop_);
    next.add(stmt);
    if (next.is_parallel()) return;
    const bool scalar =
        !binds_variable(*stmt) && stmt->kind != StmtKind::zero && stmt->kind != StmtKind::store;
    meets_ = meets_ || (scalar ? others_ : scalars_).meets(next, apart);
    (scalar ? scalars_ : others_).add(next);
  }
  void add(const FirstPart& more, const std::set<BufferId>& apart) {
    meets_ = meets(more, apart);
    scalars_.add(more.scalars_);
    others_.add(more.others_);
  }
  /// True if scalars meet other statements, among these and `more`.
  [[nodiscard]] bool meets(const FirstPart& more, const std::set<BufferId>& apart) const {
    return meets_ || more.meets_ || scalars_.meets(more.others_, apart) ||
           others_.meets(more.scalars_, apart);
  }

 private:
  const Loop* loop_;
  Touched scalars_, others_;
  bool meets_ = false;
};

KernelPart whole(const Loop& loop, ScratchOf scratch) {
  KernelPart part{with_parts_apart(loop, scratch), std::vector<std::uint32_t>(loop.buffers.size()),
                  std::vector<std::uint32_t>(loop.statics.size())};
  std::iota(part.entries.begin(), part.entries.end(), 0);
  std::iota(part.statics.begin(), part.statics.end(), 0);
  return part;
}

}  // namespace

std::size_t nodes_of(const Loop& loop) { return Nodes().of(loop.body); }

std::vector<KernelPart> cut_kernels(const Loop& loop, std::size_t nodes_max, ScratchOf scratch) {
  if (nodes_max == uncut) return {whole(loop, scratch)};
  const std::vector<Joined> groups = groups_of(loop);
  if (groups.size() < 2) return {whole(loop, scratch)};
  const std::vector<bool> cut = cuts_around_alike(loop, groups);
  const std::set<BufferId> own = own_scratch(loop);
  const std::set<BufferId> apart = scratch == ScratchOf::each_part ? own : std::set<BufferId>();
  const std::span<const StmtPtr> body(loop.body);
  std::vector<KernelPart> parts;
  const auto cut_off = [&](std::span<const StmtPtr> statements) {
    KernelPart& part = parts.emplace_back(part_of(loop, statements, own));
    part.loop = with_parts_apart(std::move(part.loop), scratch);
  };
  std::size_t begin = 0, nodes = 0;  // of the part
  std::int64_t block_bytes = 0, shared_bytes = 0;
  bool meets = false;
  Touched touched(loop);
  FirstPart first(loop);
  bool due = false;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    const Joined& group = groups[k];
    Touched next(loop);
    FirstPart next_first(loop);
    for (std::size_t at = group.begin; at < group.end; ++at) {
      next.add(body[at]);
      next_first.add(body[at], apart);
    }
    due = due || cut[k] || nodes + group.nodes > nodes_max ||
          block_bytes + group.block_bytes > block_bytes_max ||
          shared_bytes + group.shared_bytes > group_bytes_max ||
          (nodes > 0 && group.nodes > 0 && meets != group.meets) ||
          ((touched.is_parallel() || next.is_parallel()) &&
           (touched.meets(next, apart) || first.meets(next_first, apart)));
    if (due && nodes > 0 && group.nodes > 0) {
      cut_off(body.subspan(begin, group.begin - begin));
      begin = group.begin;
      nodes = 0;
      block_bytes = shared_bytes = 0;
      touched = Touched(loop);
      first = FirstPart(loop);
    }
    if (group.nodes > 0) due = false;
    nodes += group.nodes;
    block_bytes += group.block_bytes;
    shared_bytes += group.shared_bytes;
    if (group.nodes > 0) meets = group.meets;
    touched.add(next);
    first.add(next_first, apart);
  }
  if (parts.empty()) return {whole(loop, scratch)};
  cut_off(body.subspan(begin));
  return parts;
}

}  // namespace heddle::jit
