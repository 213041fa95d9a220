// What the compilers share, and the compiler of the null device. Any thread.
#include "jit/toolchain/compiler.hpp"

#include <fmt/format.h>

#include "jit/emit/emit.hpp"
#include "jit/system/temp_dir.hpp"
#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit {
namespace {

class NullModule final : public Module {
 public:
  heddle_kernel_function function(std::size_t) const noexcept override {
    return [](const heddle_kernel_args*) {};
  }
  const std::string& source() const noexcept override { return source_; }
  std::chrono::nanoseconds compile_time() const noexcept override { return {}; }

 private:
  std::string source_;
};

class NullCompiler final : public Compiler {
 public:
  std::string_view name() const noexcept override { return "null"; }
  Status available() const override { return {}; }
  std::string describe() const override { return "null: kernels that do nothing"; }
  std::shared_ptr<const Module> compile(const CompileUnit& unit,
                                        const CompileLimits&) const override {
    check_unit(unit);
    return std::make_shared<NullModule>();
  }
};

}  // namespace

void dump_unoptimized(const ToolOptions& options, const CompileUnit& unit) {
  if (options.dump_dir.empty()) return;
  std::string loops;
  for (const KernelSource& kernel : unit.kernels) {
    if (!kernel.unoptimized) continue;
    loops += fmt::format("# kernel {}\n{}", kernel.name,
                         print(*kernel.unoptimized, &kernel.unoptimized_names));
  }
  if (!loops.empty()) dump(options.dump_dir, unit.name, "unoptimized.loop", loops);
}

std::shared_ptr<const Compiler> make_null_compiler() { return std::make_shared<NullCompiler>(); }

}  // namespace heddle::jit
