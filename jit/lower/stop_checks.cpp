// See lower/stop_checks.hpp.
#include "jit/lower/stop_checks.hpp"

#include <bit>
#include <cstdint>
#include <map>
#include <utility>

#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

// In operations on scalars; a processor executes one to a few tens of them in a nanosecond.
/// Shorter kernels end before a cancel could take effect.
constexpr double long_kernel = 1e8;
/// An iteration of so many operations is at least 600 instructions, even where compilers make
/// 32-byte vectors of it; a check is three instructions.
constexpr double iteration_min = 20'000;
/// Iterations of more operations may themselves take long.
constexpr double iteration_max = 1e8;
/// Compilers may add an instruction to each iteration of a cut loop. An iteration on lanes is
/// counted as for the widest vectors, and is several times as many instructions.
constexpr double part_iteration_min = 20;
/// Loops of more operations take a second or longer, and are cut however short their iterations
/// are.
constexpr double long_loop = 4e9;
/// Operations between two checks, for loops whose iterations lie between these limits: a
/// millisecond or less.
constexpr double between_looks = 1e6;
/// The cost of an access at a loaded position, which may be anywhere in memory.
constexpr double position_cost = 20;
/// Most lanes in a vector of numbers in schedules.
constexpr double lanes_at_once = 16;
/// The cost of a value is counted up to this; higher costs make no difference.
constexpr int value_cost_max = 4096;

double count(const Stmt& loop) {
  return static_cast<double>(loop.to) - static_cast<double>(loop.from);
}

class StopFinder {
 public:
  StopChecks found;

  double work(const Block& body) {
    double sum = 0;
    for (const StmtPtr& stmt : body) {
      if (stmt->value) sum += 1 + cost_of(*stmt->value, value_cost_max);
      if (!binds_variable(*stmt) || stmt->from >= stmt->to) continue;
      if (stmt->kind == StmtKind::at) {
        sum += position_cost + work(stmt->body);
        continue;
      }
      const double of_body = iterations_[stmt->var] = work(stmt->body);
      sum += of_body * count(*stmt) / (stmt->mark == LoopMark::lanes ? lanes_at_once : 1);
    }
    return sum;
  }

  void mark(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::at && stmt->from < stmt->to) mark(stmt->body);
      const bool runs = stmt->kind == StmtKind::loop && stmt->from < stmt->to;
      if (!runs || stmt->mark == LoopMark::lanes || stmt->mark == LoopMark::unroll) continue;
      const double iteration = iterations_.at(stmt->var);
      if (iteration >= iteration_min) {
        found.every[stmt->var] = 1;
      } else if ((iteration >= part_iteration_min && iteration * count(*stmt) >= long_kernel) ||
                 iteration * count(*stmt) >= long_loop) {
        const auto enough = static_cast<std::uint64_t>(between_looks / iteration);
        found.every[stmt->var] = static_cast<std::int64_t>(std::bit_ceil(enough));
      }
      if (iteration > iteration_max) mark(stmt->body);
    }
  }

 private:
  std::map<VarId, double> iterations_;  // work of an iteration
};

}  // namespace

StopChecks stop_checks(const Loop& loop) {
  StopFinder finder;
  if (finder.work(loop.body) < long_kernel) return {};
  finder.found.any = true;
  finder.mark(loop.body);
  return std::move(finder.found);
}

}  // namespace heddle::jit
