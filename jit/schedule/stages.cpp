// See stages.hpp.
#include "jit/schedule/stages.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// A local that later stages read is kept from this cost on; a cheaper one is computed again.
constexpr int kept_cost = 4;
/// More values between stages than this would leave the first-level cache busy.
constexpr std::size_t blocks_max = 12;

bool may_be_in_block(DType type) { return type != DType::bool_ && size_of(type) >= 4; }

/// Straight-line code whose statements declare locals, and store elements of buffers and blocks.
class Stages {
 public:
  Stages(Scheduling& in, const StmtPtr& lanes) : in_(in), lanes_(lanes) {}

  /// False where the code has a single stage, or must keep its order: stores come last.
  [[nodiscard]] bool find() {
    std::set<Place> stored;
    for (const StmtPtr& stmt : lanes_->body) {
      if (stmt->kind == StmtKind::comment) continue;
      if (stmt->kind != StmtKind::declare && !stores(*stmt)) return false;
      std::set<Place> read;
      walk(*stmt->value, [&](const Value& v) {
        if (v.kind == ValueKind::load) read.emplace(v.kind, v.buffer);
        if (v.kind != ValueKind::local) return;
        if (!v.subscripts.empty()) read.emplace(v.kind, v.local);
        if (const auto known = declares_.find(v.local); known != declares_.end())
          read.insert(known->second.read.begin(), known->second.read.end());
      });
      const auto is_stored = [&](const Place& place) { return stored.contains(place); };
      if (std::ranges::any_of(read, is_stored)) return false;
      const int level = level_of(*stmt->value);
      last_ = std::max(last_, level);
      if (stmt->kind == StmtKind::store) {
        stored.emplace(ValueKind::load, stmt->buffer);
      } else if (stmt->kind == StmtKind::assign) {
        stored.emplace(ValueKind::local, stmt->local);
      } else {
        declares_[stmt->local] = {stmt, level, std::move(read)};
      }
    }
    return last_ > 1;
  }

  /// Empty where there are too many values between the stages.
  [[nodiscard]] Block make() {
    Block result;
    for (int stage = 1; stage <= last_; ++stage) {
      begin(stage);
      if (stage < last_) {
        keep_values();
      } else {
        for (const StmtPtr& stmt : lanes_->body)
          if (stores(*stmt)) body_.push_back(with_value(*stmt, of_stage(stmt->value)));
      }
      if (body_.empty()) continue;
      result.push_back(finished());
    }
    if (declared_.size() > blocks_max || block_bytes(declared_) > in_.block_bytes_left / 4)
      return {};
    result.insert(result.begin(), declared_.begin(), declared_.end());
    return result;
  }

 private:
  /// A buffer (load) or a block (local).
  using Place = std::pair<ValueKind, std::size_t>;
  struct Declared {
    StmtPtr stmt;
    int level;
    std::set<Place> read;  // through other locals, too
  };

  /// True for elements of buffers and of blocks.
  static bool stores(const Stmt& stmt) {
    return stmt.kind == StmtKind::store ||
           (stmt.kind == StmtKind::assign && !stmt.subscripts.empty());
  }

  /// The number of costly functions in the longest chain up to the value.
  int level_of(const Value& value) {
    int level = 0;
    if (value.kind == ValueKind::local) {
      const auto known = declares_.find(value.local);
      return known == declares_.end() ? 0 : known->second.level;
    }
    for (const ValuePtr& arg : value.args) level = std::max(level, level_of(*arg));
    if (is_costly(value)) ++level;
    levels_[&value] = level;
    return level;
  }
  static bool is_costly(const Value& value) {
    return value.kind == ValueKind::op && own_cost(value) >= costly && may_be_in_block(value.dtype);
  }

  void begin(int stage) {
    stage_ = stage;
    body_.clear();
    locals_.clear();
    var_ = in_.fresh.var();
  }

  [[nodiscard]] StmtPtr finished() {
    Substitution by;
    by.vars[lanes_->var] = affine_var(var_);
    Block body;
    for (const StmtPtr& stmt : body_) body.push_back(substitute(stmt, by));
    return make_loop(var_, lanes_->from, lanes_->to, std::move(body), LoopMark::lanes);
  }

