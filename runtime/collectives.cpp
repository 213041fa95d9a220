// Collectives, as routines and copies of a recording.
//
// Where all devices reach each other's memory, the device that keeps a sum reads all its terms in
// place, in one kernel. So each byte is read once for each device and written once, and the order
// of the additions is that of the list, whoever adds. A large all-reduce is a reduce-scatter and an
// all-gather in place (Thakur, Rabenseifner, Gropp 2005): each device adds up a part, then fetches
// the others'. A small one is added up by the first device. Elsewhere the root fetches all terms
// one after the other, by merges.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "heddle/backend.hpp"
#include "heddle/replay.hpp"
#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/buffer_state.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"

namespace heddle {
namespace {

/// Below that many bytes, waits cost more than adding up all by one device.
constexpr std::size_t parts_bytes_min = 16384;

/// Elements of a tensor's memory.
struct Piece {
  BufferView view;
  [[nodiscard]] std::int64_t count() const { return *view.type().num_elements(); }
  [[nodiscard]] Piece part(std::int64_t begin, std::int64_t some) const {
    const DType dtype = view.type().dtype;
    return {{view.buffer(),
             {dtype, {some}},
             view.offset() + static_cast<std::size_t>(begin) * size_of(dtype)}};
  }
};

class Collective {
 public:
  Collective(Recording& recording, const char* name, const Tensor& tensor,
             std::span<const Context> contexts)
      : recording_(recording), name_(name), tensor_(tensor), contexts_(contexts) {
    if (contexts.empty()) refuse("needs a context at least");
    for (std::size_t k = 0; k < contexts.size(); ++k) {
      const Device device = contexts[k].device();
      for (std::size_t before = 0; before < k; ++before) {
        if (contexts[before].device() == device)
          refuse(fmt::format("has contexts {} and {} on one device, {}", before, k, device.name()));
      }
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return contexts_.size(); }
  void require_root(std::size_t root) const {
    if (root < size()) return;
    refuse(fmt::format("has root {} (expected below {}, the number of contexts)", root, size()));
  }
  /// `part`, of which `whole` has as many as there are contexts.
  void require_parts(const Tensor& part, const Tensor& whole) const {
    const auto parts = static_cast<std::int64_t>(size());
    if (part.type().dtype == whole.type().dtype &&
        whole.num_elements() == parts * part.num_elements())
      return;
    refuse(fmt::format(
        "takes {} parts '{}' {} for '{}' {} (expected the same dtype, and as many "
        "elements)",
        parts, part.label(), part.type().to_string(), whole.label(), whole.type().to_string()));
  }

  /// All of a tensor, in the k-th context.
  [[nodiscard]] Piece piece(std::size_t k, const Tensor& tensor) const {
    const BufferView view = contexts_[k].view(tensor);
    return Piece{view}.part(0, tensor.num_elements());
  }
  [[nodiscard]] std::vector<Piece> pieces(const Tensor& tensor) const {
    std::vector<Piece> all;
    for (std::size_t k = 0; k < size(); ++k) all.push_back(piece(k, tensor));
    return all;
  }
  /// Whether each device reads the memory of all these in place.
  [[nodiscard]] bool share_memory(const std::vector<Piece>& all) const {
    return std::ranges::all_of(contexts_, [&](const Context& context) {
      return std::ranges::all_of(all, [&](const Piece& each) {
        return rt::reaches(*Inside::of(context.device())->execution,
                           *Inside::of(each.view.buffer()));
      });
    });
  }

  /// By the k-th device, whose context has `to` if that is `from` elsewhere.
  void copy(std::size_t from_k, const Piece& from, std::size_t k, const Piece& to) {
    if (to.count() == 0) return;
    const Tensor moved(tensor_.label(), to.view.type().dtype, {to.count()});
    recording_.copy(moved, Context(contexts_[from_k].device()).with(moved, from.view),
                    Context(contexts_[k].device()).with(moved, to.view));
  }
  /// By the k-th device, which reaches all terms; `to` may be one of them.
  void add_up(std::size_t k, const std::vector<Piece>& terms, const Piece& to) {
    if (to.count() == 0) return;
    const Device device = contexts_[k].device();
    Context context(device);
    const auto named = [&](const Piece& piece, const std::string& label) {
      const Tensor tensor(label, piece.view.type().dtype, {piece.count()});
      context = context.with(tensor, piece.view);
      return tensor;
    };
    std::optional<Tensor> target;
    std::vector<Tensor> tensors;
    for (std::size_t n = 0; n < terms.size(); ++n) {
      tensors.push_back(named(terms[n], fmt::format("{}.{}", tensor_.label(), n)));
      if (is_same(terms[n], to)) target = tensors.back();
    }
    if (!target) target = named(to, tensor_.label());
    Index i;
    Expr sum = tensors[0](i);
    for (std::size_t n = 1; n < tensors.size(); ++n) sum = sum + tensors[n](i);
    Program program(name_);
    program << ((*target)(i) = sum);
    recording_.schedule(context.link(device.backend().compile(program)));
  }
  /// By the root, which reaches its own memory alone.
  void fetch_and_add_up(std::size_t root, const std::vector<Piece>& terms, const Piece& to) {
    if (to.count() == 0) return;
    const Device device = contexts_[root].device();
    const Tensor t(tensor_.label(), to.view.type().dtype, {to.count()});
    const Piece sum{{Buffer::allocate(device, t.type()), t.type()}};
    copy(0, terms[0], root, sum);
    Index i;
    Program program(name_);
    program << (t(i) = t(i) + heddle::merge(t)(i));
    const Routine add = Context(device).with(t, sum.view).link(device.backend().compile(program));
    for (std::size_t k = 1; k < size(); ++k) {
      recording_.merge(add, Context(contexts_[k].device()).with(t, terms[k].view),
                       MergeMode::stream);
    }
    copy(root, sum, root, to);
  }

  void reduce(std::size_t root, const std::vector<Piece>& terms, const Piece& to) {
    if (share_memory(terms)) {
      add_up(root, terms, to);
    } else {
      fetch_and_add_up(root, terms, to);
    }
  }
  void broadcast(std::size_t root, const std::vector<Piece>& all) {
    for (std::size_t k = 0; k < size(); ++k) {
      if (k != root) copy(root, all[root], k, all[k]);
    }
  }
  /// The k-th of as many parts as there are devices, in elements: each begins a line of its own.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> part_of(std::size_t k) const {
    const auto line =
        static_cast<std::int64_t>(64 / std::min<std::size_t>(64, size_of(tensor_.type().dtype)));
    const std::int64_t count = tensor_.num_elements(), parts = static_cast<std::int64_t>(size());
    const std::int64_t each = ((count + parts - 1) / parts + line - 1) / line * line;
    const std::int64_t begin = std::min(count, each * static_cast<std::int64_t>(k));
    return {begin, std::min(each, count - begin)};
  }
  void all_reduce(const std::vector<Piece>& all) {
    const std::size_t bytes = all[0].view.num_bytes();
    if (bytes < parts_bytes_min || !share_memory(all)) {
      reduce(0, all, all[0]);
      return broadcast(0, all);
    }
    const auto parts_of = [&](std::size_t k) {
      const auto [begin, some] = part_of(k);
      std::vector<Piece> parts;
      for (const Piece& each : all) parts.push_back(each.part(begin, some));
      return parts;
    };
    for (std::size_t k = 0; k < size(); ++k) add_up(k, parts_of(k), parts_of(k)[k]);
    for (std::size_t k = 0; k < size(); ++k) broadcast(k, parts_of(k));
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of tensor '{}' {}", name_, tensor_.label(), why));
  }
  static bool is_same(const Piece& a, const Piece& b) {
    return a.view.buffer() == b.view.buffer() && a.view.offset() == b.view.offset();
  }

