// Compiling: cold, with an empty slot in the kernel cache for each kernel, against the bare
// toolchain with the same text; warm, from that cache, against the bare loader; and of an already
// compiled program, against hashing its text.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "heddle/backend.hpp"
#include "jit/cache/key.hpp"
#include "jit/code/code.hpp"
#include "jit/code/kernels.hpp"
#include "jit/code/stages.hpp"
#include "jit/describe/form.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/compile_bare.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/kernel_products.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {
namespace {

constexpr std::size_t many = 50;
/// A slice holds several compiles of one kernel, or one of fifty.
constexpr nanoseconds cold_slice = std::chrono::milliseconds(250);

/// Small kernels of several kinds. Each `salt` gives a set with different texts.
std::vector<Program> programs(std::size_t count, int salt) {
  std::vector<Program> result;
  for (std::size_t k = 0; k < count; ++k) {
    const double number = salt + 0.5 / static_cast<double>(k + 1);
    const Tensor a("a", f32, {64, 64}), b("b", f32, {64, 64}), c("c", f32, {64, 64});
    const Tensor out("out", f32, {64, 64}), sums("sums", f32, {64});
    const Index i, j, l;
    Program program(fmt::format("kernel_{}", k));
    if (k % 3 == 0) program << (out(i, j) = relu(a(i, j) * b(i, j) + c(i, j)) * number);
    if (k % 3 == 1) program << (out(i, j) += a(i, l) * b(l, j) * number);
    if (k % 3 == 2) program << (sums(i) += a(i, j) * number);
    result.push_back(std::move(program));
  }
  return result;
}

/// A backend with a kernel cache of its own, and the bare toolchain with a set of kernels.
class Setting {
 public:
  Setting(const std::string& compiler, std::size_t count)
      : count_(count), backend_(open(compiler)), bare_(compiler, units(compiler, count)) {}

  [[nodiscard]] double cold(nanoseconds length) {
    return timed_loop(length, count_, [this](std::size_t) { compile(++salt_); });
  }
  [[nodiscard]] double warm(nanoseconds length) {
    if (!warmed_) compile(0);
    warmed_ = true;
    const std::uint64_t compiled = backend_.compile_counters().compiled;
    const double ns = timed_loop(length, count_, [this](std::size_t) { compile(0); });
    require_all_ran("a warm start", backend_.compile_counters().compiled, compiled);
    return ns;
  }
  [[nodiscard]] double bare_cold(nanoseconds length) const { return bare_.compile(length); }
  [[nodiscard]] double bare_warm(nanoseconds length) {
    if (!bare_compiled_) static_cast<void>(bare_.compile(nanoseconds(1)));
    bare_compiled_ = true;
    return bare_.load(length);
  }

 private:
  Backend open(const std::string& compiler) const {
    BackendOptions options;
    options.name = compiler;
    options.cache = true;
    options.cache_dir = (directory_.path() / "cache").string();
    return Backend::open(options);
  }

  static std::vector<jit::CompileUnit> units(const std::string& compiler, std::size_t count) {
    std::vector<jit::CompileUnit> result;
    const auto drafting =
        compiler == "cc" ? jit::make_cc_compiler({}) : jit::make_gccjit_compiler({});
    for (const Program& program : programs(count, 0)) {
      jit::Draft draft = jit::draft_program(program, {}, drafting);
      const std::shared_ptr<jit::Core> core = jit::schedule_code(draft, {});
      const jit::Uncompiled kernels{&draft.code, &core->steps};
      for (jit::CompileUnit& unit :
           jit::units_of({&kernels, 1}, jit::symbol(draft.code.name), {}).units)
        result.push_back(std::move(unit));
    }
    return result;
  }

  void compile(int salt) const {
    if (count_ == 1) {
      static_cast<void>(backend_.compile(programs(1, salt).front()));
    } else {
      static_cast<void>(backend_.compile_batch(programs(count_, salt)));
    }
  }

  const std::size_t count_;
  const BenchDirectory directory_;
  const Backend backend_;
  const BareUnits bare_;
  int salt_ = 0;
  bool warmed_ = false, bare_compiled_ = false;
};

using Slice = double (*)(Setting& setting, nanoseconds length);

Case compile_case(const std::string& name, const std::string& compiler, std::size_t count,
                  const std::string& bare, Slice subject, Slice anchor) {
  // Made when the row is first measured; compilers and helpers may use all processors.
  const auto on = [compiler, count,
                   slot = std::make_shared<std::optional<Setting>>()](Slice slice) {
    return [compiler, count, slot, slice](nanoseconds length, Samples&) {
      const Unpinned unpinned;
      if (!*slot) slot->emplace(compiler, count);
      return slice(**slot, length);
    };
  };
  Case row{name,
           fmt::format("{} start, {}, {} kernel{}", name, compiler, count, count == 1 ? "" : "s"),
           "kernel",
           {"heddle", Kind::heddle, on(subject)},
           {bare, Kind::limit, on(anchor)}};
  if (name == "cold") row.slice = cold_slice;
  return row;
}

}  // namespace

void add_cold_rows(std::vector<Row>& rows) {
  for (const std::string& compiler : compiling_backends()) {
    for (const std::size_t count : {std::size_t{1}, many}) {
      rows.push_back(compile_case(
          "cold", compiler, count, "bare compiler, in turn",
          [](Setting& setting, nanoseconds length) { return setting.cold(length); },
          [](Setting& setting, nanoseconds length) { return setting.bare_cold(length); }));
    }
  }
}

void add_warm_rows(std::vector<Row>& rows) {
  for (const std::string& compiler : compiling_backends()) {
    for (const std::size_t count : {std::size_t{1}, many}) {
      rows.push_back(compile_case(
          "warm", compiler, count, "dlopen+dlsym, a file each",
          [](Setting& setting, nanoseconds length) { return setting.warm(length); },
          [](Setting& setting, nanoseconds length) { return setting.bare_warm(length); }));
    }
  }
}

void add_known_rows(std::vector<Row>& rows) {
  /// A program whose code is held.
  struct Known {
    const Program program = training_step().program;
    const Backend backend = Backend::open(compiling_backends().front());
    const Code code = backend.compile(program);
    const std::string form = jit::form_of(program).bytes;
  };
  const auto on = [slot = std::make_shared<std::optional<Known>>()](const auto& operation) {
    return [slot, operation](nanoseconds length, Samples& samples) {
      if (!*slot) slot->emplace();
      return timed_operations(length, samples, [&] { operation(**slot); });
    };
  };
  rows.push_back(Case{"known",
                      "known program, training step",
                      "compile",
                      {"heddle", Kind::heddle, on([](const Known& known) {
                         static_cast<void>(known.backend.compile(known.program));
                       })},
                      {"BLAKE2b of what it says", Kind::limit, on([](const Known& known) {
                         static_cast<void>(jit::KeyHasher().add(known.form).finish());
                       })}});
}

}  // namespace heddle::bench
