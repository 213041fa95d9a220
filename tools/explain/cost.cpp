// See cost.hpp.
#include "tools/explain/cost.hpp"

#include "jit/loop/interface.hpp"

namespace heddle::tools {
namespace {

double operations_of(const jit::Value& value) {
  double count = 0;
  for (const jit::ValuePtr& arg : value.args) count += operations_of(*arg);
  if (value.kind != jit::ValueKind::op) return count;
  return count + (value.op == jit::Op::fma || value.op == jit::Op::mul3 ? 2 : 1);
}

double operations_of(const jit::Block& body) {
  double count = 0;
  for (const jit::StmtPtr& stmt : body) {
    if (stmt->kind == jit::StmtKind::loop) {
      count += static_cast<double>(stmt->to - stmt->from) * operations_of(stmt->body);
    } else if (stmt->value) {
      count += operations_of(*stmt->value) + operations_of(stmt->body);
    }
  }
  return count;
}

}  // namespace

Cost cost_of(const jit::Loop& loop) {
  Cost cost;
  cost.operations = operations_of(loop.body);
  const jit::Interface interface = jit::read_interface(loop);
  for (std::size_t k = 0; k < loop.buffers.size(); ++k) {
    const auto bytes = static_cast<double>(loop.buffers[k].type.num_bytes().value_or(0));
    const jit::BufferAccess& access = interface.buffers[k];
    if (access.role == jit::Role::scratch) {
      cost.bytes_of_scratch += bytes;
      continue;
    }
    if (access.reads) cost.bytes_read += bytes;
    if (access.writes) cost.bytes_written += bytes;
  }
  return cost;
}

}  // namespace heddle::tools
