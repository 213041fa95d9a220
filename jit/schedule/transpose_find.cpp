// Recognises transposes: elements that are contiguous in the written memory are strided in some
// memory that is read, and iterations may run in any order. Pure; any thread.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/transpose.hpp"
#include "jit/value/int128.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// With fewer elements along either axis, plain loops touch few enough lines to keep them in cache.
constexpr std::int64_t extent_min = 8;

/// True if different iterations write different elements: each stride exceeds the reach of all
/// smaller strides.
bool writes_each_once(const Loop& loop, const Stmt& store, const std::vector<StmtPtr>& loops) {
  std::vector<std::pair<Int128, std::int64_t>> steps;  // stride, extent
  for (const StmtPtr& each : loops) {
    const Int128 step = stride(loop, store.buffer, store.subscripts, each->var);
    if (extent(each) > 1) steps.emplace_back(step < 0 ? -step : step, extent(each));
  }
  std::ranges::sort(steps);
  Int128 reached = 0;
  for (const auto& [step, count] : steps) {
    if (step <= reached) return false;
    reached += step * (count - 1);
  }
  return true;
}

/// True if iterations may run in any order: they share no element that an iteration writes.
bool is_independent(const Loop& loop, const Block& body, const std::vector<StmtPtr>& loops) {
  std::set<LocalId> own;
  std::map<BufferId, const Stmt*> stores;
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::declare) own.insert(stmt->local);
    if (stmt->kind == StmtKind::assign && !own.contains(stmt->local)) return false;
    if (stmt->kind != StmtKind::store) continue;
    const auto [at, first] = stores.emplace(stmt->buffer, stmt.get());
    if (!first && at->second->subscripts != stmt->subscripts) return false;
    if (first && !writes_each_once(loop, *stmt, loops)) return false;
  }
  bool independent = true;
  walk_values(body, [&](const Value& v) {
    if (v.kind != ValueKind::load) return;
    const auto at = stores.find(v.buffer);
    if (at != stores.end() && at->second->subscripts != v.subscripts) independent = false;
  });
  return independent;
}

/// The loop along which every store is contiguous.
StmtPtr find_along(const Loop& loop, const Block& body, const std::vector<StmtPtr>& loops) {
  for (const StmtPtr& each : loops) {
    bool stores = false;
    bool contiguous = true;
    for (const StmtPtr& stmt : body) {
      if (stmt->kind != StmtKind::store) continue;
      stores = true;
      contiguous = contiguous && stride(loop, stmt->buffer, stmt->subscripts, each->var) == 1;
    }
    if (stores && contiguous) return each;
  }
  return nullptr;
}

/// True if all elements are read where elements of the first store lie.
bool reads_as_it_stores(const Loop& loop, const Block& body) {
  const auto first =
      std::ranges::find_if(body, [](const StmtPtr& stmt) { return stmt->kind == StmtKind::store; });
  if (first == body.end()) return false;
  const Stmt& store = **first;
  const Dims& dims = loop.buffers[store.buffer].type.dims;
  bool alike = true;
  walk_values(body, [&](const Value& v) {
    alike = alike && (v.kind != ValueKind::load || (v.subscripts == store.subscripts &&
                                                    loop.buffers[v.buffer].type.dims == dims));
  });
  return alike;
}

bool contains(const std::vector<ValuePtr>& values, const Value& value) {
  return std::ranges::any_of(values, [&](const ValuePtr& each) { return equal(*each, value); });
}

/// Finds the loads that read across `along`, and the loop along which they are contiguous.
void find_reads(const Loop& loop, const Block& body, Transpose& found) {
  const auto contiguous = [&](const Value& v, const StmtPtr& each) {
    return each != found.along && extent(each) >= extent_min &&
           stride(loop, v.buffer, v.subscripts, each->var) == 1;
  };
  walk_values(body, [&](const Value& v) {
    if (v.kind != ValueKind::load) return;
    const std::int64_t step = stride(loop, v.buffer, v.subscripts, found.along->var);
    if (step == 0 || step == 1) return;
    if (!found.across) {
      const auto at = std::ranges::find_if(
          found.loops, [&](const StmtPtr& each) { return contiguous(v, each); });
      if (at != found.loops.end()) found.across = *at;
    }
    if (!contains(found.reads, v) && found.across && contiguous(v, found.across))
      found.reads.push_back(make_load(v.buffer, v.dtype, v.subscripts));
  });
}

