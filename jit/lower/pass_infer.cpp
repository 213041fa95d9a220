// Memory-mode inference: where each tensor of a program lives. The user's requests stay on the
// tensors; the decisions live in the kernel's placements, so compiling has no effect on other
// objects (O56). Pure; any thread.
//
//  never written                     hosted(constant) with host storage, else on_device
//  read before it is written         on_device, or hosted(changed_on_devices)
//  last written, not read after      an output: on_device, as no request says to discard it
//  written whole, then read          virtual where an element is read at most max_visits times, is
//                                    a constant, gives positions and is computed from indices,
//                                    or takes less to recompute than to store and load; and its
//                                    sums keep their schedule at the readers (taken_sums.hpp), and
//                                    scatters compute no costly element in scalar code, nor
//                                    several of them the same from several elements;
//                                    else local; on_device where asked
//
// A user's request refines the mode by the table of jit/describe/tensor.hpp; an incompatible
// request is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "heddle/status.hpp"
#include "jit/describe/tensor.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"
#include "jit/lower/pieces.hpp"
#include "jit/lower/taken_sums.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

using enum MemoryMode;

/// How the program uses a tensor, and the advice that follows.
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
        uses_(lowered_.loop),
        traced_(trace(lowered_.loop, options.max_tracing_dim + 1)),
        load_cost_(lowered_.loop.buffers.size(), 1),
        reads_(lowered_.loop.buffers.size(), 0),
        taken_sums_(uses_),
        read_last_(lowered_.loop.buffers.size(), false) {
    for (const StmtPtr& stmt : lowered_.loop.body) {
      const Block alone{stmt};
      std::set<BufferId> own;
      walk_values(alone, [this](const Value& v) {
        if (v.kind == ValueKind::load) read_last_[v.buffer] = true;
      });
      walk(alone, [&](const Stmt& s) {
        if (s.kind != StmtKind::store && s.kind != StmtKind::zero) return;
        read_last_[s.buffer] = false;
        own.insert(s.buffer);
      });
      count_reads(alone, 1, own);
    }
  }

  Lowered run() {
    const TensorBuffers buffers(lowered_);
    for (auto& [tensor, placement] : lowered_.placements) {
      const BufferId id = buffers[tensor];
      decide(tensor, id, placement);
      if (placement.mode == virtual_ && !traced_[id].constant) take_in(id);
      if (placement.mode == local || placement.mode == virtual_)
        lowered_.loop.buffers[id].role = Role::scratch;
    }
    return std::move(lowered_);
  }

 private:
  /// Exceeds the cost of any element that is worth recomputing.
  static constexpr std::int64_t unknown_cost = 1 << 20;

  /// Notes what the readers of a virtual buffer compute for each of its elements.
  void take_in(BufferId id) {
    const Inlinable inlinable = find_definition(uses_, id);
    load_cost_[id] = element_cost(id, inlinable).value_or(unknown_cost);
    if (inlinable.definition) taken_sums_.take(id, *inlinable.definition);
  }

  void decide(const Tensor& tensor, BufferId id, Placement& placement) const {
    const BufferAccess& access = lowered_.interface.buffers[id];
    if (!access.writes) return read_only(tensor, placement);
    if (placement.mode == hosted_constant) refuse(tensor, placement, assigned);
    if (placement.mode == hosted_nonconstant)
      settle(placement, hosted_changed_on_devices, "inferred: written");
    if (access.reads_before_writing) return keep_between_runs(tensor, placement);
    if (read_last_[id]) return intermediate(placement, id);
    // An output. Virtual and local outputs are dropped as the user asked; all other outputs are
    // kept.
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

  /// Refuses a user's request that leaves no room for a buffer that outlives the run.
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

  /// Operations and loads per element, including those of recomputed elements that it reads. None
  /// where an element takes more than one statement, too many operations to count, or elements of
  /// other sizes: elements of other sizes would keep readers from becoming vector code.
  std::optional<std::int64_t> element_cost(BufferId id, const Inlinable& inlinable) const {
    if (!inlinable.definition || inlinable.definition->parts.size() != 1) return std::nullopt;
    const Block& body = inlinable.definition->parts[0].body;
    if (body.size() != 1 || body[0]->kind != StmtKind::store) return std::nullopt;
    std::optional<std::size_t> size;  // a bool is a mask of lanes of any size
    bool alike = true;
    const auto add = [&](DType type) {
      if (type == DType::bool_) return;
      alike = alike && size_of(type) == size.value_or(size_of(type));
      size = size_of(type);
    };
    add(lowered_.loop.buffers[id].type.dtype);
    std::int64_t cost = cost_of(*body[0]->value);
    walk(*body[0]->value, [&](const Value& v) {
      if (v.kind == ValueKind::load) cost = std::min(cost + load_cost_[v.buffer], unknown_cost);
      add(v.dtype);
    });
    return alike && cost < unknown_cost ? std::optional(cost) : std::nullopt;
  }

  /// The number of reads per element: tracing finds elements that the first iterations read often,
  /// the mean finds elements that distant iterations read.
  double visits(BufferId id) const {
    const auto elements = static_cast<double>(*lowered_.loop.buffers[id].type.num_elements());
    return std::max(static_cast<double>(traced_[id].visits_max), reads_[id] / elements);
  }

  /// True if recomputing an element at each read is faster than storing and loading it.
  bool is_cheap(BufferId id) const {
    if (traced_[id].constant) return true;
    const bool is_read_once = visits(id) <= options_.max_visits;
    const Inlinable inlinable = find_definition(uses_, id);
    if (!inlinable.definition) return is_cheap_in_pieces(id, is_read_once);
    if (!taken_sums_.fit(id, *inlinable.definition)) return false;
    if (is_scalar_in_scatters(id, inlinable)) return false;
    if (is_read_once || (is_index(*inlinable.definition) && gives_positions(id))) return true;
    const std::optional<std::int64_t> cost = element_cost(id, inlinable);
    return cost && is_cheaper_than_loads(id, static_cast<double>(*cost));
  }

  /// True if scatters would compute the element in scalar code, as their rows are too short for
  /// vectors, and the element is costly; or several scatters would compute it from several
  /// elements.
  bool is_scalar_in_scatters(BufferId id, const Inlinable& inlinable) const {
    const std::int64_t cost = element_cost(id, inlinable).value_or(0);
    if (cost >= costly) return any_scatter_reads(id);
    return cost > 0 && loads_of(*inlinable.definition) > 1 && scatters_of(id).size() > 1;
  }

  static std::int64_t loads_of(const Definition& definition) {
    std::int64_t loads = 0;
    for (const DefinitionPart& part : definition.parts)
      walk_values(part.body, [&](const Value& v) { loads += v.kind == ValueKind::load ? 1 : 0; });
    return loads;
  }

  /// True if the statement reads the buffer in short rows at computed positions.
  bool is_scatter_of(KernelUses::Position at, BufferId id) const {
    constexpr std::int64_t vector_min = 16;
    bool found = false;
    const auto look = [&](const auto& self, const Block& body, bool is_scatter) -> void {
      for (const StmtPtr& stmt : body) {
        if (stmt->value && is_scatter) {
          walk(*stmt->value, [&](const Value& v) {
            found = found || (v.kind == ValueKind::load && v.buffer == id);
          });
        }
        const bool is_wide = stmt->kind == StmtKind::loop && stmt->to - stmt->from >= vector_min;
        const bool at_position = stmt->kind == StmtKind::at && !stmt->nearest;
        self(self, stmt->body, at_position || (is_scatter && !is_wide));
      }
    };
    look(look, Block{uses_[at]}, false);
    return found;
  }

  bool any_scatter_reads(BufferId id) const {
    return std::ranges::any_of(uses_.readers(id),
                               [&](const auto& reader) { return is_scatter_of(reader.first, id); });
  }

  /// The scatters that read the buffer, or what is computed from its elements alone.
  std::set<KernelUses::Position> scatters_of(BufferId id) const {
    std::set<KernelUses::Position> found;
    std::set<BufferId> known{id};
    for (std::vector<BufferId> left{id}; !left.empty();) {
      const BufferId each = left.back();
      left.pop_back();
      for (const auto& [at, loads] : uses_.readers(each)) {
        if (is_scatter_of(at, each)) {
          found.insert(at);
        } else if (const auto made = made_from_alone(at); made && known.insert(*made).second) {
          left.push_back(*made);
        }
      }
    }
    return found;
  }

  /// The buffer whose elements the statement computes from one element each.
  std::optional<BufferId> made_from_alone(KernelUses::Position at) const {
    StmtPtr stmt = uses_[at];
    while (stmt->kind == StmtKind::loop && stmt->body.size() == 1) stmt = StmtPtr(stmt->body[0]);
    if (stmt->kind != StmtKind::store) return std::nullopt;
    std::int64_t loads = 0;
    walk(*stmt->value, [&](const Value& v) { loads += v.kind == ValueKind::load ? 1 : 0; });
    return loads == 1 ? std::optional(stmt->buffer) : std::nullopt;
  }

  /// True if recomputing an element of that cost at each read is faster than storing and loading
  /// it.
  bool is_cheaper_than_loads(BufferId id, double cost) const {
    // Measured: an access beyond the first-level cache takes as long as two operations.
    constexpr std::int64_t near_bytes = 16 << 10;
    const double access = *lowered_.loop.buffers[id].type.num_bytes() > near_bytes ? 2 : 1;
    return visits(id) * cost < cost + access * (1 + visits(id));
  }

  static double elements(const Box& box) {
    double count = 1;
    for (const Interval& axis : box) count *= static_cast<double>(axis.highest - axis.lowest + 1);
    return count;
  }

  /// is_cheap() for a buffer without a definition. Where no pieces can be read, a buffer that is
  /// read once counts as cheap: inline_virtual() then says why it is stored.
  bool is_cheap_in_pieces(BufferId id, bool is_read_once) const {
    const std::optional<Pieces> pieces = find_pieces(uses_, id);
    if (!pieces) return is_read_once;
    NewNames unused;
    for (const auto& [at, loads] : uses_.readers(id)) {
      if (!read_in_pieces(uses_[at], id, *pieces, unused)) return is_read_once;
    }
    Definition all;
    std::optional<double> cost = 0;  // of all elements
    for (const Piece& piece : pieces->pieces) {
      all.parts.push_back(piece.part);
      Definition alone;
      alone.parts.push_back(piece.part);
      const std::optional<std::int64_t> each = element_cost(id, {std::move(alone), {}});
      cost = cost && each ? std::optional(*cost + static_cast<double>(*each) * elements(piece.box))
                          : std::nullopt;
    }
    if (!taken_sums_.fit(id, all)) return false;
    const auto stored = static_cast<double>(*lowered_.loop.buffers[id].type.num_elements());
    return is_read_once || (cost && is_cheaper_than_loads(id, *cost / stored));
  }

  /// True if an element is computed from indices and constants alone.
  static bool is_index(const Definition& definition) {
    bool loads = false;
    for (const DefinitionPart& part : definition.parts)
      walk_values(part.body, [&](const Value& v) { loads |= v.kind == ValueKind::load; });
    return !loads && definition.parts.size() == 1 && definition.parts[0].body.size() == 1;
  }
  /// True if the buffer is read for computed positions only.
  bool gives_positions(BufferId id) const {
    bool all = true;
    for (const auto& [at, loads] : uses_.readers(id)) {
      walk(Block{uses_[at]}, [&](const Stmt& stmt) {
        if (stmt.kind == StmtKind::at || !stmt.value) return;
        walk(*stmt.value,
             [&](const Value& v) { all = all && !(v.kind == ValueKind::load && v.buffer == id); });
      });
    }
    return all;
  }

  /// Counts reads of buffers by statements that do not assign them, in a body that runs `times`
  /// times.
  void count_reads(const Block& body, double times, const std::set<BufferId>& own) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop)
        count_reads(stmt->body, times * static_cast<double>(stmt->to - stmt->from), own);
      if (stmt->kind == StmtKind::at) count_reads(stmt->body, times, own);
      if (!stmt->value) continue;
      walk(*stmt->value, [&](const Value& v) {
        if (v.kind == ValueKind::load && !own.contains(v.buffer)) reads_[v.buffer] += times;
      });
    }
  }

  void intermediate(Placement& placement, BufferId id) const {
    constexpr std::string_view within =
        "inferred: assigned before it is read, used in this program only";
    const bool cheap = is_cheap(id);
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
        return;  // local, on_device and hosted are final
    }
  }

  Lowered lowered_;
  const OptimizeOptions& options_;
  const KernelUses uses_;
  std::vector<Traced> traced_;
  std::vector<std::int64_t> load_cost_;  // per buffer
  std::vector<double> reads_;            // per buffer: total loads of its elements
  TakenSums taken_sums_;
  std::vector<bool> read_last_;  // per buffer: a statement after its last assignment reads it
};

}  // namespace

TensorBuffers::TensorBuffers(const Lowered& lowered) {
  for (BufferId id = 0; id < lowered.tensors.size(); ++id) {
    if (lowered.loop.buffers[id].role != Role::merge) ids_.emplace(lowered.tensors[id].id(), id);
  }
}

BufferId TensorBuffers::operator[](const Tensor& tensor) const {
  const auto at = ids_.find(tensor.id());
  if (at != ids_.end()) return at->second;
  throw Error(ErrorCode::internal, "tensor '" + tensor.label() + "' has no buffer in its program");
}

Lowered infer_placements(Lowered lowered, const OptimizeOptions& options) {
  return Inference(std::move(lowered), options).run();
}

}  // namespace heddle::jit