  Recording& recording_;
  const char* const name_;
  const Tensor tensor_;
  const std::span<const Context> contexts_;
};

}  // namespace

void Recording::reduce(const Tensor& tensor, std::span<const Context> contexts, std::size_t root) {
  Collective collective(*this, "reduce", tensor, contexts);
  collective.require_root(root);
  const auto all = collective.pieces(tensor);
  if (all.size() > 1) collective.reduce(root, all, all[root]);
}

void Recording::broadcast(const Tensor& tensor, std::span<const Context> contexts,
                          std::size_t root) {
  Collective collective(*this, "broadcast", tensor, contexts);
  collective.require_root(root);
  collective.broadcast(root, collective.pieces(tensor));
}

void Recording::all_reduce(const Tensor& tensor, std::span<const Context> contexts) {
  Collective collective(*this, "all_reduce", tensor, contexts);
  const auto all = collective.pieces(tensor);
  if (all.size() > 1) collective.all_reduce(all);
}

void Recording::all_gather(const Tensor& part, const Tensor& whole,
                           std::span<const Context> contexts) {
  Collective collective(*this, "all_gather", part, contexts);
  collective.require_parts(part, whole);
  const auto parts = collective.pieces(part), wholes = collective.pieces(whole);
  for (std::size_t k = 0; k < contexts.size(); ++k) {
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      const std::int64_t some = part.num_elements();
      collective.copy(n, parts[n], k, wholes[k].part(some * static_cast<std::int64_t>(n), some));
    }
  }
}

void Recording::reduce_scatter(const Tensor& whole, const Tensor& part,
                               std::span<const Context> contexts) {
  Collective collective(*this, "reduce_scatter", whole, contexts);
  collective.require_parts(part, whole);
  const auto parts = collective.pieces(part), wholes = collective.pieces(whole);
  for (std::size_t k = 0; k < contexts.size(); ++k) {
    std::vector<Piece> terms;
    for (const Piece& each : wholes) {
      const std::int64_t some = part.num_elements();
      terms.push_back(each.part(some * static_cast<std::int64_t>(k), some));
    }
    collective.reduce(k, terms, parts[k]);
  }
}

}  // namespace heddle