/// True if the value has no operands but elements that are read across, of its own size, and
/// constants, and no operation that costs as much as the limit.
bool is_of_reads(const Value& value, const std::vector<ValuePtr>& reads, std::size_t size,
                 int limit) {
  if (size_of(value.dtype) != size) return false;
  if (value.kind == ValueKind::load) return contains(reads, value);
  if (value.kind == ValueKind::constant) return true;
  return (value.kind == ValueKind::op || value.kind == ValueKind::cast) &&
         own_cost(value) < limit &&
         std::ranges::all_of(
             value.args,
             [&](const ValuePtr& arg) { return is_of_reads(*arg, reads, size, limit); });
}

/// Adds the largest parts of the value that are computed from elements that are read across.
void add_parts(const ValuePtr& value, const std::vector<ValuePtr>& reads, int limit,
               std::vector<ValuePtr>& parts) {
  if (value->kind != ValueKind::constant &&
      is_of_reads(*value, reads, size_of(value->dtype), limit)) {
    if (!contains(parts, *value)) parts.push_back(value);
    return;
  }
  for (const ValuePtr& arg : value->args) add_parts(arg, reads, limit, parts);
}

std::vector<ValuePtr> parts_of_reads(const Block& body, const std::vector<ValuePtr>& reads,
                                     int limit) {
  std::vector<ValuePtr> parts;
  for (const StmtPtr& stmt : body)
    if (stmt->value) add_parts(stmt->value, reads, limit, parts);
  return parts;
}

void find_turned(const Block& body, Transpose& found) {
  found.turned = parts_of_reads(body, found.reads, costly);
  if (found.turned.size() >= found.reads.size()) found.turned = found.reads;
  found.computed = parts_of_reads(body, found.reads, std::numeric_limits<int>::max());
  const bool has_functions =
      std::ranges::any_of(found.computed, [](const ValuePtr& value) { return has_costly(*value); });
  if (!has_functions || found.computed.size() > found.turned.size()) found.computed.clear();
}

}  // namespace

std::optional<Transpose> find_transpose(const Loop& loop, const StmtPtr& nest) {
  Transpose found;
  StmtPtr inner = nest;
  while (is_serial_loop(inner)) {
    if (extent(inner) < 1) return std::nullopt;
    found.loops.push_back(inner);
    if (inner->body.size() != 1 || inner->body[0]->kind != StmtKind::loop) break;
    inner = StmtPtr(inner->body[0]);
  }
  if (found.loops.size() < 2 || !is_straight(inner->body) || reads_as_it_stores(loop, inner->body))
    return std::nullopt;
  found.along = find_along(loop, inner->body, found.loops);
  if (!found.along || extent(found.along) < extent_min) return std::nullopt;
  find_reads(loop, inner->body, found);
  if (found.reads.empty() || !is_independent(loop, inner->body, found.loops)) return std::nullopt;
  find_turned(inner->body, found);
  return found;
}

ValuePtr with_turned(const Transpose& found, const ValuePtr& value,
                     const std::function<ValuePtr(std::size_t)>& make) {
  return replaced_parts(value, [&](const ValuePtr& part) -> ValuePtr {
    for (std::size_t k = 0; k < found.turned.size(); ++k)
      if (equal(*found.turned[k], *part)) return make(k);
    return nullptr;
  });
}

bool is_transpose(const Loop& loop, const StmtPtr& nest) {
  return find_transpose(loop, nest).has_value();
}

}  // namespace heddle::jit
