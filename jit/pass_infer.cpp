// Memory-mode inference: where each tensor of a program lives (reference 3C, 3F). The user's
// requests stay on the tensors; what is decided here lives in the kernel's placements, so compiling
// has no effect on anything else (O56). Pure; any thread.
//
//   never written                     hosted(constant) with host storage, else on_device
//   read before it is written         on_device, or hosted(changed_on_devices)
//   last written, not read after      an output: on_device. Nobody asked for it to be thrown away
//   written whole, then read          virtual where an element is read at most max_visits times or
//                                     is a constant, else local; on_device where asked
//
// A request of the user refines these by the table of jit/tensor.hpp; what excludes them is
// refused.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/passes.hpp"
#include "jit/rewrite.hpp"
#include "jit/tensor.hpp"

namespace heddle::jit {
namespace {

using enum MemoryMode;

/// What the program does with a tensor, and what follows.
struct Usage {
  std::string_view text;
  std::string_view cure;
};
constexpr Usage never_written{"the program reads it but never assigns it",
                              "assign it in the program, or ask for on_device"};
constexpr Usage recurrent{
    "the program reads it before it has assigned all of it, so it must keep its values between "
    "runs",
    "ask for on_device, or assign it whole first"};
constexpr Usage assigned{"the program assigns it", "ask for hosted(changed_on_devices)"};
constexpr Usage varying{"the program changes it from run to run", "ask for materialized"};

class Inference {
 public:
  Inference(Lowered lowered, const OptimizeOptions& options)
      : lowered_(std::move(lowered)),
        options_(options),
        signature_(make_signature(lowered_.loop)),
        traced_(trace(lowered_.loop, options.max_tracing_dim + 1)),
        read_last_(lowered_.loop.buffers.size(), false) {
    for (const StmtPtr& stmt : lowered_.loop.body) {
      const Block alone{stmt};
      walk_values(alone, [this](const Value& v) {
        if (v.kind == ValueKind::load) read_last_[v.buffer] = true;
      });
      walk(alone, [this](const Stmt& s) {
        if (s.kind == StmtKind::store || s.kind == StmtKind::zero) read_last_[s.buffer] = false;
      });
    }
  }

  Lowered run() {
    for (auto& [tensor, placement] : lowered_.placements) {
      const BufferId id = buffer_of(lowered_, tensor);
      decide(tensor, id, placement);
      if (placement.mode == local || placement.mode == virtual_)
        lowered_.loop.buffers[id].role = Role::scratch;
    }
    return std::move(lowered_);
  }

 private:
  void decide(const Tensor& tensor, BufferId id, Placement& placement) const {
    const SignatureEntry& entry = signature_.entries[id];
    if (!entry.writes) return read_only(tensor, placement);
    if (placement.mode == hosted_constant) refuse(tensor, placement, assigned);
    if (placement.mode == hosted_nonconstant)
      settle(placement, hosted_changed_on_devices, "inferred: written");
    if (entry.reads_before_writing) return keep_between_runs(tensor, placement);
    if (read_last_[id]) return intermediate(placement, traced_[id]);
    // An output. Virtual and local ones are dropped as the user asked; nothing else is.
    if (placement.mode != virtual_ && placement.mode != local)
      keep_on_device(placement, "inferred: an output");
  }

  [[noreturn]] static void refuse(const Tensor& tensor, const Placement& asked,
                                  const Usage& usage) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor '{}' cannot be {} (asked for at {}): {}; {}", tensor.label(),
                            name(asked.mode), asked.provenance, usage.text, usage.cure));
  }

  static void settle(Placement& placement, MemoryMode mode, std::string_view reason) {
    if (placement.mode == mode) return;
    placement.mode = mode;
    placement.provenance = placement.provenance.empty()
                               ? std::string(reason)
                               : fmt::format("{}, then {}", placement.provenance, reason);
  }

  /// The user's request must leave room for a buffer that outlives the run.
  static void require_storage(const Tensor& tensor, const Placement& placement,
                              const Usage& usage) {
    const bool constant = placement.mode == effectively_constant;
    if (!constant && !is_hosted(placement.mode) && !try_refine(placement.mode, materialized))
      refuse(tensor, placement, usage);
  }

  static void keep_on_device(Placement& placement, std::string_view reason) {
    if (!is_hosted(placement.mode)) settle(placement, on_device, reason);
  }

  static void read_only(const Tensor& tensor, Placement& placement) {
    require_storage(tensor, placement, never_written);
    keep_on_device(placement, "inferred: never written");
  }

  static void keep_between_runs(const Tensor& tensor, Placement& placement) {
    if (placement.mode == effectively_constant) refuse(tensor, placement, varying);
    require_storage(tensor, placement, recurrent);
    keep_on_device(placement, "inferred: read before it is written");
  }

  void intermediate(Placement& placement, const Traced& facts) const {
    constexpr std::string_view within =
        "inferred: assigned before it is read, used in this program only";
    const bool cheap = facts.constant || facts.visits_max <= options_.max_visits;
    switch (placement.mode) {
      case virtual_:
        if (!options_.inline_virtual) settle(placement, local, "stored: inlining is switched off");
        return;
      case unset:
        if (cheap && options_.inline_virtual)
          return settle(placement, virtual_, "inferred: recomputed where it is read");
        return settle(placement, local, within);
      case effectively_constant:
        if (options_.inline_virtual)
          return settle(placement, virtual_, "inferred: recomputed where it is read");
        return settle(placement, on_device, "stored: inlining is switched off");
      case never_virtual:
      case device_only:
        return settle(placement, local, within);
      case materialized:
        return settle(placement, on_device, "inferred: materialized");
      default:
        return;  // local, on_device and hosted say where
    }
  }

  Lowered lowered_;
  const OptimizeOptions& options_;
  Signature signature_;
  std::vector<Traced> traced_;
  std::vector<bool> read_last_;  // per buffer: a statement after its last assignment reads it
};

}  // namespace

BufferId buffer_of(const Lowered& lowered, const Tensor& tensor) {
  for (BufferId id = 0; id < lowered.tensors.size(); ++id) {
    if (lowered.tensors[id] == tensor && lowered.loop.buffers[id].role != Role::merge) return id;
  }
  throw Error(ErrorCode::internal, "tensor '" + tensor.label() + "' has no buffer in its program");
}

Lowered infer_placements(Lowered lowered, const OptimizeOptions& options) {
  return Inference(std::move(lowered), options).run();
}

}  // namespace heddle::jit
