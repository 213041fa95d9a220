// Code shared by the compilers, and the compiler of the null device. Any thread.
#include "jit/toolchain/compiler.hpp"

#include <fmt/format.h>

#include "files/temp_dir.hpp"
#include "jit/emit/emit.hpp"
#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit {
namespace {

std::vector<std::string> labels(const CompileUnit& unit) {
  std::vector<std::string> texts;
  for (const KernelSource& kernel : unit.kernels) texts.push_back(kernel.label);
  return texts;
}

std::vector<ImageKernel> image_kernels(const CompileUnit& unit,
                                       std::span<const LaunchShape> shapes) {
  std::vector<ImageKernel> kernels;
  for (std::size_t k = 0; k < unit.kernels.size(); ++k) {
    kernels.push_back(
        {kernel_symbol(unit.kernels[k].name), k < shapes.size() ? shapes[k] : LaunchShape()});
  }
  return kernels;
}

class NullCompiler final : public Compiler {
 public:
  std::string_view name() const noexcept override { return "null"; }
  Status available() const override { return {}; }
  std::string describe() const override { return "null: kernels that do nothing"; }
  std::shared_ptr<const Compiled> compile(const CompileUnit& unit,
                                          const CompileLimits&) const override {
    check_unit(unit);
    return std::make_shared<const Compiled>(
        Compiled{unit.name,
                 Image(std::string(null_image_kind), {}, checksum({}), image_kernels(unit, {})),
                 labels(unit),
                 {},
                 {}});
  }
};

}  // namespace

Compiled compiled(const CompileUnit& unit, const EmittedUnit& emitted, Library library,
                  std::chrono::steady_clock::time_point start) {
  Image image(emitted.kind, std::move(library.bytes), library.sum,
              image_kernels(unit, emitted.shapes));
  if (const Status status = image.check(); !status.ok()) {
    throw Error(status.code(), fmt::format("the library made for unit '{:.200}' is unusable: {}",
                                           unit.name, status.message()));
  }
  return {unit.name, std::move(image), labels(unit), emitted.source,
          std::chrono::steady_clock::now() - start};
}

void dump_unoptimized(const ToolOptions& options, const CompileUnit& unit) {
  if (options.dump_dir.empty()) return;
  std::string loops;
  for (const KernelSource& kernel : unit.kernels) {
    if (!kernel.unoptimized) continue;
    loops += heading(kernel, "#") + print(*kernel.unoptimized, &kernel.unoptimized_names);
  }
  if (!loops.empty()) dump(options.dump_dir, unit.name, "unoptimized.loop", loops);
}

namespace {

class AbsentCompiler final : public Compiler {
 public:
  AbsentCompiler(std::string name, Status why) : name_(std::move(name)), why_(std::move(why)) {}
  std::string_view name() const noexcept override { return name_; }
  Status available() const override { return why_; }
  std::string describe() const override { throw Error(why_); }
  std::shared_ptr<const Compiled> compile(const CompileUnit& /*unit*/,
                                          const CompileLimits& /*limits*/) const override {
    throw Error(why_);
  }

 private:
  const std::string name_;
  const Status why_;
};

}  // namespace

std::shared_ptr<const Compiler> make_absent_compiler(std::string name, Status why) {
  return std::make_shared<AbsentCompiler>(std::move(name), std::move(why));
}

std::shared_ptr<const Compiler> make_null_compiler() { return std::make_shared<NullCompiler>(); }

}  // namespace heddle::jit
