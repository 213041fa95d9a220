// See schedule/hoist.hpp.
#include "jit/schedule/hoist.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// In simple operations: a cheaper value is faster to compute than to load.
constexpr int cost_min = 8;
/// The fewest uses of a value that is stored to memory, and the most bytes of all such values of a
/// kernel.
constexpr std::int64_t uses_min = 8;
constexpr std::int64_t bytes_max = std::int64_t{32} << 20;

bool is_costly(const Value& value) { return cost_of(value, cost_min) >= cost_min; }

/// The variables, locals and buffers that the iterations of a loop may change.
struct Changed {
  std::set<VarId> vars;
  std::set<LocalId> locals;
  std::set<BufferId> buffers;

  explicit Changed(const StmtPtr& loop) {
    walk(Block{loop}, [this](const Stmt& stmt) {
      if (binds_variable(stmt)) vars.insert(stmt.var);
      if (stmt.kind == StmtKind::declare || stmt.kind == StmtKind::assign)
        locals.insert(stmt.local);
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) buffers.insert(stmt.buffer);
    });
  }
  [[nodiscard]] bool touches_memory_of(const Value& value) const {
    bool touches = false;
    walk(value, [&](const Value& v) {
      touches |= (v.kind == ValueKind::load && buffers.contains(v.buffer)) ||
                 (v.kind == ValueKind::local && locals.contains(v.local));
    });
    return touches;
  }
};

std::set<VarId> vars_of(const Value& value) {
  std::set<VarId> vars;
  const auto add = [&vars](const Affine& index) {
    for (const AffineTerm& term : index.terms) {
      if (term.kind == AffineTerm::Kind::loop) vars.insert(term.id);
    }
  };
  walk(value, [&](const Value& v) {
    add(v.index);
    std::ranges::for_each(v.subscripts, add);
  });
  return vars;
}

