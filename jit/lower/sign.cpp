// Signing: gathers the facts that linking needs about a kernel. Pure; any thread.
#include <unordered_map>

#include "jit/loop/donation.hpp"
#include "jit/lower/lower.hpp"

namespace heddle::jit {
namespace {

void sign_donations(const Loop& loop, std::vector<SignatureEntry>& entries) {
  const std::vector<BufferAccess> buffers(entries.begin(), entries.end());
  const Donations donations(loop, buffers);
  for (BufferId id = 0; id < entries.size(); ++id) {
    entries[id].last_read = donations.last_read(id);
    entries[id].first_write = donations.first_write(id);
    entries[id].takes = donations.taken_while_written(id);
  }
}

}  // namespace

Signature make_signature(const Lowered& lowered) {
  std::unordered_map<std::uint64_t, MemoryMode> modes;  // by Tensor::id()
  for (const auto& [tensor, placement] : lowered.placements)
    modes.emplace(tensor.id(), placement.mode);
  Signature signature;
  signature.statics = lowered.interface.statics;
  const auto& interface = lowered.interface.buffers;
  for (BufferId id = 0; id < lowered.loop.buffers.size(); ++id) {
    SignatureEntry entry;
    if (id < interface.size()) {
      static_cast<BufferAccess&>(entry) = interface[id];
    } else {  // a schedule's scratch
      entry.role = Role::scratch;
      entry.reads = entry.writes = entry.overwrites_whole = true;
    }
    // A schedule may join axes of a buffer, and shrink scratch.
    const Tensor& tensor = lowered.tensors[id];
    entry.type = {tensor.dtype(), tensor.dims()};
    if (entry.role == Role::merge) {
      signature.merge = id;
    } else if (const auto at = modes.find(lowered.tensors[id].id()); at != modes.end()) {
      entry.mode = at->second;
    } else {
      entry.mode = MemoryMode::local;
    }
    signature.entries.push_back(std::move(entry));
  }
  sign_donations(lowered.loop, signature.entries);
  return signature;
}

}  // namespace heddle::jit
