// See cost.hpp.
#include "jit/loop/cost.hpp"

#include <limits>

#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                : product;
}
void add(std::uint64_t& sum, std::uint64_t more) {
  if (__builtin_add_overflow(sum, more, &sum)) sum = std::numeric_limits<std::uint64_t>::max();
}

class Counter {
 public:
  explicit Counter(const Loop& loop) : loop_(loop) {}

  void block(const Block& statements, std::uint64_t runs) {
    for (const StmtPtr& stmt : statements) statement(*stmt, runs);
  }
  void statement(const Stmt& stmt, std::uint64_t runs) {
    count_step();
    if (stmt.value) value(*stmt.value, runs);
    switch (stmt.kind) {
      case StmtKind::loop:
        if (stmt.from < stmt.to)
          block(stmt.body, times(runs, static_cast<std::uint64_t>(stmt.to - stmt.from)));
        return;
      case StmtKind::at:
        block(stmt.body, runs);
        return;
      case StmtKind::zero:
        add(cost.bytes_written,
            times(runs, static_cast<std::uint64_t>(*loop_.buffers[stmt.buffer].type.num_bytes())));
        return;
      case StmtKind::store:
        add(cost.bytes_written, times(runs, size_of(loop_.buffers[stmt.buffer].type.dtype)));
        return;
      case StmtKind::comment:
      case StmtKind::declare:
      case StmtKind::assign:
      case StmtKind::prefetch:
        return;
    }
  }
  LoopCost cost;

 private:
  void value(const Value& value, std::uint64_t runs) {
    count_step();
    if (value.kind == ValueKind::op && value.op != Op::identity) add(cost.operations, runs);
    if (value.kind == ValueKind::load)
      add(cost.bytes_read, times(runs, size_of(loop_.buffers[value.buffer].type.dtype)));
    for (const ValuePtr& arg : value.args) this->value(*arg, runs);
  }

  const Loop& loop_;
};

}  // namespace

LoopCost cost_of(const Loop& loop) {
  Counter counter(loop);
  counter.block(loop.body, 1);
  return counter.cost;
}

LoopCost cost_of(const Loop& loop, const StmtPtr& stmt) {
  Counter counter(loop);
  counter.statement(*stmt, 1);
  return counter.cost;
}

}  // namespace heddle::jit