/// Calls visit(value, hash) for each operation and conversion; a value's hash is made from the
/// hashes of its operands.
template <class Visit>
std::size_t hash_of(const Value& v, const Visit& visit) {
  std::size_t hash = 0;
  const auto mix = [&hash](auto part) {
    hash = (hash ^ static_cast<std::size_t>(part)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
  };
  const auto mix_index = [&mix](const Affine& index) {
    mix(index.constant);
    for (const AffineTerm& term : index.terms) {
      mix(term.id);
      mix(term.coefficient);
    }
  };
  for (const ValuePtr& arg : v.args) mix(hash_of(*arg, visit));
  mix(v.kind);
  mix(v.dtype);
  mix(v.op);
  mix(v.buffer);
  mix(v.local);
  mix(v.scalar.i);
  mix(std::bit_cast<std::uint64_t>(v.scalar.f));
  mix_index(v.index);
  std::ranges::for_each(v.subscripts, mix_index);
  if (v.kind == ValueKind::op || v.kind == ValueKind::cast) visit(v, hash);
  return hash;
}

std::size_t hash_of(const Value& v) {
  return hash_of(v, [](const Value&, std::size_t) {});
}

/// Values already computed, and their replacements.
class Known {
 public:
  /// The replacement; null if there is none.
  [[nodiscard]] ValuePtr find(const Value& value) const {
    if (entries_.empty()) return nullptr;
    const auto [from, to] = by_hash_.equal_range(hash_of(value));
    for (auto at = from; at != to; ++at) {
      const auto entry = entries_.find(at->second);
      if (entry != entries_.end() && equal(*entry->second.value, value)) return entry->second.by;
    }
    return nullptr;
  }

  void add(const ValuePtr& value, ValuePtr by) {
    const std::size_t id = next_++;
    by_hash_.emplace(hash_of(*value), id);
    walk(*value, [&](const Value& v) {
      if (v.kind == ValueKind::load) of_buffers_[v.buffer].push_back(id);
      if (v.kind == ValueKind::local) of_locals_[v.local].push_back(id);
    });
    entries_.emplace(id, Entry{value, std::move(by)});
  }

  /// Forgets the values that read a changed buffer or local.
  void forget(const Changed& changed) {
    for (const BufferId buffer : changed.buffers) forget(of_buffers_, buffer);
    for (const LocalId local : changed.locals) forget(of_locals_, local);
  }
  void forget_all() { *this = Known(); }

 private:
  struct Entry {
    ValuePtr value, by;
  };
  using Readers = std::unordered_map<std::uint32_t, std::vector<std::size_t>>;

  void forget(Readers& readers, std::uint32_t id) {
    const auto at = readers.find(id);
    if (at == readers.end()) return;
    for (const std::size_t entry : at->second) entries_.erase(entry);
    readers.erase(at);
  }

  std::size_t next_ = 0;
  std::unordered_map<std::size_t, Entry> entries_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;  // includes forgotten entries
  Readers of_buffers_, of_locals_;                             // include forgotten entries
};

/// The value, with the largest costly parts for which `replace` returns a value replaced by that
/// value; equal parts have the same replacement.
template <class Replace>
ValuePtr replaced(const ValuePtr& value, Known& known, const Replace& replace) {
  if (value->kind != ValueKind::op && value->kind != ValueKind::cast) return value;
  if (!is_costly(*value)) return value;
  if (ValuePtr by = known.find(*value)) return by;
  if (ValuePtr by = replace(value)) {
    known.add(value, by);
    return by;
  }
  std::vector<ValuePtr> args;
  bool same = true;
  for (const ValuePtr& arg : value->args) {
    args.push_back(replaced(arg, known, replace));
    same = same && args.back() == arg;
  }
  if (same) return value;
  return value->kind == ValueKind::op ? make_op(value->op, std::move(args))
                                      : make_cast(args[0], value->dtype);
}

/// The statements with `change` applied to their values; `around` holds the surrounding loops and
/// computed positions.
template <class Change>
Block changed(const Block& body, std::vector<StmtPtr>& around, const Change& change) {
  Block result;
  for (const StmtPtr& stmt : body) {
    StmtPtr done = stmt;
    if (stmt->value) {
      ValuePtr value = change(stmt->value);
      if (value != stmt->value) done = with_value(*stmt, std::move(value));
    }
    if (binds_variable(*stmt)) {
      around.push_back(stmt);
      done = with_body(*done, changed(stmt->body, around, change));
      around.pop_back();
    }
    result.push_back(std::move(done));
  }
  return result;
}

/// The factors of a contraction, which are computed only once where they are copied.
std::set<const Value*> factors_of(const Loop& loop, const StmtPtr& nest) {
  std::set<const Value*> parts;
  if (const std::optional<Contraction> c = find_contraction(loop, nest)) {
    for (const ValuePtr& factor : {c->a, c->b})
      walk(*factor, [&parts](const Value& v) { parts.insert(&v); });
  }
  return parts;
}

/// The nest, preceded by nests that fill scratch of at most `bytes_left` bytes.
Block with_stored_values(Scheduling& in, const StmtPtr& nest, std::int64_t& bytes_left) {
  const Changed inside(nest);
  const std::set<const Value*> factors = factors_of(in.lowered.loop, nest);
  std::vector<StmtPtr> around{nest};
  Known known;
  Block result;
  const auto store = [&](const ValuePtr& value) -> ValuePtr {
    const std::set<VarId> vars = vars_of(*value);
    if (factors.contains(value.get()) || inside.touches_memory_of(*value)) return nullptr;
    Substitution by;
    Dims dims;
    std::vector<Affine> here, there;
    std::vector<StmtPtr> own;
    std::int64_t uses = 1;
    for (const StmtPtr& loop : around) {
      if (loop->kind == StmtKind::at) {
        if (vars.contains(loop->var))
          return nullptr;  // no loop enumerates the values of a position
        continue;
      }
      if (!vars.contains(loop->var)) {
        uses *= std::max<std::int64_t>(0, loop->to - loop->from);
        continue;
      }
      own.push_back(loop);
      dims.push_back(loop->to);
      by.loops[loop->var] = in.fresh.var();
      here.push_back(affine_var(loop->var));
      there.push_back(affine_var(by.loops[loop->var]));
    }
    const ArrayType type{value->dtype, dims};
    const std::int64_t bytes = type.num_bytes().value_or(bytes_max + 1);
    if (uses < uses_min || bytes > bytes_left) return nullptr;
    bytes_left -= bytes;
    const BufferId buffer = in.add_scratch("shared value", value->dtype, dims);
    Block fill{make_store(buffer, std::move(there), substitute(value, by))};
    for (std::size_t k = own.size(); k-- > 0;) {
      Block outer{make_loop(by.loops[own[k]->var], own[k]->from, own[k]->to, std::move(fill))};
      fill = std::move(outer);
    }
    result.insert(result.end(), fill.begin(), fill.end());
    return make_load(buffer, value->dtype, std::move(here));
  };
  Block body = changed(nest->body, around,
                       [&](const ValuePtr& value) { return replaced(value, known, store); });
  result.push_back(with_body(*nest, std::move(body)));
  return result;
}

bool reads_local(const Block& block, LocalId local) {
  bool reads = false;
  walk_values(block, [&](const Value& v) {
    reads = reads || (v.kind == ValueKind::local && v.local == local);
  });
  return reads;
}

/// Hashes of the costly values of a block, without those of loops inside.
class Hashes {
 public:
  explicit Hashes(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (!stmt->value) continue;
      hash_of(*stmt->value, [this](const Value& v, std::size_t hash) {
        if (!is_costly(v)) return;
        hashes_[&v] = hash;
        ++counts_[hash];
      });
    }
  }

  /// The number of values of the block with the same hash as `value`, including `value` itself.
  [[nodiscard]] int count_like(const Value& value) const {
    const auto hash = hashes_.find(&value);
    return hash == hashes_.end() ? 1 : counts_.at(hash->second);
  }

 private:
  std::unordered_map<const Value*, std::size_t> hashes_;
  std::unordered_map<std::size_t, int> counts_;
};

}  // namespace

