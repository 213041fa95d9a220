// Memory-mode inference: where each tensor of a program lives. The user's requests stay on the
// tensors; what is decided here lives in the kernel's placements, so compiling has no effect on
// anything else (O56).
#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/passes.hpp"
#include "jit/tensor.hpp"

namespace heddle::jit {
namespace {

using enum MemoryMode;

class Inference {
 public:
  Inference(Lowered lowered, const OptimizeOptions& options)
      : lowered_(std::move(lowered)),
        options_(options),
        signature_(make_signature(lowered_.loop)),
        traced_(trace(lowered_.loop, options.max_tracing_dim + 1)) {}

  Lowered run() {
    for (auto& [tensor, placement] : lowered_.placements) {
      const auto at = std::ranges::find_if(lowered_.tensors, [&](const Tensor& t) {
        const auto id = static_cast<std::size_t>(&t - lowered_.tensors.data());
        return t == tensor && lowered_.loop.buffers[id].role != Role::merge;
      });
      decide(tensor, static_cast<BufferId>(at - lowered_.tensors.begin()), placement);
    }
    return std::move(lowered_);
  }

 private:
  [[noreturn]] static void refuse(const Tensor& tensor, const Placement& asked,
                                  std::string_view why, std::string_view cure) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor '{}' cannot be {} (asked for at {}): {}; {}", tensor.label(),
                            name(asked.mode), asked.provenance, why, cure));
  }

  void decide(const Tensor& tensor, BufferId id, Placement& placement) {
    const SignatureEntry& entry = signature_.entries[id];
    if (!entry.writes) {
      read_only(tensor, placement);
    } else if (entry.reads_before_writing) {
      recurrent(tensor, placement);
    } else if (!entry.reads) {
      output(tensor, placement);
    } else {
      intermediate(tensor, id, placement);
    }
    set_role(id, placement.mode);
  }

  static void settle(Placement& placement, MemoryMode mode, std::string_view reason) {
    if (placement.mode == mode) return;
    placement.mode = mode;
    placement.provenance = placement.provenance.empty()
                               ? std::string(reason)
                               : fmt::format("{}, then {}", placement.provenance, reason);
  }

  static void keep_on_device(const Tensor& tensor, Placement& placement, std::string_view reason) {
    if (is_hosted(placement.mode) || placement.mode == on_device) return;
    settle(placement, tensor.host() ? hosted_nonconstant : on_device, reason);
  }

  static void read_only(const Tensor& tensor, Placement& placement) {
    if (placement.mode == virtual_ || placement.mode == local) {
      refuse(tensor, placement, "the program reads it but never assigns it",
             "assign it in the program, or ask for on_device");
    }
    if (tensor.host() && !is_hosted(placement.mode)) {
      settle(placement, hosted_constant, "inferred: host storage, never written");
    }
    keep_on_device(tensor, placement, "inferred: never written");
  }

  static void recurrent(const Tensor& tensor, Placement& placement) {
    if (placement.mode == virtual_ || placement.mode == local) {
      refuse(tensor, placement,
             "the program reads it before it assigns it, so it must keep its values between runs",
             "ask for on_device, or assign it first");
    }
    if (placement.mode == hosted_constant) {
      refuse(tensor, placement, "the program assigns it", "ask for hosted_changed_on_devices");
    }
    if (placement.mode == hosted_nonconstant)
      settle(placement, hosted_changed_on_devices, "inferred: written");
    keep_on_device(tensor, placement, "inferred: read before it is written");
  }

  static void output(const Tensor& tensor, Placement& placement) {
    if (placement.mode == virtual_ || placement.mode == local ||
        placement.mode == hosted_constant) {
      if (placement.mode == hosted_constant) {
        refuse(tensor, placement, "the program assigns it", "ask for hosted_changed_on_devices");
      }
      settle(placement, local, "inferred: never read");
      return;
    }
    if (placement.mode == hosted_nonconstant)
      settle(placement, hosted_changed_on_devices, "inferred: written");
    keep_on_device(tensor, placement, "inferred: an output");
  }

  void intermediate(const Tensor& tensor, BufferId id, Placement& placement) {
    if (placement.mode == hosted_constant) {
      refuse(tensor, placement, "the program assigns it", "ask for hosted_changed_on_devices");
    }
    if (placement.mode == hosted_nonconstant)
      settle(placement, hosted_changed_on_devices, "inferred: written");
    if (is_hosted(placement.mode) || placement.mode == on_device || placement.mode == local) return;
    if (placement.mode == materialized)
      return keep_on_device(tensor, placement, "inferred: materialized");
    if (placement.mode == never_virtual || placement.mode == device_only) {
      return settle(placement, local,
                    "inferred: assigned before it is read, used in this program only");
    }
    const Inlinable found = options_.inline_virtual ? find_definition(lowered_.loop, id)
                                                    : Inlinable{{}, "0: inlining is switched off"};
    if (placement.mode == virtual_) {
      if (!found.definition)
        refuse(tensor, placement, "cause " + found.refusal, "ask for on_device or local");
      return;
    }
    const Traced& facts = traced_[id];
    const bool cheap = facts.constant || facts.visits_max <= options_.max_visits;
    if (found.definition && (cheap || placement.mode == effectively_constant)) {
      settle(placement, virtual_, "inferred: recomputed where it is read");
    } else if (placement.mode == effectively_constant) {
      keep_on_device(tensor, placement,
                     "inferred: cannot be recomputed (cause " + found.refusal + ")");
    } else {
      settle(placement, local, "inferred: assigned before it is read, used in this program only");
    }
  }

  void set_role(BufferId id, MemoryMode mode) {
    if (mode == local) lowered_.loop.buffers[id].role = Role::scratch;
  }

  Lowered lowered_;
  const OptimizeOptions& options_;
  Signature signature_;
  std::vector<Traced> traced_;
};

}  // namespace

Lowered infer_placements(Lowered lowered, const OptimizeOptions& options) {
  return Inference(std::move(lowered), options).run();
}

}  // namespace heddle::jit