  /// Keeps the values of this stage that later stages may read: costly functions, and locals that
  /// they needed.
  void keep_values() {
    for (const StmtPtr& stmt : lanes_->body)
      if (stmt->value) keep_costly(stmt->value);
    for (const auto& [local, made] : locals_) {
      const Value& value = *declares_.at(local).stmt->value;
      const bool is_kept = kept_locals_.contains(local) || blocks_.contains(&value);
      if (!is_kept && may_be_in_block(value.dtype) && cost_of(value) >= kept_cost)
        kept_locals_.emplace(local, Kept{keep(make_local(made, value.dtype)), stage_});
    }
  }
  void keep_costly(const ValuePtr& value) {
    if (value->kind == ValueKind::local || blocks_.contains(value.get())) return;
    if (is_costly(*value) && levels_.at(value.get()) == stage_) {
      const LocalId block = keep(of_stage(value));
      blocks_.emplace(value.get(), Kept{block, stage_});
      return;
    }
    for (const ValuePtr& arg : value->args) keep_costly(arg);
  }
  /// Stores the value to a new block.
  LocalId keep(const ValuePtr& value) {
    const LocalId block = in_.fresh.local();
    const Scalar zero = is_floating(value->dtype) ? Scalar::of_float(value->dtype, 0)
                                                  : Scalar::of_int(value->dtype, 0);
    declared_.push_back(make_declare(block, make_constant(zero), {lanes_->to}));
    body_.push_back(make_assign(block, value, {affine_var(lanes_->var)}));
    return block;
  }

  /// The value as the current stage computes it: from blocks of the stages before.
  ValuePtr of_stage(const ValuePtr& value) {
    const auto loaded = [&](const Kept& kept) {
      return make_local(kept.block, value->dtype, {affine_var(lanes_->var)});
    };
    if (value->kind == ValueKind::local) {
      const auto kept = kept_locals_.find(value->local);
      if (kept != kept_locals_.end() && kept->second.stage < stage_) return loaded(kept->second);
      const auto known = declares_.find(value->local);
      if (known == declares_.end()) return value;
      const auto made = locals_.find(value->local);
      if (made != locals_.end()) return make_local(made->second, value->dtype);
      const ValuePtr again = of_stage(known->second.stmt->value);
      const LocalId local = in_.fresh.local();
      locals_[value->local] = local;
      body_.push_back(make_declare(local, again));
      return make_local(local, value->dtype);
    }
    const auto kept = blocks_.find(value.get());
    if (kept != blocks_.end() && kept->second.stage < stage_) return loaded(kept->second);
    if (value->args.empty()) return value;
    std::vector<ValuePtr> args;
    for (const ValuePtr& arg : value->args) args.push_back(of_stage(arg));
    return value->kind == ValueKind::op ? make_op(value->op, std::move(args))
                                        : make_cast(args[0], value->dtype);
  }

  struct Kept {
    LocalId block;
    int stage;
  };

  Scheduling& in_;
  const StmtPtr& lanes_;
  int last_ = 0;  // the highest level: the number of stages
  std::map<LocalId, Declared> declares_;
  std::map<const Value*, int> levels_;
  std::map<const Value*, Kept> blocks_;  // of costly functions
  std::map<LocalId, Kept> kept_locals_;
  Block declared_;
  // the current stage
  int stage_ = 0;
  VarId var_ = 0;
  Block body_;
  std::map<LocalId, LocalId> locals_;  // declared again
};

}  // namespace

Block in_stages(Scheduling& in, const StmtPtr& lanes) {
  const std::optional<DType> type = lane_type(lanes->body);
  if (!type || lanes->to < 2 * in.target.lanes(*type)) return {lanes};
  Stages stages(in, lanes);
  if (!stages.find()) return {lanes};
  Block made = stages.make();
  return made.empty() ? Block{lanes} : made;
}

}  // namespace heddle::jit