void store_shared_values(Scheduling& in) {
  Block result;
  std::int64_t bytes_left = bytes_max;
  for (const StmtPtr& stmt : in.lowered.loop.body) {
    if (stmt->kind != StmtKind::loop) {
      result.push_back(stmt);
      continue;
    }
    const Block made = with_stored_values(in, stmt, bytes_left);
    const auto nest = made.end() - 1;
    // Sums stay next to their declarations, by which schedules recognise them.
    auto at = result.end();
    while (at != result.begin() && at[-1]->kind == StmtKind::declare &&
           !reads_local(Block(made.begin(), nest), at[-1]->local))
      --at;
    result.insert(at, made.begin(), nest);
    result.push_back(*nest);
  }
  in.lowered.loop.body = std::move(result);
}

Block hoist_values(Fresh& fresh, const Block& body) {
  Block result;
  Known known;  // known at this place: later loops may share values computed for an earlier loop
  for (const StmtPtr& stmt : body) {
    const Changed inside(stmt);
    const bool is_loop = stmt->kind == StmtKind::loop;
    if (binds_variable(*stmt)) known.forget(inside);
    const bool repeats = is_loop && stmt->mark == LoopMark::serial && stmt->from < stmt->to;
    const auto hoist = [&](const ValuePtr& value) -> ValuePtr {
      const std::set<VarId> vars = vars_of(*value);
      const bool moves =
          std::ranges::any_of(vars, [&](VarId var) { return inside.vars.contains(var); });
      if (!repeats || moves || inside.touches_memory_of(*value)) return nullptr;
      const LocalId local = fresh.local();
      result.push_back(make_declare(local, value));
      return make_local(local, value->dtype);
    };
    std::vector<StmtPtr> around;
    const Block done = changed(
        {stmt}, around, [&](const ValuePtr& value) { return replaced(value, known, hoist); });
    const bool nests = binds_variable(*stmt) && stmt->mark != LoopMark::lanes;
    result.push_back(nests ? with_body(*done[0], hoist_values(fresh, done[0]->body)) : done[0]);
    if (!binds_variable(*stmt)) known.forget(inside);
  }
  return result;
}

Block share_values(Fresh& fresh, const Block& body) {
  Block result;
  Known known;
  const Hashes hashes(body);
  for (const StmtPtr& stmt : body) {
    if (binds_variable(*stmt)) {
      const StmtPtr outer = with_body(*stmt, share_values(fresh, stmt->body));
      result.push_back(outer);
      known.forget_all();
      continue;
    }
    const auto share = [&](const ValuePtr& value) -> ValuePtr {
      if (hashes.count_like(*value) < 2) return nullptr;
      const LocalId local = fresh.local();
      result.push_back(make_declare(local, value));
      return make_local(local, value->dtype);
    };
    StmtPtr done = stmt;
    if (stmt->value) {
      ValuePtr value = replaced(stmt->value, known, share);
      if (value != stmt->value) done = with_value(*stmt, std::move(value));
    }
    result.push_back(done);
    known.forget(Changed(stmt));
  }
  return result;
}

Block share_loads(Fresh& fresh, const Block& body) {
  Block result;
  for (const StmtPtr& stmt : body) {
    if (!binds_variable(*stmt)) {
      result.push_back(stmt);
      continue;
    }
    if (stmt->kind != StmtKind::at || !is_straight(stmt->body)) {
      result.push_back(with_body(*stmt, share_loads(fresh, stmt->body)));
      continue;
    }
    const Changed changed(stmt);
    std::vector<std::pair<ValuePtr, LocalId>> shared;
    Block inner;
    const auto share = [&](ValuePtr v) {
      if (v->kind != ValueKind::load || size_of(v->dtype) < 4 || changed.touches_memory_of(*v))
        return v;
      const auto is_same = [&](const auto& other) { return equal(*other.first, *v); };
      auto known = std::ranges::find_if(shared, is_same);
      if (known == shared.end()) {
        std::int64_t uses = 0;
        walk_values(stmt->body, [&](const Value& other) { uses += equal(other, *v) ? 1 : 0; });
        if (uses < 2) return v;
        known = shared.insert(known, {v, fresh.local()});
        inner.push_back(make_declare(known->second, v));
      }
      return make_local(known->second, v->dtype);
    };
    Block rest;
    for (const StmtPtr& each : stmt->body)
      rest.push_back(each->value ? with_value(*each, rebuild(each->value, share)) : each);
    append(inner, rest);
    result.push_back(with_body(*stmt, std::move(inner)));
  }
  return result;
}

}  // namespace heddle::jit
