// See emit/gccjit.hpp.
#include "jit/emit/gccjit.hpp"

#include "jit/emit/gccjit_dialect.hpp"
#include "jit/emit/walk.hpp"

namespace heddle::jit {

void emit_gccjit(gcc_jit_context* context, const CompileUnit& unit, const Target& target) {
  check_unit(unit);
  GccjitContext in(context);
  const KernelAbi abi(in);
  gcc_jit_global_set_initializer_rvalue(
      gcc_jit_context_new_global(context, nullptr, GCC_JIT_GLOBAL_EXPORTED, in.type(DType::u32),
                                 unit_abi_symbol),
      in.integer(DType::u32, HEDDLE_KERNEL_ABI));
  // A tracer is called for every single assignment, so there are no vectors.
  const Target used = unit.trace_values ? Target() : target;
  for (const KernelSource& kernel : unit.kernels) {
    GccjitDialect to(in, abi, kernel.loop, used);
    Walk(kernel, used, unit.trace_values, to).emit();
  }
}

}  // namespace heddle::jit
