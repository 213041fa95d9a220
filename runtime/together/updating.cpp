// See runtime/together/updating.hpp.
#include "runtime/together/updating.hpp"

#include <algorithm>
#include <iterator>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/giving.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle::rt {
namespace {

bool is_among(const std::vector<Tensor>& list, const Tensor& tensor) {
  return std::ranges::find(list, tensor) != list.end();
}

/// Calls f(tensor, entry of the signature) for each stored tensor of the code that is not a
/// constant.
template <class F>
void each_variable(const Code& code, const F& f) {
  const jit::CodeData& data = *Inside::of(code);
  for (std::size_t k = 0; k < data.signature().entries.size(); ++k) {
    const jit::SignatureEntry& entry = data.signature().entries[k];
    if (is_stored(data, k) && entry.mode != MemoryMode::hosted_constant) f(*data.tensor(k), entry);
  }
}

/// Tells whether gradient and update share only sums and parameters, and the gradient does not
/// write parameters. The rest of the tensors are then the device's own.
bool shares_no_more(const DataParallelOptions& options) {
  const jit::CodeData& gradient = *Inside::of(options.gradient);
  bool right = true;
  each_variable(options.update, [&](const Tensor& tensor, const jit::SignatureEntry& /*entry*/) {
    const auto at = entry_of(gradient, tensor);
    if (!at || is_among(options.sums, tensor)) return;
    const bool leaves = !gradient.signature().entries[*at].writes;
    right = right && leaves && is_among(options.parameters, tensor);
  });
  return right;
}

/// Tells whether every device reaches the sums of every device in place.
bool share_sums(const DataParallelOptions& options, const std::vector<Context>& contexts) {
  return std::ranges::all_of(contexts, [&](const Context& reader) {
    const Execution& execution = *Inside::of(reader.device())->execution;
    return std::ranges::all_of(contexts, [&](const Context& context) {
      return std::ranges::all_of(options.sums, [&](const Tensor& each) {
        return reaches(execution, *Inside::of(context.view(each).buffer()));
      });
    });
  });
}

/// A tensor's memory, and whether updates write there.
struct UsedMemory {
  BufferView view;
  bool written;
};

/// The memory of tensors used by gradient or update, and of the parameters.
std::vector<UsedMemory> places(const DataParallelOptions& options, const Context& context) {
  std::vector<Tensor> seen;
  std::vector<UsedMemory> all;
  const auto add = [&](const Tensor& tensor, bool written) {
    if (is_among(seen, tensor)) return;
    seen.push_back(tensor);
    all.push_back({context.view(tensor), written});
  };
  each_variable(options.update, [&](const Tensor& tensor, const jit::SignatureEntry& entry) {
    add(tensor, entry.writes);
  });
  each_variable(options.gradient, [&](const Tensor& tensor, const jit::SignatureEntry& /*entry*/) {
    if (context.contains(tensor)) add(tensor, false);
  });
  for (const Tensor& each : options.parameters) add(each, false);
  return all;
}

/// Tells whether memory that updates write overlaps no memory of a different tensor or device.
bool write_their_own(const DataParallelOptions& options, const std::vector<Context>& contexts) {
  std::vector<UsedMemory> all;
  for (const Context& each : contexts)
    std::ranges::copy(places(options, each), std::back_inserter(all));
  for (std::size_t k = 0; k < all.size(); ++k) {
    for (std::size_t n = 0; n < k; ++n) {
      if ((all[k].written || all[n].written) && overlap(all[k].view, all[n].view)) return false;
    }
  }
  return true;
}

std::vector<Tensor> what_updates_find(const DataParallelOptions& options) {
  std::vector<Tensor> state = options.parameters;
  each_variable(options.update, [&](const Tensor& tensor, const jit::SignatureEntry& entry) {
    const bool read = entry.reads_before_writing && !is_among(options.sums, tensor);
    if (read && !is_among(state, tensor)) state.push_back(tensor);
  });
  return state;
}

}  // namespace

Updating link_updates(const DataParallelOptions& options, std::vector<Context>& contexts) {
  Updating updating{{contexts[0].link(options.update)}, options.parameters, contexts.size() == 1};
  contexts[0] = updating.routines[0].context();
  if (updating.by_all || !share_sums(options, contexts) || !shares_no_more(options))
    return updating;
  std::vector<Routine> routines = updating.routines;
  std::vector<Context> linked{contexts[0]};
  try {
    for (std::size_t k = 1; k < contexts.size(); ++k) {
      routines.push_back(contexts[k].link(options.update));
      linked.push_back(routines.back().context());
    }
    if (!write_their_own(options, linked)) return updating;
  } catch (const Error&) {  // a device lacks tensors of the first device, or memory
    return updating;
  }
  contexts = std::move(linked);
  return {std::move(routines), what_updates_find(options), true};
}

}  // namespace heddle::rt
