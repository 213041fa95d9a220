// See tune/estimate.hpp.
#include "jit/tune/estimate.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

// In half cycles: two operations and two loads begin in a cycle, a chain of sums takes four.
constexpr double load_time = 1, store_time = 2, chain_time = 8, loop_time = 2;
constexpr double half_cycles_per_us = 6'000;
/// Half cycles for a byte that comes from the last-level cache, and from memory.
constexpr double last_level_byte = 0.12, memory_byte = 0.5;

/// The work of one iteration of a loop.
struct StepWork {
  double operations = 0;
  double moves = 0;    ///< loads and stores
  double inside = 0;   ///< time of the inner loops
  bool chain = false;  ///< adds to the result of the iteration before

  void add(const StepWork& other, double times) {
    operations += other.operations * times;
    moves += other.moves * times;
    inside += other.inside * times;
    chain = chain || other.chain;
  }
  [[nodiscard]] double time() const {
    return std::max({operations, moves, chain ? chain_time : 0}) + inside;
  }
};

class Estimator {
 public:
  Estimator(const Loop& loop, const Target& target) : loop_(loop), target_(target) {}

  StepWork block(const Block& statements) {
    StepWork work;
    for (const StmtPtr& stmt : statements) {
      if (stmt->kind == StmtKind::declare && !stmt->dims.empty()) declare_block(*stmt);
      work.add(statement(*stmt), 1);
    }
    return work;
  }

  /// Counts each buffer once, and scratch twice, because scratch is read again.
  [[nodiscard]] double memory_time() const {
    double bytes = 0;
    for (const BufferId id : touched_) {
      const BufferDecl& buffer = loop_.buffers[id];
      const auto size = static_cast<double>(buffer.type.num_bytes().value_or(0));
      bytes += buffer.role == Role::scratch ? 2 * size : size;
    }
    if (bytes <= static_cast<double>(target_.l2_bytes)) return 0;
    return bytes * (bytes <= static_cast<double>(target_.l3_bytes) ? last_level_byte : memory_byte);
  }

 private:
  StepWork statement(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::loop:
        return loop(stmt);
      case StmtKind::at: {
        StepWork work = value(*stmt.value);
        work.add(block(stmt.body), 1);
        return work;
      }
      case StmtKind::zero: {
        touched_.insert(stmt.buffer);
        const auto bytes =
            static_cast<double>(loop_.buffers[stmt.buffer].type.num_bytes().value_or(0));
        return {.moves = bytes / vector_bytes() * store_time};
      }
      case StmtKind::store: {
        StepWork work = value(*stmt.value);
        work.moves += move(stmt.buffer, stmt.subscripts, store_time);
        return work;
      }
      case StmtKind::declare:
      case StmtKind::assign:
        return assigned(stmt);
      case StmtKind::comment:
      case StmtKind::prefetch:
        return {};
    }
    return {};
  }

  StepWork assigned(const Stmt& stmt) {
    if (stmt.kind == StmtKind::declare && !stmt.dims.empty()) return {};
    StepWork work = value(*stmt.value);
    if (in_memory_.contains(stmt.local)) work.moves += store_time;
    walk(*stmt.value, [&](const Value& v) {
      work.chain = work.chain || (stmt.kind == StmtKind::assign && v.kind == ValueKind::local &&
                                  v.local == stmt.local);
    });
    return work;
  }

  StepWork loop(const Stmt& stmt) {
    const auto count = static_cast<double>(std::max<std::int64_t>(0, stmt.to - stmt.from));
    if (stmt.mark == LoopMark::lanes) return lanes(stmt);
    const StepWork step = block(stmt.body);
    StepWork work;
    if (stmt.mark == LoopMark::unroll) {
      work.add(step, count);
    } else {
      work.inside = count * (step.time() + loop_time);
    }
    return work;
  }

  /// The work of one vector. A value shared by all lanes is loaded once.
  StepWork lanes(const Stmt& stmt) {
    lane_ = stmt.var;
    lane_bytes_ = 1;
    walk(stmt.body, [&](const Stmt& each) {
      if (each.value) lane_bytes_ = std::max(lane_bytes_, size_of(each.value->dtype));
    });
    shared_moves_ = 0;
    const StepWork step = block(stmt.body);
    const double width = std::max(1.0, vector_bytes() / static_cast<double>(lane_bytes_));
    const auto extent = static_cast<double>(std::max<std::int64_t>(0, stmt.to - stmt.from));
    StepWork work;
    work.add(step, static_cast<double>(static_cast<std::int64_t>((extent + width - 1) / width)));
    work.moves += shared_moves_;
    lane_.reset();
    return work;
  }

  StepWork value(const Value& what) {
    count_step();
    StepWork work;
    for (const ValuePtr& arg : what.args) work.add(value(*arg), 1);
    work.operations += own_cost(what);
    if (what.kind == ValueKind::load) work.moves += move(what.buffer, what.subscripts, load_time);
    if (what.kind == ValueKind::local && in_memory_.contains(what.local)) work.moves += load_time;
    return work;
  }

  /// Loads or stores of one element, or of a vector.
  double move(BufferId buffer, const std::vector<Affine>& at, double each) {
    touched_.insert(buffer);
    if (!lane_) return each;
    const std::int64_t step = stride(loop_, buffer, at, *lane_);
    if (step == 0) {
      shared_moves_ += each;
      return 0;
    }
    const double width = std::max(1.0, vector_bytes() / static_cast<double>(lane_bytes_));
    return step == 1 ? each : each * width;
  }

  /// A block too large for the registers is loaded and stored.
  void declare_block(const Stmt& stmt) {
    double bytes = static_cast<double>(size_of(stmt.value->dtype));
    for (const std::int64_t extent : stmt.dims) bytes *= static_cast<double>(extent);
    if (bytes > vector_bytes() * static_cast<double>(target_.vector_registers()))
      in_memory_.insert(stmt.local);
  }

  [[nodiscard]] double vector_bytes() const {
    return std::max(1.0, static_cast<double>(target_.vector_bytes()));
  }

  const Loop& loop_;
  const Target& target_;
  std::set<BufferId> touched_;
  std::set<LocalId> in_memory_;
  std::optional<VarId> lane_;   // of the current lanes loop
  std::size_t lane_bytes_ = 1;  // of the loop's widest values
  double shared_moves_ = 0;     // shared by all lanes
};

}  // namespace

double estimated_us(const Loop& scheduled, const Target& target) {
  Estimator estimator(scheduled, target);
  const double time = estimator.block(scheduled.body).time();
  return (time + estimator.memory_time()) / half_cycles_per_us;
}

}  // namespace heddle::jit
