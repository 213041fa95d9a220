// What compilers made of a kernel: its instructions.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

#include "heddle/kernel.h"
#include "jit/system/process.hpp"
#include "scratch.hpp"

namespace heddle::jit::testing {

#if defined(__x86_64__)
/// The instructions of a function, by objdump.
inline std::string disassembly(heddle_kernel_function function) {
  Dl_info where{};
  const ElfW(Sym)* symbol = nullptr;
  if (dladdr1(reinterpret_cast<void*>(function), &where,
              reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr) {
    return {};
  }
  const Scratch scratch;
  const auto path = scratch.path() / "code";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(function),
             static_cast<std::streamsize>(symbol->st_size));
  const auto text = scratch.path() / "text";
  const std::string command = "objdump -D -b binary -mi386:x86-64 " + path.string() + " > ";
  const RunResult result =
      run_command({{"/bin/sh", "-c", command + text.string()}, {}}, std::chrono::minutes(1));
  return result.exit.success() ? read_text(text) : std::string();
}

/// How many of its instructions have one of `names` at the beginning of theirs, and one of `parts`
/// behind that. A regular expression takes seconds for what this does in a millisecond.
inline int count_instructions(std::string_view code, std::initializer_list<std::string_view> names,
                              std::initializer_list<std::string_view> parts = {""}) {
  int count = 0;
  while (!code.empty()) {
    const std::size_t end = std::min(code.find('\n'), code.size());
    const std::string_view line = code.substr(0, end);
    code.remove_prefix(std::min(end + 1, code.size()));
    const std::size_t at = line.rfind('\t');  // address, bytes and text lie between tabs
    if (at == std::string_view::npos) continue;
    const std::string_view text = line.substr(at + 1);
    const auto begins = [&](std::string_view name) { return text.starts_with(name); };
    const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
    if (std::ranges::any_of(names, begins) && std::ranges::any_of(parts, has)) ++count;
  }
  return count;
}
#endif

}  // namespace heddle::jit::testing
