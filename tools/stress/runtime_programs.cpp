// See runtime_programs.hpp.
#include "tools/stress/runtime_programs.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>

#include "heddle/backend.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"

namespace heddle::stress {
namespace {

std::function<Status()>& host_step() {
  static std::function<Status()> step;
  return step;
}

constexpr Formula formulas[] = {
    {"step", Operand::x, {3, 1}, 1},
    {"mix", Operand::z, {5, 7}, 2},
    {"take", Operand::x, {3, 0, 0, 0, 0, 1}, 3, Operand::y},
    {"give", Operand::y, {0, 5, 0, 0, 0, 1}, 4, Operand::x},
    {"own", Operand::x, {2, 0, 0, 0, 0, 1}, 5, Operand::x},
    {"host", Operand::y, {0, 2, 0, 3}, 6},
    {"back", Operand::h, {1, 0, 0, 2}, 7},
    {"row", Operand::x, {3, 1}, 8, {}, true},
    {"twice", Operand::y, {1, 3}, 9, {}, false, true},
    {"spread", Operand::x, {0, 0, 0, 0, 3}, 10},
    {"bring", Operand::z, {0, 5, 0, 0, 0, 1}, 11, Operand::w},
    {"small", Operand::w, {0, 0, 0, 0, 0, 2}, 12, Operand::w},
    {"grow", Operand::w, {0, 0, 0, 0, 3}, 13},
    {"place", Operand::x, {0, 5}, 14, {}, true},
};

Operand operand_of(const RuntimePrograms& all, const Tensor& tensor) {
  const auto at = std::ranges::find(all.tensors, tensor);
  return static_cast<Operand>(at - all.tensors.begin());
}

Program described(const RuntimePrograms& all, const Formula& formula) {
  const Index i;
  const auto element = [&](const auto& tensor, std::size_t operand) -> Expr {
    const std::size_t last = formula.read_for(num_cells, operand);
    if (last < num_cells) return Expr(tensor(last));
    return formula.one_row ? Expr(tensor(all.row)) : Expr(tensor(i));
  };
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  std::optional<Expr> sum;
  for (std::size_t k = 0; k < num_operands; ++k) {
    if (formula.factors[k] == 0) continue;
    const Expr value =
        k < num_tensors ? element(all.tensors[k], k)
                        : element(merge(all.tensors[static_cast<std::size_t>(*formula.merges)]), k);
    const Expr term = value * number(formula.factors[k]);
    sum = sum ? *sum + term : term;
  }
  const Tensor& to = all.tensors[static_cast<std::size_t>(formula.to)];
  const Expr value = *sum + number(formula.constant);
  Program program(formula.name);
  if (formula.one_row) {
    program << (to(all.row) = value);
  } else {
    program << (to(i) = value);
  }
  return program;
}

/// The same code with its kernel twice, and a host call in between.
Code doubled(const Code& code) {
  auto data = std::make_shared<jit::CodeData>(*Inside::of(code));
  auto core = std::make_shared<jit::Core>(*data->core);
  const jit::Step kernel = core->steps.back();
  core->steps.emplace_back(jit::CallStep{[] { return host_step()(); }});
  core->steps.push_back(kernel);
  data->core = std::move(core);
  return Inside::make<Code>(std::move(data));
}

/// The same code, with kernels that declare the given number of parts.
Code worth(const Code& code, std::uint32_t parts) {
  auto data = std::make_shared<jit::CodeData>(*Inside::of(code));
  auto core = std::make_shared<jit::Core>(*data->core);
  for (jit::Step& step : core->steps) {
    if (auto* const kernel = std::get_if<jit::KernelStep>(&step)) kernel->parts = parts;
  }
  data->core = std::move(core);
  return Inside::make<Code>(std::move(data));
}

void note_kernels(RuntimePrograms& all, const RuntimeProgram& program) {
  const jit::CodeData& data = *Inside::of(program.code);
  for (const jit::Step& step : data.core->steps) {
    const auto* const kernel = std::get_if<jit::KernelStep>(&step);
    if (kernel == nullptr) continue;
    RuntimeKernel noted{&program.formula, {}};
    for (const std::uint32_t entry : kernel->entries) {
      noted.operands.push_back(
          entry == data.signature().merge ? Operand::merged : operand_of(all, *data.tensor(entry)));
    }
    all.kernels.emplace_back(kernel->unit->image.kernels()[kernel->index].symbol, std::move(noted));
  }
}

}  // namespace

RuntimePrograms make_programs(const Backend& backend, std::uint32_t parts) {
  const HostArray host({i64, {num_cells}});
  RuntimePrograms all{{}, host, StaticIndex("row", num_cells), {}, {}};
  for (const char* const label : {"x", "y", "z"}) {
    all.tensors.emplace_back(label, i64, Dims{num_cells});
    all.tensors.back().set_mode(MemoryMode::on_device);
  }
  all.tensors.emplace_back("h", host);
  all.tensors.emplace_back("w", i64, Dims{num_small_cells});
  all.tensors.back().set_mode(MemoryMode::on_device);
  all.programs.reserve(std::size(formulas));  // kernels keep pointers into it
  for (const Formula& formula : formulas) {
    Code code = backend.compile(described(all, formula));
    if (parts > 1) code = worth(code, parts);
    all.programs.push_back({formula, formula.twice ? doubled(code) : code});
    note_kernels(all, all.programs.back());
  }
  return all;
}

std::size_t RuntimePrograms::kernel(const std::string& symbol) const noexcept {
  const auto at = std::ranges::find(kernels, symbol, &std::pair<std::string, RuntimeKernel>::first);
  return static_cast<std::size_t>(at - kernels.begin());
}

const RuntimePrograms& runtime_programs() {
  static const RuntimePrograms* const programs =
      new RuntimePrograms(make_programs(Backend::open("null"), num_cells));  // never destroyed
  return *programs;
}

void set_host_step(std::function<Status()> step) { host_step() = std::move(step); }

}  // namespace heddle::stress
